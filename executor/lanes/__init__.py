"""Which run may start now: a lane per job, admission to it, readiness of the executor."""

"""Apps, executors, schedulers, consoles, leases, pauses, and the cluster itself."""

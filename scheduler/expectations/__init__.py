"""Expectations of a job: when it starts, ends and succeeds, as users write them. Pure."""

"""Who takes part: executors as their heartbeats show them, and this scheduler's own health."""

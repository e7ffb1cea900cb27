"""Who is there: apps, executors, schedulers, leases, and the cluster itself."""

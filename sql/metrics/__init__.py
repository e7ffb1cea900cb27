"""What Prometheus reads: counts that schedulers add up, and the last success of jobs."""

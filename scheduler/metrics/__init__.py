"""What schedulers count for Prometheus: in memory after each commit, stored every few seconds."""

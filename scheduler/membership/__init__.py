"""Cluster membership: executors as their heartbeats show them, and this scheduler's own health."""

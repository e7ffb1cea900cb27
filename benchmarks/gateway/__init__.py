"""Measures the gateway with executors of XXL-JOB's protocol that do nothing."""

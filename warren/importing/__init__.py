"""Converts jobs of other schedulers: XXL-JOB, cron, Celery beat."""

"""Converts jobs of other schedulers into job files: XXL-JOB, cron, Celery beat."""

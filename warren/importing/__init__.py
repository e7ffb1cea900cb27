"""Reads the jobs of other schedulers and says what they are here: XXL-JOB, cron, Celery beat."""

"""Serves XXL-JOB's executors: each registered URL is an executor whose slots are remote."""

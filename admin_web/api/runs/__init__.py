"""Answers about runs and their logs, and requests that wait for a run to end."""

"""Stores the logs of finished runs: which wait for it, and how they get into the log store.

It also prints the lines of logs, if that is asked for.
"""

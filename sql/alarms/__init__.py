"""Alarms and other messages about runs: stored, rate-limited, and claimed for sending."""

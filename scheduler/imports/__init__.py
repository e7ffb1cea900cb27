"""Brings in apps, jobs, users and finished runs from elsewhere, and remembers where from."""

"""Acme's jobs."""

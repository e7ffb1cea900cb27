"""Counts runs for the day report, and deletes expired ones."""

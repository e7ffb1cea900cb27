"""Expressions in a job's settings: a small language, and the functions that it knows."""

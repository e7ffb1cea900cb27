"""Answers that are files: which requests ask for one, and how many each user may have at a time."""

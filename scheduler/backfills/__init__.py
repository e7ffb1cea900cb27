"""Backfills: which due times they have, and what plans their runs, a limited number at once."""

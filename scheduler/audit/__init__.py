"""Proves from the history that each due time was decided exactly once."""

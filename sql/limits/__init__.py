"""Limits that jobs share: their settings, the runs that hold them, and what lists show of both."""

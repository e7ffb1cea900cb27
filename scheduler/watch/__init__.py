"""Watches that jobs do what is expected of them, and opens incidents when they do not."""

"""Job files: what applying one would change, and applying it."""

"""The checks of `warren check`; each returns what it found, or raises what is wrong."""

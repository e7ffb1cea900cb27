"""The checks of `warren check`; each returns a line for the terminal, or raises what is wrong."""

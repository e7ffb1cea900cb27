"""The files that runs log to: where each one is, what it holds, and how long it may get."""

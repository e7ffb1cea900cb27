"""Run logs on pages, read from the executors that have them."""

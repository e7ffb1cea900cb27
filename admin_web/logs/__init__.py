"""Run logs on pages, asked of the executors that hold them."""

"""One boot of an executor: its assembly, its event loop on one thread, its orderly shutdown."""

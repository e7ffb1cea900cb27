"""The executor's durable memory: an append-only file and the state of each run in it."""

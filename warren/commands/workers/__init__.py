"""Commands that run executors, gateways and API processes until they are stopped."""

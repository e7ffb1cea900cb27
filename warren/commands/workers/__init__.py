"""Commands that run schedulers, executors, gateways, consoles and APIs until they are stopped."""

"""Commands that run jobs without a database, until they are stopped."""

"""The broker in memory, for `warren up` and for tests."""

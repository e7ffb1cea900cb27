"""Support for tests: private services, real commands, waiting, /proc."""

"""What tests stand on: private services, real commands, waiting, /proc."""

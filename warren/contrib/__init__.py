"""What makes other libraries' code run as handlers; each is imported by those who have it."""

"""What an import asks of both databases: rows of a foreign one, and what was imported so far."""

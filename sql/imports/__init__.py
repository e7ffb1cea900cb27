"""What an import reads of a foreign database, and stores about imported items."""

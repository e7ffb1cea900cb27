"""Search pages: anything by its name, and runs by their errors."""

"""Console and API as processes: HTTP server, broker connections, registration."""

"""The console as a process: its server, its connections, its registration."""

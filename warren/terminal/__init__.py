"""What the command line prints: jobs, runs and processes, as tables and lines."""

"""Jobs, runs and processes as shown on a terminal."""

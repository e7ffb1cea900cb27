"""Jobs, runs and processes as a terminal shows them."""

"""A service beside the jobs."""

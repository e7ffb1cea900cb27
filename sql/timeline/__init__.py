"""What the timeline and a job's calendar ask of runs: spans of time, day by day."""

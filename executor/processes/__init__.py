"""The executor's side of job processes: slots, starts, stops, results."""

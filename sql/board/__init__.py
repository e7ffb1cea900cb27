"""What the board shows: the state of jobs, their errors, and quarters of an hour, as stored."""

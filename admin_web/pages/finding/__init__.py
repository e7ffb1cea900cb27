"""Search pages: runs by their errors, anything by name, the history of a job."""

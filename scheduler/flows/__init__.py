"""Flows: the graph of a job whose run is the run of its nodes, and the judge of its ends. Pure."""

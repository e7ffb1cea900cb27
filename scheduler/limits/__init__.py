"""Limits that jobs share, and jobs whose scope is the cluster: what they say, and their room."""

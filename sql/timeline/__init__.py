"""Queries of the timeline and of a job's calendar."""

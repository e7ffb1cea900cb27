"""Runs: planning, transitions between states by guarded updates, queries, deletion."""

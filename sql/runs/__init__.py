"""Runs: planned, moved from state to state by guarded updates, asked about, cleared."""

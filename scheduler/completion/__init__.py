"""How a run ends, and what its end leads to: retries, children, the next tick, an alarm."""

"""Which executor a run goes to: ten routes, added ones, and the probes they need."""

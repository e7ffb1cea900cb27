"""Which executor a run goes to: ten strategies, added routes, and the probes they need."""

from scheduler.routing.hash_ring import consistent_hash

__all__ = ["consistent_hash"]

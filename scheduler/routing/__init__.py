"""Which executor a run goes to: eleven routes, added ones, and the probes they need."""

from warren.scheduler.routing.routes import consistent_hash

__all__ = ["consistent_hash"]

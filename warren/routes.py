"""What a route of one's own is made of: docs/jobs.md says how to install one."""

from warren.scheduler.routing.choice import Choice, Memory, Probe, ProbeAnswer, Router, RouteRequest

__all__ = ["Choice", "Memory", "Probe", "ProbeAnswer", "RouteRequest", "Router"]

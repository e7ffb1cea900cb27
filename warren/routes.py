"""What users import to write their own routes; docs/jobs.md says how to install one."""

from warren.scheduler.routing.routes import Choice, Memory, Probe, ProbeAnswer, Router, RouteRequest

__all__ = ["Choice", "Memory", "Probe", "ProbeAnswer", "RouteRequest", "Router"]

"""Cron expressions, by Quartz's syntax and semantics: when they fire, and what they mean."""

from warren.scheduler.cron.expression import next_fires

__all__ = ["next_fires"]

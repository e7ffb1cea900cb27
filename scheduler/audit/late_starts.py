"""Decides which late starts break a job's misfire policy.

A run may start late because its executor was full or absent. If no scheduler could send it in time,
or its app was paused, and the policy is to skip missed runs, it must not start at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warren.scheduler.membership.uptime import due_times
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.sql.registry.uptimes import Downtime
from warren.sql.runs.tick_rows import DelayedTick, TickRow


@dataclass(frozen=True, slots=True)
class LateStartRule:
    """The times in which nothing could be sent, for a job that skips the runs it missed then."""

    downtimes: Sequence[Downtime] = ()

    @staticmethod
    def of(policy: str, downtimes: Sequence[Downtime]) -> "LateStartRule":
        """Return the rule of a policy; one that makes up for missed runs forbids nothing."""
        return LateStartRule(downtimes if policy == MisfirePolicy.DO_NOTHING else ())

    def forbids(self, row: TickRow | DelayedTick) -> bool:
        """Whether the run started late although it should have been skipped."""
        if row.late_due_at is None:
            return False
        spans = zip(self.downtimes, due_times(self.downtimes), strict=True)
        return any(
            span.from_ms <= row.late_due_at < span.to_ms and row.routed_at >= one.to_ms
            for one, span in spans
        )

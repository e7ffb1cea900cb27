"""Which late starts are against a job's misfire policy: a pure question of the audit.

A run that waited for a full or absent executor may start late; one that no scheduler could send in
time may not, where the policy is to skip it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.membership.uptime import due_times
from scheduler.schedules.misfire import MisfirePolicy
from sql.registry.uptimes import Downtime
from sql.runs.tick_rows import DelayedTick, TickRow


@dataclass(frozen=True, slots=True)
class Lateness:
    """The times in which no scheduler could send, of a job that skips what it missed in them."""

    downtimes: Sequence[Downtime] = ()

    @staticmethod
    def of(policy: str, downtimes: Sequence[Downtime]) -> "Lateness":
        """Return what a job of this policy was to skip: nothing, if it makes up for misses."""
        return Lateness(downtimes if policy == MisfirePolicy.DO_NOTHING else ())

    def is_wrong(self, row: TickRow | DelayedTick) -> bool:
        """Whether a run that was sent and started late, if this is one, was to be skipped."""
        if row.late_due_at is None:
            return False
        spans = zip(self.downtimes, due_times(self.downtimes), strict=True)
        return any(
            span.from_ms <= row.late_due_at < span.to_ms and row.routed_at >= one.to_ms
            for one, span in spans
        )

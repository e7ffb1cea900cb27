"""Decides which late starts break a job's late limit.

A run may start late because its executor was full or absent. What counts is how long no scheduler
could send it, or its app was paused: if that is over the limit and the policy is to skip such runs,
it must not start at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warren.scheduler.membership.uptime import due_times
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.sql.job_choices import LATE_LIMIT_SECONDS
from warren.sql.models import History
from warren.sql.registry.uptimes import Downtime
from warren.sql.runs.tick_rows import DelayedTick, TickRow


@dataclass(frozen=True, slots=True)
class LateStartRule:
    """The times in which nothing could be sent, for a job that skips what they make too late.

    `changes` are the job's, in order: the limit counts that was in force when it was decided.
    """

    downtimes: Sequence[Downtime] = ()
    changes: Sequence[History] = ()

    @staticmethod
    def of(
        policy: str, downtimes: Sequence[Downtime], changes: Sequence[History]
    ) -> "LateStartRule":
        """Return the rule of a policy; one that makes up for missed runs forbids nothing."""
        return LateStartRule(downtimes if policy == MisfirePolicy.DO_NOTHING else (), changes)

    def forbids(self, row: TickRow | DelayedTick) -> bool:
        """Whether the run started late although it should have been skipped."""
        if row.late_due_at is None:
            return False
        limit_ms = self._limit_ms(row.decided_at)
        each = (span for one in self.downtimes for span in due_times([one]))
        return any(
            span.from_ms <= row.late_due_at < span.over_ms - limit_ms
            and row.routed_at >= span.over_ms
            for span in (*each, *due_times(self.downtimes))
        )

    def _limit_ms(self, at_ms: int) -> int:
        """Return the limit in force at an instant; before the first change, the first one.

        The end of a schedule notes none.
        """
        known = [one for one in self.changes if one.late_limit]
        before = [one.late_limit for one in known if one.changed_at <= at_ms]
        first = known[0].late_limit if known else LATE_LIMIT_SECONDS
        return 1_000 * (before[-1] if before else first)

"""The time zone of jobs that name none, and what happens when schedulers start with another one.

A job's ticks up to then are decided in the zone of its history; from then on it continues in the
new one. The change is recorded there, as the audit computes each tick in the zone of its time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.misfire import Plan
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.registry import ZONED_KINDS
from warren.scheduler.schedules.working_days import Calendars
from warren.sql.batch import chunks
from warren.sql.engine import Database
from warren.sql.jobs import due_jobs, history
from warren.sql.jobs.due_jobs import JobToPlan

log = structlog.get_logger()


class ZoneChange:
    """Moves jobs from the zones of their histories into this scheduler's.

    Schedulers with different zones would take jobs from each other at each tick; even then every
    tick is decided in the zone that is recorded.
    """

    def __init__(self, database: Database, timezone: str) -> None:
        self._database = database
        self._timezone = timezone
        self._is_checked = False

    def check(self, *, at_ms: int) -> None:
        """Have jobs of another zone claimed at this time; once, as later each comes up in its turn.

        Their next tick is stored in the old zone, and the new one may have an earlier one.
        """
        if self._is_checked:
            return
        affected = self._database.read(
            lambda session: history.in_other_zones(session, self._timezone, kinds=ZONED_KINDS)
        )
        for job_ids in chunks(affected):
            self._make_due(job_ids, at_ms)
        if affected:
            log.warning("timezone_changed", timezone=self._timezone, jobs=len(affected))
        self._is_checked = True

    def of(self, session: Session, jobs: Sequence[JobToPlan]) -> dict[int, str]:
        """Return the zone in which each of the claimed jobs' next ticks are due, by id."""
        own = {job.id: job.timezone or self._timezone for job in jobs}
        return own | history.zones(session, [job.id for job in jobs if _names_none(job)])

    def has_left(self, job: JobToPlan, zone: str) -> bool:
        """Whether a job is to leave the zone in which its next ticks are due."""
        return _names_none(job) and zone != self._timezone

    def goes_on(self, job: JobToPlan, plan: Plan, now_ms: int, calendars: Calendars) -> Plan:
        """Return a plan that is not behind, with its next tick in this zone instead."""
        watermark_ms = max(plan.watermark_ms, now_ms)
        schedule = read_schedule(ScheduleFacts.of(job, self._timezone), calendars)
        next_ms = schedule.next_after(watermark_ms, job.next_tick_at)
        return replace(plan, watermark_ms=watermark_ms, next_ms=next_ms)

    def record(
        self, session: Session, moved: Iterable[tuple[JobToPlan, Plan]], now_ms: int
    ) -> None:
        """Record the schedules of jobs that continue here; ended ones are recorded as stopped."""
        rows = [
            (
                job.id,
                job._asdict() | {"last_tick_at": plan.watermark_ms, "next_tick_at": plan.next_ms},
                self._timezone,
            )
            for job, plan in moved
            if plan.next_ms is not None
        ]
        history.record_starts(session, rows, by="scheduler", now_ms=now_ms)

    def _make_due(self, job_ids: Iterable[int], at_ms: int) -> None:
        self._database.write(
            lambda session: due_jobs.make_due(session, job_ids, kinds=ZONED_KINDS, at_ms=at_ms)
        )


def _names_none(job: JobToPlan) -> bool:
    return not job.timezone and (
        job.schedule_kind in ZONED_KINDS or job.schedule_options is not None
    )

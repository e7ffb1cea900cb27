"""Starting, stopping and replacing a job's schedule, inside the caller's transaction.

Each first decides the ticks that nobody has decided yet, so that no due time is lost between an
old schedule and a new one, and never goes below the watermark.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from broker.reasons.codes import Why
from scheduler.commands.command_context import CommandContext
from scheduler.explanations import explanation
from scheduler.problems import Code, Problem
from scheduler.schedules.fixed_rate import FixedRate
from scheduler.schedules.no_schedule import NoSchedule
from scheduler.schedules.registry import read_schedule
from scheduler.schedules.schedule import Schedule
from sql.explanation import Explanation
from sql.jobs import history
from sql.jobs.parked import PARKED_MS
from sql.models import Job, SkippedTicks
from sql.run_status import OPEN, Kind
from sql.runs import ticks, transitions

#: What a schedule's tick becomes; a retry of it as well, once a person has said stop.
TICKS = (Kind.SCHEDULE, Kind.MISFIRE)
_TICKS_AND_RETRIES = (*TICKS, Kind.RETRY)


class ScheduleChanges:
    """Changes schedules on behalf of the caller."""

    def __init__(self, context: CommandContext) -> None:
        self._timezone = context.timezone
        self._who = context.actor.who

    def start(self, session: Session, job: Job, now_ms: int) -> bool:
        """Start a locked job's schedule; False when it is started already.

        A fixed delay fires at once, or after the end of what its schedule has caused before.
        """
        if job.is_enabled == 1:
            return False
        self._begin(session, job, now_ms)
        self.record(session, job, now_ms)
        return True

    def begin(self, job: Job, now_ms: int) -> None:
        """Start the schedule of a job that is not stored yet; `record` it when storing.

        Raises:
            Problem: it has no schedule, or one that never fires again.

        """
        self._begin(None, job, now_ms)

    def take_over(self, session: Session, job: Job, next_ms: int, now_ms: int) -> None:
        """Start a locked job whose ticks another scheduler has decided, up to before `next_ms`.

        Those from then to now are late, and left to the job's misfire policy. `next_ms` 0 = nobody
        knows: it starts now.

        Raises:
            Problem: it has no schedule, or one that never fires again.

        """
        if not next_ms:
            self.start(session, job, now_ms)
            return
        schedule = self._schedule(job)
        # Before a tick to come nothing else is due, but by a rate that began there a moment ago.
        period_ms = schedule.period_ms if isinstance(schedule, FixedRate) else 0
        watermark = min(next_ms - 1, now_ms)
        if period_ms:
            watermark = max(watermark, next_ms - period_ms)
        tick = schedule.next_after(watermark, next_ms) if schedule.fires else None
        if tick is None:
            facts = {"job": job.name, "schedule": job.schedule_value}
            raise Problem(Code.NEVER_FIRES, "schedule", **facts)
        job.is_enabled, job.stop_reason, job.stop_why = 1, None, None
        job.last_tick_at, job.next_tick_at = watermark, tick
        self.record(session, job, now_ms)

    def _begin(self, session: Session | None, job: Job, now_ms: int) -> None:
        schedule = self._schedule(job)
        if not schedule.fires:
            raise Problem(Code.NO_SCHEDULE, "schedule", job=job.name)
        watermark, tick = schedule.start(max(job.last_tick_at, now_ms))
        if tick is None:
            facts = {"job": job.name, "schedule": job.schedule_value}
            raise Problem(Code.NEVER_FIRES, "schedule", **facts)
        if schedule.waits_for_completion and session and _is_at_work(session, job.id):
            tick = PARKED_MS
        job.is_enabled, job.stop_reason, job.stop_why = 1, None, None
        job.last_tick_at, job.next_tick_at = watermark, tick

    def stop(self, session: Session, job: Job, now_ms: int) -> bool:
        """Stop a locked job's schedule and cancel what it has planned; False if it is stopped."""
        return job.id in self.stop_all(session, [job], now_ms)

    def stop_all(self, session: Session, jobs: Sequence[Job], now_ms: int) -> set[int]:
        """Stop the schedules of locked jobs and cancel what they have planned.

        What a schedule that has come to its end still has planned is cancelled too. Returns the
        ids of those jobs for which there was anything to do.
        """
        reason = explanation(Why.STOPPED_BY(who=self._who))
        enabled = [job for job in jobs if job.is_enabled == 1]
        self._decide_overdue(session, enabled, now_ms, reason)
        cancelled = self._cancel(session, jobs, now_ms, reason, _TICKS_AND_RETRIES)
        for job in enabled:
            job.is_enabled, job.next_tick_at = 0, 0
            job.stop_reason = job.stop_why = None
            self.record(session, job, now_ms)
        return cancelled | {job.id for job in enabled}

    def leave(self, session: Session, jobs: Sequence[Job], now_ms: int) -> None:
        """Decide what is left of the schedules of locked jobs before they are replaced."""
        reason = explanation(Why.SCHEDULE_CHANGED_BY(who=self._who))
        enabled = [job for job in jobs if job.is_enabled == 1]
        self._decide_overdue(session, enabled, now_ms, reason)
        self._cancel(session, jobs, now_ms, reason, TICKS)

    def enter(self, session: Session, job: Job, now_ms: int) -> None:
        """Begin with the schedule that a locked job has now, if it is enabled."""
        if job.is_enabled == 1:
            job.is_enabled = 0
            self.start(session, job, now_ms)

    def record(self, session: Session, job: Job, now_ms: int) -> None:
        """Write into the history by which schedule a stored job goes from now on."""
        history.record_change(
            session,
            job,
            timezone=job.timezone or self._timezone,
            by=self._who,
            now_ms=now_ms,
            anchor_ms=job.next_tick_at,
        )

    def _decide_overdue(
        self, session: Session, jobs: Sequence[Job], now_ms: int, reason: Explanation
    ) -> None:
        """Record the ticks that came due and were never planned as skipped, up to now."""
        skips = [self._overdue(job, now_ms, reason) for job in jobs]
        history.record_skips(session, [skip for skip in skips if skip is not None])
        for job in jobs:
            job.last_tick_at = max(job.last_tick_at, now_ms)

    def _overdue(self, job: Job, now_ms: int, reason: Explanation) -> SkippedTicks | None:
        """Return the ticks of a job that came due and were never planned, None without any.

        A schedule that cannot be read has no ticks; it must not keep a job from being stopped.
        """
        schedule: Schedule
        try:
            schedule, anchor = self._schedule(job), job.next_tick_at
        except Problem:
            schedule, anchor = NoSchedule(), 0
        first = schedule.next_after(job.last_tick_at, anchor)
        last = schedule.last_until(job.last_tick_at, now_ms, anchor)
        if first is None or last is None:
            return None
        return history.skipped(
            job.id,
            first,
            last,
            count=schedule.count(job.last_tick_at, now_ms, anchor),
            why=reason,
            now_ms=now_ms,
        )

    def _cancel(
        self,
        session: Session,
        jobs: Sequence[Job],
        now_ms: int,
        reason: Explanation,
        kinds: Iterable[Kind],
    ) -> set[int]:
        """Cancel what schedules have planned; return the ids of the jobs that had anything."""
        with session.no_autoflush:  # or jobs would be written twice
            cancelled = transitions.cancel(
                session,
                [job.id for job in jobs],
                reason=reason,
                now_ms=now_ms,
                kinds=kinds,
                schedule_only=True,
            )
        return set(cancelled)

    def _schedule(self, job: Job) -> Schedule:
        return read_schedule(job.schedule_kind, job.schedule_value, job.timezone or self._timezone)


def _is_at_work(session: Session, job_id: int) -> bool:
    """Whether anything is open of what a locked job's schedule has caused.

    The runs are locked, so that whoever is just ending one is waited for; it may have planned a
    further attempt, so they are looked for again.
    """
    while found := ticks.open_ids(session, job_id):
        if any(run.status in OPEN for run in transitions.lock(session, found)):
            return True
    return False

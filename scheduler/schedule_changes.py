"""Starting, stopping and replacing a job's schedule, inside the caller's transaction.

Each first decides the ticks that nobody has decided yet, so that no due time is lost between an
old schedule and a new one, and never goes below the watermark.
"""

from collections.abc import Iterable

from sqlalchemy.orm import Session

from scheduler.schedule import Schedule, ScheduleKind
from sql import history, runs, ticks
from sql.models import Job, SkippedTicks
from sql.parked import PARKED_MS
from sql.run_status import OPEN, Kind

#: What a schedule's tick becomes; a retry of it as well, once a person has said stop.
TICKS = (Kind.CRON, Kind.MISFIRE)
_TICKS_AND_RETRIES = (*TICKS, Kind.RETRY)


class ScheduleChanges:
    """Changes schedules on behalf of `who`; `timezone` is for jobs that name none."""

    def __init__(self, *, timezone: str, who: str) -> None:
        self._timezone = timezone
        self._who = who

    def start(self, session: Session, job: Job, now_ms: int) -> bool:
        """Let a locked job's schedule fire; False when it does already.

        A fixed delay fires at once, or after the end of what its schedule has caused before.
        """
        if job.trigger_status == 1:
            return False
        schedule = self._schedule(job)
        if job.schedule_type == "NONE":
            raise ValueError(f"cannot start job {job.job_desc}: it has no schedule")
        watermark, tick = _first_tick(schedule, job, now_ms)
        if tick is None:
            raise ValueError(
                f"cannot start job {job.job_desc}: its schedule {job.schedule_conf!r} "
                "never fires again"
            )
        if schedule.waits_for_completion and _is_at_work(session, job.id):
            tick = PARKED_MS
        job.trigger_status, job.stop_reason = 1, None
        job.trigger_last_time, job.trigger_next_time = watermark, tick
        self.record(session, job, now_ms)
        return True

    def stop(self, session: Session, job: Job, now_ms: int) -> bool:
        """Let a locked job's schedule rest and cancel what it has planned; False when it rests.

        What a schedule that has come to its end still has planned is cancelled too.
        """
        reason = f"job stopped by {self._who}"
        if job.trigger_status == 0:
            return self._cancel(session, job, now_ms, reason, _TICKS_AND_RETRIES) > 0
        self._decide_overdue(session, job, now_ms, reason)
        job.trigger_status, job.trigger_next_time, job.stop_reason = 0, 0, None
        self._cancel(session, job, now_ms, reason, _TICKS_AND_RETRIES)
        self.record(session, job, now_ms)
        return True

    def leave(self, session: Session, job: Job, now_ms: int) -> None:
        """Decide what a locked job's schedule has left, which is about to be replaced."""
        reason = f"schedule changed by {self._who}"
        if job.trigger_status == 1:
            self._decide_overdue(session, job, now_ms, reason)
        self._cancel(session, job, now_ms, reason, TICKS)

    def enter(self, session: Session, job: Job, now_ms: int) -> None:
        """Begin with the schedule that a locked job has now, if it is enabled."""
        if job.trigger_status == 1:
            job.trigger_status = 0
            self.start(session, job, now_ms)

    def record(self, session: Session, job: Job, now_ms: int) -> None:
        """Write into the history by which schedule a job goes from now on."""
        session.flush()
        history.record_change(
            session,
            job,
            timezone=job.timezone or self._timezone,
            by=self._who,
            now_ms=now_ms,
            anchor_ms=job.trigger_next_time,
        )

    def _decide_overdue(self, session: Session, job: Job, now_ms: int, reason: str) -> None:
        """Record the ticks that came due and were never planned as skipped, up to now.

        A schedule that cannot be read has no ticks; it must not keep a job from being stopped.
        """
        try:
            schedule, anchor = self._schedule(job), job.trigger_next_time
        except ValueError:
            schedule, anchor = Schedule.parse(ScheduleKind.NONE, "", "UTC"), 0
        first = schedule.next_after(job.trigger_last_time, anchor)
        last = schedule.last_until(job.trigger_last_time, now_ms, anchor)
        if first is not None and last is not None:
            skip = SkippedTicks(
                job_id=job.id,
                from_at=first,
                to_at=last,
                count=schedule.count(job.trigger_last_time, now_ms, anchor),
                reason=reason[:255],
                recorded_at=now_ms,
            )
            history.record_skips(session, [skip])
        job.trigger_last_time = max(job.trigger_last_time, now_ms)

    def _cancel(
        self, session: Session, job: Job, now_ms: int, reason: str, kinds: Iterable[Kind]
    ) -> int:
        return runs.cancel(
            session, job.id, reason=reason, now_ms=now_ms, kinds=kinds, schedule_only=True
        )

    def _schedule(self, job: Job) -> Schedule:
        return Schedule.parse(
            job.schedule_type, job.schedule_conf or "", job.timezone or self._timezone
        )


def _first_tick(schedule: Schedule, job: Job, now_ms: int) -> tuple[int, int | None]:
    """Return the watermark and the first tick of a schedule that starts now.

    A fixed rate counts from its start, on whole seconds; a fixed delay fires at once.
    """
    base = max(job.trigger_last_time, now_ms)
    if schedule.waits_for_completion:
        return base, base + 1
    tick = schedule.next_after(base, base)
    if tick is None or job.schedule_type != "FIX_RATE":
        return base, tick
    period_ms = tick - base
    first = -(-tick // 1000) * 1000
    return first - period_ms, first


def _is_at_work(session: Session, job_id: int) -> bool:
    """Whether anything is open of what a locked job's schedule has caused.

    The runs are locked, so that whoever is just ending one is waited for; it may have planned a
    further attempt, so they are looked for again.
    """
    while found := ticks.open_ids(session, job_id):
        if any(run.status in OPEN for run in runs.lock(session, found)):
            return True
    return False

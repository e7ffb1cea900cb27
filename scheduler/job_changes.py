"""Creating, editing, starting, stopping and deleting a job, inside the caller's transaction.

Each change first decides the ticks that nobody has decided yet, so that no due time is lost
between an old schedule and a new one, and never goes below the watermark.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy.orm import Session

from scheduler import lineage
from scheduler.job_columns import columns_of, record_of, script_of
from scheduler.job_spec import JobSpec
from scheduler.job_words import differences, script_difference
from scheduler.schedule import Schedule, ScheduleKind
from scheduler.script_changes import apply_script
from scheduler.trail import Action, Trail
from sql import glue, history, jobs, runs, ticks
from sql.models import App, Job, RouteMemory, SkippedTicks
from sql.parked import PARKED_MS
from sql.run_status import OPEN, Kind
from sql.runs import at

#: What a schedule's tick becomes; a retry of it as well, once a person has said stop.
_TICKS = (Kind.CRON, Kind.MISFIRE)
_TICKS_AND_RETRIES = (*_TICKS, Kind.RETRY)

_SCHEDULE_COLUMNS = frozenset({"schedule_type", "schedule_conf", "timezone"})
#: What may have stopped a job by itself; a change of any of it is a new chance.
_STOPPING_COLUMNS = _SCHEDULE_COLUMNS | {"misfire_strategy"}


class JobChanges:
    """Changes jobs on behalf of `who`; `timezone` is for jobs that name none.

    What `apply`, `link` and `delete` do is noted in the trail; `start` and `stop` are parts of
    other changes too, so their caller notes them.
    """

    def __init__(self, *, timezone: str, who: str, trail: Trail) -> None:
        self._timezone = timezone
        self._who = who
        self._trail = trail

    def apply(
        self, session: Session, app_id: int, spec: JobSpec, now_ms: int
    ) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Make a job as described; return what was done, what changed, and its script's diff.

        Raises:
            ValueError: it is to be started and can never fire.

        """
        job = jobs.find_in_app(session, app_id, spec.name)
        if job is None:
            return *self._create(session, app_id, spec, now_ms), ()
        job = jobs.lock(session, job.id)
        source = _source(job)
        changed = self.edit(session, job, spec, now_ms)
        diff = script_difference(source, _source(job)) if changed else ()
        switched = self._switch(session, job, spec, now_ms)
        if changed:
            return "update", (*changed, *switched), diff
        return (switched[0].split()[-1], (), ()) if switched else ("unchanged", (), ())

    def edit(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> tuple[str, ...]:
        """Change a locked job, its name too; return what changed, in words.

        Raises:
            ValueError: it is enabled and could never fire again.

        """
        columns = columns_of(spec)
        changed = {
            name: value
            for name, value in columns.items()
            if (getattr(job, name) or "") != (value or "")
        }
        words = differences(job, changed)
        before = {name: getattr(job, name) for name in changed} | script_of(job)
        words += apply_script(session, job, spec, who=self._who, now_ms=now_ms)
        if not words:
            return ()
        after = changed | script_of(job)
        self._note(session, Action.JOB_UPDATE, job, now_ms, before=before, after=after)
        rescheduled = not _SCHEDULE_COLUMNS.isdisjoint(changed)
        if rescheduled:
            self._leave_schedule(session, job, now_ms)
        for name, value in changed.items():
            setattr(job, name, value)
        job.update_time = at(now_ms)
        if not _STOPPING_COLUMNS.isdisjoint(changed):
            job.stop_reason = None
        if rescheduled:
            self._enter_schedule(session, job, now_ms)
        elif "misfire_strategy" in changed:
            self._record(session, job, now_ms)
        session.flush()
        runs.update_planned(
            session,
            job.id,
            kinds=_TICKS,
            handler=job.executor_handler,
            param=job.executor_param,
            glue_id=job.glue_id,
        )
        return words

    def link(
        self, session: Session, app_id: int, spec: JobSpec, now_ms: int
    ) -> tuple[int, str | None]:
        """Give a job that was applied its children; return its id and what changed, in words.

        Raises:
            ValueError: a child is unknown.

        """
        job = jobs.find_in_app(session, app_id, spec.name)
        assert job is not None
        if not spec.children and not job.child_jobid:
            return job.id, None
        job = jobs.lock(session, job.id)
        before = job.child_jobid
        words = lineage.link(session, job, spec.children)
        if words:
            job.update_time = at(now_ms)
            session.flush()
            self._note(
                session,
                Action.JOB_UPDATE,
                job,
                now_ms,
                before={"child_jobid": before},
                after={"child_jobid": job.child_jobid},
            )
        return job.id, words

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
        self._record(session, job, now_ms)
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
        self._record(session, job, now_ms)
        return True

    def delete(self, session: Session, job: Job, now_ms: int) -> None:
        """Remove a locked job; its runs are kept."""
        self._note(session, Action.JOB_DELETE, job, now_ms, before=record_of(job))
        self.stop(session, job, now_ms)
        runs.cancel(
            session,
            job.id,
            reason=f"job deleted by {self._who}",
            now_ms=now_ms,
            kinds=Kind,
            schedule_only=False,
        )
        memory = session.get(RouteMemory, job.id)
        if memory is not None:
            session.delete(memory)
        glue.forget(session, job.id)
        session.delete(job)
        session.flush()

    def _create(
        self, session: Session, app_id: int, spec: JobSpec, now_ms: int
    ) -> tuple[str, tuple[str, ...]]:
        job = Job(
            job_group=app_id, add_time=at(now_ms), trigger_last_time=now_ms, **columns_of(spec)
        )
        job.trigger_status = job.trigger_next_time = 0
        job.glue_type = "BEAN"
        job.update_time = job.add_time
        session.add(job)
        session.flush()
        apply_script(session, job, spec, who=self._who, now_ms=now_ms)
        if spec.enabled:
            self.start(session, job, now_ms)
        self._note(session, Action.JOB_CREATE, job, now_ms, after=record_of(job))
        return "create", ()

    def _leave_schedule(self, session: Session, job: Job, now_ms: int) -> None:
        reason = f"schedule changed by {self._who}"
        if job.trigger_status == 1:
            self._decide_overdue(session, job, now_ms, reason)
        self._cancel(session, job, now_ms, reason, _TICKS)

    def _enter_schedule(self, session: Session, job: Job, now_ms: int) -> None:
        if job.trigger_status == 1:
            job.trigger_status = 0
            self.start(session, job, now_ms)

    def _switch(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> tuple[str, ...]:
        if spec.enabled is False and self.stop(session, job, now_ms):
            self._note(session, Action.JOB_STOP, job, now_ms)
            return ("state: stop",)
        # A schedule that came to its end stays so until it is changed: applying twice is harmless.
        ended = job.stop_reason is not None
        if spec.enabled and not ended and self.start(session, job, now_ms):
            self._note(session, Action.JOB_START, job, now_ms)
            return ("state: start",)
        return ()

    def _note(
        self,
        session: Session,
        action: Action,
        job: Job,
        now_ms: int,
        *,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        name = f"{session.get_one(App, job.job_group).app_name}/{job.job_desc}"
        self._trail.note(
            session, action, name, object_id=job.id, now_ms=now_ms, before=before, after=after
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

    def _record(self, session: Session, job: Job, now_ms: int) -> None:
        session.flush()
        history.record_change(
            session,
            job,
            timezone=job.timezone or self._timezone,
            by=self._who,
            now_ms=now_ms,
            anchor_ms=job.trigger_next_time,
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


def _source(job: Job) -> str:
    return (job.glue_source or "") if job.glue_id is not None else ""

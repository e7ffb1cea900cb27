"""Creating, editing and deleting a job, inside the caller's transaction."""

from collections.abc import Mapping

from sqlalchemy.orm import Session

from scheduler import lineage
from scheduler.job_columns import columns_of, record_of, script_of
from scheduler.job_spec import JobSpec
from scheduler.job_words import differences, script_difference
from scheduler.schedule_changes import TICKS, ScheduleChanges
from scheduler.script_changes import apply_script
from scheduler.trail import Action, Trail
from sql import glue, jobs, runs
from sql.models import App, Job, RouteMemory
from sql.run_status import Kind
from sql.runs import at

_SCHEDULE_COLUMNS = frozenset({"schedule_type", "schedule_conf", "timezone"})
#: What may have stopped a job by itself; a change of any of it is a new chance.
_STOPPING_COLUMNS = _SCHEDULE_COLUMNS | {"misfire_strategy"}


class JobChanges:
    """Changes jobs on behalf of `who`, and notes it in the trail."""

    def __init__(self, schedules: ScheduleChanges, trail: Trail, *, who: str) -> None:
        self._schedules = schedules
        self._trail = trail
        self._who = who

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
            self._schedules.leave(session, job, now_ms)
        for name, value in changed.items():
            setattr(job, name, value)
        job.update_time = at(now_ms)
        if not _STOPPING_COLUMNS.isdisjoint(changed):
            job.stop_reason = None
        if rescheduled:
            self._schedules.enter(session, job, now_ms)
        elif "misfire_strategy" in changed:
            self._schedules.record(session, job, now_ms)
        session.flush()
        runs.update_planned(
            session,
            job.id,
            kinds=TICKS,
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

    def delete(self, session: Session, job: Job, now_ms: int) -> None:
        """Remove a locked job; its runs are kept."""
        self._note(session, Action.JOB_DELETE, job, now_ms, before=record_of(job))
        self._schedules.stop(session, job, now_ms)
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
            self._schedules.start(session, job, now_ms)
        self._note(session, Action.JOB_CREATE, job, now_ms, after=record_of(job))
        return "create", ()

    def _switch(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> tuple[str, ...]:
        if spec.enabled is False and self._schedules.stop(session, job, now_ms):
            self._note(session, Action.JOB_STOP, job, now_ms)
            return ("state: stop",)
        # A schedule that came to its end stays so until it is changed: applying twice is harmless.
        ended = job.stop_reason is not None
        if spec.enabled and not ended and self._schedules.start(session, job, now_ms):
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


def _source(job: Job) -> str:
    return (job.glue_source or "") if job.glue_id is not None else ""

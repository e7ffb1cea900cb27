"""Creating, editing and deleting a job, inside the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from broker.reasons.codes import Why
from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.commands.job_comparison import is_as_described
from scheduler.commands.schedule_changes import TICKS, ScheduleChanges
from scheduler.commands.script_changes import apply_script, has_script
from scheduler.explanations import explanation
from scheduler.jobs.audit_records import record_of, record_of_fields
from scheduler.jobs.edit_summary import differences, script_difference
from scheduler.jobs.fields import changed, columns_of
from scheduler.jobs.spec import JobSpec
from sql.accounts import preferences
from sql.jobs import child_links, jobs, script_versions
from sql.models import Job, RouteMemory
from sql.run_status import Kind
from sql.runs import transitions
from sql.runs.transitions import at

_SCHEDULE = frozenset({"schedule_kind", "schedule_value", "timezone"})
#: Fields that may have made a job stop by itself; changing one gives it a new chance.
_STOPPING = _SCHEDULE | {"misfire"}


class JobChanges:
    """Changes jobs on behalf of the caller, and notes it in the audit log.

    A job's script is given, changed and taken away by those only who may edit scripts.
    """

    def __init__(self, context: CommandContext) -> None:
        self._who = context.actor.who
        self._demand = context.actor.demand
        self._note = context.note_job
        self._schedules = ScheduleChanges(context)

    def apply(
        self,
        session: Session,
        app_id: int,
        spec: JobSpec,
        now_ms: int,
        found: Job | None = None,
    ) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Make a job as described; return what was done, what changed, and its script's diff.

        `found` is the job, where it has been read already.

        Raises:
            Problem: it is to be started and can never fire.

        """
        job = found or jobs.find_in_app(session, app_id, spec.name)
        if job is None:
            return *self._create(session, app_id, spec, now_ms), ()
        if is_as_described(job, spec):
            return "unchanged", (), ()
        job = jobs.lock(session, job.id)
        source = _source(job)
        changed = self.edit(session, job, spec, now_ms)
        diff = script_difference(source, _source(job)) if changed else ()
        switched = self.switch(session, job, spec, now_ms)
        if changed:
            return "update", (*changed, *switched), diff
        return (switched[0].split()[-1], (), ()) if switched else ("unchanged", (), ())

    def create_many(
        self, session: Session, specs: Sequence[tuple[int, JobSpec]], now_ms: int
    ) -> None:
        """Create jobs without a script, given with their app's id, in few statements.

        Raises:
            Problem: one is to be started and can never fire.

        """
        made = [new_job(app_id, spec, now_ms) for app_id, spec in specs]
        started = [job for job, (_, spec) in zip(made, specs, strict=True) if spec.enabled]
        for job in started:
            self._schedules.begin(job, now_ms)
        session.add_all(made)
        session.flush()
        for job in started:
            self._schedules.record(session, job, now_ms)
        for job in made:
            self._note(session, Action.JOB_CREATE, job, now_ms, after=record_of(session, job))
        session.flush()

    def edit(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> tuple[str, ...]:
        """Change a locked job, its name too; return what changed, in words.

        Raises:
            Problem: it is enabled and could never fire again, or its script would change and
                the caller has no right to that.

        """
        if not has_script(job, spec):
            self._demand(Right.EDIT_GLUE)
        edited = changed(job, spec)
        before = record_of_fields(session, job, edited)
        words = differences(job, spec, edited)
        words += apply_script(session, job, spec, who=self._who, now_ms=now_ms)
        if not words:
            return ()
        names = {field.name for field in edited}
        rescheduled = not _SCHEDULE.isdisjoint(names)
        if rescheduled:
            self._schedules.leave(session, job, now_ms)
        for name, value in columns_of(spec, edited).items():
            setattr(job, name, value)
        job.update_time = at(now_ms)
        if not _STOPPING.isdisjoint(names):
            job.stop_reason = job.stop_why = None
        after = record_of_fields(session, job, edited)
        self._note(session, Action.JOB_UPDATE, job, now_ms, before=before, after=after)
        if rescheduled:
            self._schedules.enter(session, job, now_ms)
        elif "misfire" in names:
            self._schedules.record(session, job, now_ms)
        session.flush()
        transitions.update_planned(
            session,
            job.id,
            kinds=TICKS,
            handler=job.handler,
            param=job.param,
            script_version=job.script_version,
        )
        return words

    def delete(self, session: Session, job: Job, now_ms: int) -> None:
        """Remove a locked job; its runs are kept."""
        before = record_of(session, job, child_links.children_of(session, job.id))
        self._note(session, Action.JOB_DELETE, job, now_ms, before=before)
        self._schedules.stop(session, job, now_ms)
        transitions.cancel(
            session,
            job.id,
            reason=explanation(Why.DELETED_BY(who=self._who)),
            now_ms=now_ms,
            kinds=Kind,
            schedule_only=False,
        )
        memory = session.get(RouteMemory, job.id)
        if memory is not None:
            session.delete(memory)
        script_versions.forget(session, job.id)
        child_links.set_children(session, job, ())
        preferences.forget_job(session, job.id)
        session.delete(job)
        session.flush()

    def _create(
        self, session: Session, app_id: int, spec: JobSpec, now_ms: int
    ) -> tuple[str, tuple[str, ...]]:
        if spec.script_language:
            self._demand(Right.EDIT_GLUE)
        job = new_job(app_id, spec, now_ms)
        session.add(job)
        session.flush()
        apply_script(session, job, spec, who=self._who, now_ms=now_ms)
        if spec.enabled:
            self._schedules.start(session, job, now_ms)
        self._note(session, Action.JOB_CREATE, job, now_ms, after=record_of(session, job))
        return "create", ()

    def switch(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> tuple[str, ...]:
        """Start or stop a locked job as described; return what was done, in words."""
        if spec.enabled is False and self._schedules.stop(session, job, now_ms):
            self._note(session, Action.JOB_STOP, job, now_ms)
            return ("state: stop",)
        # A schedule that ended stays ended until it is changed, so applying twice is harmless.
        ended = job.stop_reason is not None
        if spec.enabled and not ended and self._schedules.start(session, job, now_ms):
            self._note(session, Action.JOB_START, job, now_ms)
            return ("state: start",)
        return ()


def new_job(app_id: int, spec: JobSpec, now_ms: int) -> Job:
    """Return a job that is stopped and not stored yet."""
    return Job(
        app_id=app_id,
        add_time=at(now_ms),
        update_time=at(now_ms),
        last_tick_at=now_ms,
        next_tick_at=0,
        is_enabled=0,
        script_type="BEAN",
        # Spelled out; otherwise each row would be read again after it was stored.
        script_version=None,
        child_ids=None,
        **columns_of(spec),
    )


def _source(job: Job) -> str:
    return (job.script_source or "") if job.script_version is not None else ""

"""Creates, edits and deletes jobs, in the caller's transaction."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

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
from scheduler.jobs.fields import Field, changed, columns_of
from scheduler.jobs.spec import JobSpec
from scheduler.problems import Problem
from sql.accounts import preferences
from sql.instants import at
from sql.jobs import changed_jobs, child_links, jobs, script_versions
from sql.models import Job, RouteMemory
from sql.run_status import Kind
from sql.runs import planned_runs, transitions

_SCHEDULE = frozenset({"schedule_kind", "schedule_value", "timezone"})
#: Fields that may have made a job stop by itself; a change of one clears the reason.
_STOPPING = _SCHEDULE | {"misfire"}


class ChangeAction(StrEnum):
    """What a job file changes about an app or job."""

    CREATE = "create"
    UPDATE = "update"
    START = "start"
    STOP = "stop"
    DELETE = "delete"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Applied:
    """The result for one job.

    `details` has a line for each changed field, `diff` the lines of a unified diff of the script.
    """

    action: ChangeAction
    details: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


CREATED, UNCHANGED = Applied(ChangeAction.CREATE), Applied(ChangeAction.UNCHANGED)


@dataclass(frozen=True, slots=True)
class _Edit:
    """The changes to a job; `words` has a line for each, empty = nothing changes."""

    job: Job
    spec: JobSpec
    fields: Sequence[Field]
    before: Mapping[str, object]
    words: tuple[str, ...]

    @property
    def reschedules(self) -> bool:
        return self.changes(_SCHEDULE)

    def changes(self, names: AbstractSet[str]) -> bool:
        return any(field.name in names for field in self.fields)


class JobChanges:
    """Changes jobs on behalf of one actor, and writes audit log entries.

    Any change to a job's script needs the right to edit scripts.
    """

    def __init__(self, context: CommandContext) -> None:
        self._who = context.actor.who
        self._demand = context.actor.demand
        self._note = context.note_job
        self._schedules = ScheduleChanges(context)

    def apply(
        self, session: Session, wanted: Sequence[tuple[int, JobSpec]], now_ms: int
    ) -> list[Applied]:
        """Create or change jobs, each given once with its app's id; return the result for each.

        The number of statements is small however many jobs there are, except for scripts and fixed
        delays.

        Raises:
            Problem: a job is to be started and can never fire (the facts name its `app` and `job`),
                or a script would change and the actor may not change scripts.

        """
        known = jobs.find_many(session, ((app_id, spec.name) for app_id, spec in wanted))
        stored = [(known.get((app_id, spec.name)), spec) for app_id, spec in wanted]
        self._create(
            session, [one for one, (job, _) in zip(wanted, stored, strict=True) if not job], now_ms
        )
        differing = [(job, spec) for job, spec in stored if job and not is_as_described(job, spec)]
        done = self._change(session, differing, now_ms)
        return [done.get(job.id, UNCHANGED) if job else CREATED for job, _ in stored]

    def edit(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> tuple[str, ...]:
        """Change a locked job, including its name; return a line for each change.

        Raises:
            Problem: the job is enabled and could never fire again, or its script would change
                and the actor may not change scripts.

        """
        [words] = self._edit(session, [(job, spec)], now_ms)
        session.flush()
        return words

    def switch(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> tuple[str, ...]:
        """Start or stop a locked job as the spec says; return a line if that changed it."""
        return _state(self._switch(session, [(job, spec)], now_ms).get(job.id))

    def delete(self, session: Session, job: Job, now_ms: int) -> None:
        """Delete a locked job; its runs are kept, those still planned are cancelled."""
        before = record_of(session, job, child_links.children_of(session, job.id))
        self._note(session, Action.JOB_DELETE, job, now_ms, before=before)
        self._schedules.stop(session, job, now_ms)
        transitions.cancel(
            session,
            [job.id],
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

    def _create(self, session: Session, wanted: Sequence[tuple[int, JobSpec]], now_ms: int) -> None:
        if any(spec.script_language for _, spec in wanted):
            self._demand(Right.EDIT_GLUE)
        created = [new_job(app_id, spec, now_ms) for app_id, spec in wanted]
        started = []
        for job, (_, spec) in zip(created, wanted, strict=True):
            if spec.enabled:
                with _naming(spec):
                    self._schedules.begin(session, job, now_ms)
                started.append(job)
        session.add_all(created)
        session.flush()
        for job in started:
            self._schedules.record(session, job, now_ms)
        with session.no_autoflush:
            for job, (_, spec) in zip(created, wanted, strict=True):
                apply_script(session, job, spec, who=self._who, now_ms=now_ms)
                record = record_of(session, job)
                self._note(session, Action.JOB_CREATE, job, now_ms, after=record)
        session.flush()

    def _change(
        self, session: Session, wanted: Sequence[tuple[Job, JobSpec]], now_ms: int
    ) -> dict[int, Applied]:
        """Lock jobs, then edit, start and stop them; return the results by id."""
        locked = jobs.lock_all(session, [job.id for job, _ in wanted]).values()
        sources = {job.id: _source(job) for job in locked}
        edited = self._edit(session, wanted, now_ms)
        switched = self._switch(session, wanted, now_ms)
        changed_jobs.write(session, locked)
        done = {}
        for (job, _), words in zip(wanted, edited, strict=True):
            state = switched.get(job.id)
            done[job.id] = Applied(state) if state else UNCHANGED
            if words:
                diff = script_difference(sources[job.id], _source(job))
                done[job.id] = Applied(ChangeAction.UPDATE, (*words, *_state(state)), diff)
        return done

    def _edit(
        self, session: Session, wanted: Sequence[tuple[Job, JobSpec]], now_ms: int
    ) -> list[tuple[str, ...]]:
        """Change locked jobs, without flushing them; return the lines about each job's changes."""
        with session.no_autoflush:
            edits = [self._edit_of(session, job, spec, now_ms) for job, spec in wanted]
            real = [edit for edit in edits if edit.words]
            rescheduled = [edit.job for edit in real if edit.reschedules]
            self._schedules.settle_old(session, rescheduled, now_ms)
            for edit in real:
                self._carry_out(session, edit, now_ms)
            planned_runs.give_payloads(
                session, {edit.job.id: _payload(edit.job) for edit in real}, kinds=TICKS
            )
        return [edit.words for edit in edits]

    def _edit_of(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> _Edit:
        """Return the changes to a locked job; its script is changed already."""
        if not has_script(job, spec):
            self._demand(Right.EDIT_GLUE)
        fields = changed(job, spec)
        before = record_of_fields(session, job, fields)
        words = differences(job, spec, fields)
        words += apply_script(session, job, spec, who=self._who, now_ms=now_ms)
        return _Edit(job, spec, fields, before, words)

    def _carry_out(self, session: Session, edit: _Edit, now_ms: int) -> None:
        job = edit.job
        for name, value in columns_of(edit.spec, edit.fields).items():
            setattr(job, name, value)
        job.update_time = at(now_ms)
        if edit.changes(_STOPPING):
            job.stop_reason = job.stop_why = None
        after = record_of_fields(session, job, edit.fields)
        self._note(session, Action.JOB_UPDATE, job, now_ms, before=edit.before, after=after)
        if edit.reschedules:
            with _naming(edit.spec):
                self._schedules.start_new(session, job, now_ms)
        elif edit.changes({"misfire"}):
            self._schedules.record(session, job, now_ms)

    def _switch(
        self, session: Session, wanted: Sequence[tuple[Job, JobSpec]], now_ms: int
    ) -> dict[int, ChangeAction]:
        """Start and stop locked jobs as the specs say; return START or STOP by id."""
        off = [job for job, spec in wanted if spec.enabled is False]
        # A schedule that ended stays ended until it is changed, so applying twice is harmless.
        on = [one for one in wanted if one[1].enabled and one[0].stop_reason is None]
        stopped = self._schedules.stop_all(session, off, now_ms)
        with session.no_autoflush:
            started = {job.id for job, spec in on if self._start(session, job, spec, now_ms)}
        for job, _ in wanted:
            if job.id in stopped:
                self._note(session, Action.JOB_STOP, job, now_ms)
            if job.id in started:
                self._note(session, Action.JOB_START, job, now_ms)
        return dict.fromkeys(stopped, ChangeAction.STOP) | dict.fromkeys(
            started, ChangeAction.START
        )

    def _start(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> bool:
        with _naming(spec):
            return self._schedules.start(session, job, now_ms)


def new_job(app_id: int, spec: JobSpec, now_ms: int) -> Job:
    """Return a stopped job that is not stored yet."""
    return Job(
        app_id=app_id,
        add_time=at(now_ms),
        update_time=at(now_ms),
        last_tick_at=now_ms,
        next_tick_at=0,
        is_enabled=0,
        script_type="BEAN",
        # Explicit, because otherwise each row would be read again after the insert.
        script_version=None,
        child_ids=None,
        **columns_of(spec),
    )


@contextmanager
def _naming(spec: JobSpec) -> Iterator[None]:
    """Have a problem of a job say whose it is."""
    try:
        yield
    except Problem as problem:
        raise problem.about(app=spec.app, job=spec.name) from None


def _source(job: Job) -> str:
    return (job.script_source or "") if job.script_version is not None else ""


def _payload(job: Job) -> planned_runs.Payload:
    return planned_runs.Payload(job.handler, job.param, job.script_version)


def _state(switched: ChangeAction | None) -> tuple[str, ...]:
    return (f"state: {switched}",) if switched else ()

"""Creates, edits, starts, stops and deletes jobs and their links, in the caller's transaction."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.actor import Right
from warren.scheduler.backfills.refill import end
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_edits import (
    Applied,
    Edit,
    applied,
    edit_of,
    is_to_start,
    state_of,
)
from warren.scheduler.commands.schedule_changes import ScheduleChanges, ToCome, restarts_schedule
from warren.scheduler.commands.script_commands import apply_flow, apply_script
from warren.scheduler.jobs import dependencies
from warren.scheduler.jobs.dependencies import Family, KnownJobs, Link
from warren.scheduler.jobs.new_run import app_names_for, calendars_for_runs, check_made, run_of
from warren.scheduler.jobs.records import (
    job_spec,
    record_of,
    record_of_children,
    record_of_fields,
    record_of_new,
)
from warren.scheduler.jobs.script_cache import normal_source, script_type
from warren.scheduler.jobs.spec import Flow, JobSpec, columns_of
from warren.scheduler.limits import count_going
from warren.scheduler.problems import Code, Problem, explanation
from warren.scheduler.schedules.registry import FixedRate
from warren.sql import limits, metrics
from warren.sql.accounts import audit_log, preferences
from warren.sql.alarms import watches
from warren.sql.batch import chunks
from warren.sql.board import job_states
from warren.sql.instants import at
from warren.sql.jobs import due_jobs, history, job_links, job_names, job_rows, script_versions
from warren.sql.models import Job, RouteMemory
from warren.sql.models.job_tables import FLOW_TYPE, BackfillState
from warren.sql.run_status import BY_SCHEDULE, Kind
from warren.sql.runs import backfills, planned_runs, transitions

_GRAPH = Flow()


def _renamed(new_names: Mapping[str, str], name: str) -> str:
    return new_names.get(name, name)


class ChildChanges:
    """Links jobs on behalf of one actor, and writes audit log entries.

    Jobs in apps that the actor may not see cannot become children; they keep their present parents
    and are never named.
    """

    def __init__(self, context: CommandContext) -> None:
        self._note = context.note_job
        self._actor = context.actor

    def link(self, session: Session, app_id: int, spec: JobSpec, now_ms: int) -> str | None:
        """Set the children of a stored job; return a sentence about what changed.

        Raises:
            Problem: a child is unknown, or the job is its own descendant.

        """
        job = job_names.find_in_app(session, app_id, spec.name)
        assert job is not None
        family = Family(job.id, app_id, spec.app, spec.name, spec.children, spec.flow)
        links = self.changes(KnownJobs(session), [family])
        self.write(session, links, now_ms)
        return links[0].words if links else None

    def changes(self, known: KnownJobs, families: Sequence[Family]) -> list[Link]:
        """Return the links that are to change, and add them to `known`; only reads.

        Raises:
            Problem: a child is unknown, there are too many, or a job is its own descendant.

        """
        links = [
            link
            for link in dependencies.link(known, families, self._actor.app_ids)
            if link.words or link.nodes is not None
        ]
        known.plan(links)
        self._refuse_circles(known, [link.job_id for link in links])
        return links

    def write(self, session: Session, links: Sequence[Link], now_ms: int) -> None:
        """Lock jobs and give them their new children."""
        locked = job_rows.lock_all(session, [link.job_id for link in links])
        for job in locked.values():
            job.update_time = at(now_ms)
        nodes = {link.job_id: link.nodes for link in links if link.nodes is not None}
        job_links.set_nodes(session, nodes)
        changed = [link for link in links if link.words]
        job_links.set_children(session, [(locked[link.job_id], link.after) for link in changed])
        for link in changed:
            self._note(
                session,
                Action.JOB_UPDATE,
                locked[link.job_id],
                now_ms,
                before=record_of_children(link.before),
                after=record_of_children(link.after),
            )

    def _refuse_circles(self, known: KnownJobs, job_ids: Collection[int]) -> None:
        try:
            dependencies.refuse_circles(known, job_ids)
        except Problem as circle:
            if self._actor.app_ids is None:
                raise
            facts = {name: circle.facts[name] for name in ("app", "job")}
            raise Problem(Code.HIDDEN_CIRCLE, "children", **facts) from None

    def refuse_orphans(self, known: KnownJobs, job_ids: Collection[int]) -> None:
        """Raise Problem if jobs to be deleted are children or nodes of jobs that stay."""
        try:
            dependencies.refuse_orphans(known, job_ids)
        except Problem:
            visible = known.app_ids(self._actor.app_ids)
            if all(app in visible for app, _ in known.parents(job_ids).values()):
                raise
            raise Problem(Code.STILL_A_HIDDEN_CHILD) from None
        try:
            dependencies.refuse_missing_nodes(known, job_ids)
        except Problem:
            flows = {flow for flows in known.flows_with(job_ids).values() for flow in flows}
            visible = known.app_ids(self._actor.app_ids)
            if all(app in visible for app, _ in known.names(flows).values()):
                raise
            raise Problem(Code.STILL_A_HIDDEN_NODE) from None


class JobChanges:
    """Changes jobs on behalf of one actor, and writes audit log entries.

    Any change to a job's script needs the right to edit scripts.
    """

    def __init__(self, context: CommandContext) -> None:
        self._who = context.actor.who
        self._demand = context.actor.demand
        self._note = context.note_job
        self._schedules = ScheduleChanges(context)

    def foresee(
        self, session: Session, wanted: Sequence[tuple[Job, JobSpec]], now_ms: int
    ) -> list[Applied]:
        """Return what `change` would do to these jobs, without locking or changing them.

        Raises:
            Problem: as for `change`.

        """
        edits = [self._edit_of(job, spec) for job, spec in wanted]
        until = {
            edit.job: self._old_until(session, edit, now_ms) for edit in edits if edit.reschedules
        }
        skipped = {
            skip.job_id: skip.count for skip in self._schedules.overdue(session, until, now_ms)
        }
        edits = _counted(edits, self._to_come(session, edits, now_ms).counts, skipped)
        off = [edit.job for edit in edits if edit.spec.enabled is False]
        stopped = self._schedules.to_stop(session, off)
        starting = {edit.job.id for edit in edits if edit.starts}
        for edit in edits:
            if edit.starts:
                self._check_start(session, edit, now_ms)
        return _all_applied(edits, stopped, starting)

    def change(
        self, session: Session, wanted: Sequence[tuple[int, JobSpec]], now_ms: int
    ) -> list[Applied]:
        """Lock jobs, then edit, start and stop them; return the result for each.

        The number of statements is small however many jobs there are, except for scripts and fixed
        delays.

        Raises:
            Problem: a job is enabled or to be started and can never fire (the facts name its `app`
                and `job`), or a script would change and the actor may not change scripts.

        """
        locked = job_rows.lock_all(session, [job_id for job_id, _ in wanted])
        these = [(locked[job_id], spec) for job_id, spec in wanted]
        edits = self._edit(session, these, now_ms)
        stopped, started = self._switch(session, these, now_ms)
        due_jobs.write(session, locked.values())
        return _all_applied(edits, stopped, started)

    def follow_rules(
        self, session: Session, wanted: Mapping[int, str], now_ms: int
    ) -> list[tuple[str, ...]]:
        """Lock jobs, and have those that do not yet follow the newest rule for their schedules.

        `wanted` has the name of the app for each id. Returns a line about each that has changed.
        """
        locked = job_rows.lock_all(session, wanted)
        job_rows.read_sources(session, locked.values())
        specs = [(job, job_spec(job, wanted[job.id], ())) for job in locked.values()]
        moving = [(job, spec) for job, spec in specs if spec.follows_old_rule]
        edits = self._edit(session, moving, now_ms, moves=True)
        due_jobs.write(session, locked.values())
        return [edit.words for edit in edits]

    def edit(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> Edit:
        """Change a locked job, including its name; return what changed.

        Raises:
            Problem: the job is enabled and could never fire again, or its script would change
                and the actor may not change scripts.

        """
        [edit] = self._edit(session, [(job, spec)], now_ms)
        session.flush()
        return edit

    def switch(self, session: Session, edit: Edit, now_ms: int) -> Applied:
        """Start or stop an edited job as its spec says; return the result of both."""
        stopped, started = self._switch(session, [(edit.job, edit.spec)], now_ms)
        return _all_applied([edit], stopped, started)[0]

    def rename_in_flows(
        self, session: Session, job: Job, old_name: str, app: str, now_ms: int
    ) -> None:
        """Let the flows that have a locked job as a node find it under its new name."""
        flow_ids = job_links.flows_with(session, [job.id]).get(job.id, set())
        for flow in job_rows.lock_all(session, flow_ids).values():
            graph = _GRAPH.value(flow.flow)
            if graph is None:
                continue
            old = {f"{app}/{old_name}": f"{app}/{job.name}"}
            old |= {old_name: job.name} if flow.app_id == job.app_id else {}
            renamed = graph.with_jobs(partial(_renamed, old))
            before = {"flow": flow.flow}
            apply_flow(session, flow, renamed.to_json(), who=self._who, now_ms=now_ms)
            flow.flow = renamed.to_json()
            flow.update_time = at(now_ms)
            self._note(
                session, Action.JOB_UPDATE, flow, now_ms, before=before, after={"flow": flow.flow}
            )

    def delete(self, session: Session, job: Job, now_ms: int) -> int:
        """Delete a locked job; its runs are kept, those still planned are cancelled.

        Returns how many it cancelled.
        """
        before = record_of(session, job, job_links.children_of(session, job.id))
        self._note(session, Action.JOB_DELETE, job, now_ms, before=before)
        stopped = self._schedules.stop(session, job, now_ms)
        for backfill in backfills.lock_of_job(session, job.id):
            end(backfill, BackfillState.CANCELLED, Why.DELETED_BY(who=self._who))
        cancelled = transitions.cancel(
            session,
            [job.id],
            reason=explanation(Why.DELETED_BY(who=self._who)),
            now_ms=now_ms,
            kinds=Kind,
            schedule_only=False,
        )
        metrics.add_cancelled(session, {job.app_id: cancelled.get(job.id, 0)})
        metrics.forget_success(session, job.id)
        job_states.forget_job(session, job.id)
        memory = session.get(RouteMemory, job.id)
        if memory is not None:
            session.delete(memory)
        script_versions.forget(session, job.id)
        limits.forget_job(session, job.id)
        job_links.set_children(session, [(job, ())])
        job_links.set_nodes(session, {job.id: ()})
        preferences.forget_job(session, job.id)
        session.delete(job)
        session.flush()
        return cancelled.get(job.id, 0) + (stopped.cancelled if stopped else 0)

    def _edit(
        self,
        session: Session,
        wanted: Sequence[tuple[Job, JobSpec]],
        now_ms: int,
        *,
        moves: bool = False,
    ) -> list[Edit]:
        """Change locked jobs, without flushing them; return what changed about each."""
        with session.no_autoflush:
            edits = [self._edit_of(job, spec, moves=moves) for job, spec in wanted]
            real = [edit for edit in edits if edit.words]
            before = [record_of_fields(session, edit.job, edit.fields) for edit in real]
            changed = [edit.job for edit in real if _changes_run_data(edit)]
            zones = self._schedules.zones(session, changed)
            for edit in real:
                apply_script(session, edit.job, edit.spec, who=self._who, now_ms=now_ms)
            rescheduled = {
                edit.job: self._old_until(session, edit, now_ms)
                for edit in real
                if edit.reschedules
            }
            to_come = self._to_come(session, real, now_ms)
            gone = self._schedules.settle_old(session, rescheduled, to_come, now_ms)
            for edit, record in zip(real, before, strict=True):
                self._carry_out(session, edit, record, now_ms)
            alike = [edit.job for edit in real if edit.is_to_record]
            self._schedules.record_texts(session, alike, now_ms)
            expecting = [edit.job.id for edit in real if _restarts_watch(edit)]
            watches.look_soon(session, expecting, since_ms=now_ms)
            planned_runs.give_payloads(session, [edit.job for edit in real], kinds=BY_SCHEDULE)
            self._recompute_runs(session, changed, zones)
            self._count_going(session, real, now_ms)
        return _counted(edits, *gone)

    def _to_come(self, session: Session, edits: Iterable[Edit], now_ms: int) -> ToCome:
        """Return what becomes of planned runs that are not due yet."""
        replanned = {edit.job: edit.spec for edit in edits if edit.is_replanned}
        return self._schedules.to_come(session, replanned, now_ms)

    def _count_going(self, session: Session, edits: Sequence[Edit], now_ms: int) -> None:
        """Record that runs in flight hold the limits that their edited jobs take now."""
        taking = [
            edit.job
            for edit in edits
            if any(field.name in ("limits", "scope") for field in edit.fields)
        ]
        if taking:
            # A claim that began before the edit has them locked.
            planned_runs.lock_due(session, [job.id for job in taking], now_ms=now_ms)
            count_going(session, taking, now_ms=now_ms)

    def _recompute_runs(
        self, session: Session, jobs_: Sequence[Job], zones: Mapping[int, str]
    ) -> None:
        """Update the dates and params of the schedule's planned runs.

        They were planned in these zones, by job.
        """
        changed = {job.id: job for job in jobs_}
        if not changed:
            return
        apps = app_names_for(session, changed.values())
        calendars = calendars_for_runs(session, changed.values())

        def made(job_id: int, tick: int) -> tuple[date | None, str]:
            job = changed[job_id]
            run = run_of(
                job,
                kind=Kind.SCHEDULE,
                scheduled_at=tick,
                due_at=tick,
                zone=zones[job_id],
                app=apps.get(job.app_id, ""),
                calendars=calendars,
            )
            check_made(run)
            return run.run_date, run.param

        planned_runs.recompute(session, changed, made, kinds=BY_SCHEDULE)

    def _edit_of(self, job: Job, spec: JobSpec, *, moves: bool = False) -> Edit:
        edit = edit_of(job, spec, moves=moves)
        if edit.changes_script:
            self._demand(Right.EDIT_GLUE)
        return edit

    def _check_start(self, session: Session, edit: Edit, now_ms: int) -> int:
        """Return the watermark with which an edited job's schedule would start."""
        with _naming(edit.spec):
            after_ms = max(edit.job.last_tick_at, now_ms)
            anchor_ms = _anchor_of(edit)
            return self._schedules.check_start(session, edit.spec, after_ms, anchor_ms)[0]

    def _old_until(self, session: Session, edit: Edit, now_ms: int) -> int:
        """Return the instant up to which an edited job follows its old schedule."""
        return self._check_start(session, edit, now_ms) if edit.restarts else now_ms

    def _carry_out(
        self, session: Session, edit: Edit, before: Mapping[str, object], now_ms: int
    ) -> None:
        job, anchor_ms = edit.job, _anchor_of(edit)
        for name, value in columns_of(edit.spec, edit.fields).items():
            setattr(job, name, value)
        job.update_time = at(now_ms)
        if edit.clears_stop:
            self._schedules.clear_stop(job)
        after = record_of_fields(session, job, edit.fields)
        self._note(session, Action.JOB_UPDATE, job, now_ms, before=before, after=after)
        if edit.restarts:
            with _naming(edit.spec):
                self._schedules.start_new(session, job, now_ms, anchor_ms)

    def _switch(
        self, session: Session, wanted: Sequence[tuple[Job, JobSpec]], now_ms: int
    ) -> tuple[dict[int, int], set[int]]:
        """Stop and start locked jobs as the specs say; return the ids of both.

        Of those that stop, also how many planned runs that cancels.
        """
        off = [job for job, spec in wanted if spec.enabled is False]
        on = [(job, spec) for job, spec in wanted if is_to_start(job, spec)]
        stopped = self._schedules.stop_all(session, off, now_ms)
        with session.no_autoflush:
            started = {job.id for job, spec in on if self._start(session, job, spec, now_ms)}
        for job, _ in wanted:
            if job.id in stopped:
                self._note(session, Action.JOB_STOP, job, now_ms)
            if job.id in started:
                self._note(session, Action.JOB_START, job, now_ms)
        return stopped, started

    def _start(self, session: Session, job: Job, spec: JobSpec, now_ms: int) -> bool:
        with _naming(spec):
            return self._schedules.start(session, job, now_ms)


@contextmanager
def _naming(spec: JobSpec) -> Iterator[None]:
    """Add the job's app and name to a problem raised in the block."""
    try:
        yield
    except Problem as problem:
        raise problem.about(app=spec.app, job=spec.name) from None


def _all_applied(
    edits: Iterable[Edit], stopped: Mapping[int, int], started: Container[int]
) -> list[Applied]:
    return [
        applied(edit, state_of(edit.job.id, stopped, started), stopped.get(edit.job.id, 0))
        for edit in edits
    ]


def _counted(
    edits: Iterable[Edit], cancelled: Mapping[int, int], skipped: Mapping[int, int]
) -> list[Edit]:
    return [
        replace(edit, cancelled=cancelled.get(edit.job.id, 0), skipped=skipped.get(edit.job.id, 0))
        for edit in edits
    ]


def _anchor_of(edit: Edit) -> int:
    """Return a tick of a fixed rate that keeps its rhythm; 0 if the schedule starts again."""
    is_rate = edit.spec.schedule_kind == FixedRate.kind and edit.job.is_enabled == 1
    return edit.job.next_tick_at if is_rate and not restarts_schedule(edit.job, edit.spec) else 0


def _restarts_watch(edit: Edit) -> bool:
    """Whether an edit changes a job's expectations or its due times."""
    changes = edit.reschedules or any(field.name in ("expect", "timezone") for field in edit.fields)
    return changes and bool(edit.job.expect or any(field.name == "expect" for field in edit.fields))


def _changes_run_data(edit: Edit) -> bool:
    """Whether an edit may change the dates or params of the job's runs."""
    dates = any(field.kind.group == "run_date" for field in edit.fields)
    return dates or bool(edit.job.param_template or edit.spec.param_template)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that can be inserted.

    Attributes:
        row: its values by the row's attributes, apart from the app's id.
        zone: the time zone of its schedule.
        entry: its entry in the audit log, apart from the job's id.

    """

    spec: JobSpec
    row: Mapping[str, Any]
    zone: str
    entry: Mapping[str, Any]


class NewJobs:
    """Creates jobs on behalf of one actor, and writes audit log entries."""

    def __init__(self, context: CommandContext) -> None:
        self._who = context.actor.who
        self._demand = context.actor.demand
        self._audit_log = context.audit_log
        self._schedules = ScheduleChanges(context)

    def prepare(self, session: Session, spec: JobSpec, now_ms: int) -> NewJob:
        """Return a job that starts now, if its spec says so; reads little and locks nothing.

        Raises:
            Problem: it is to be started and can never fire (the facts name its `app` and `job`), or
                it has a script and the actor may not change scripts.

        """
        if spec.script_language:
            self._demand(Right.EDIT_GLUE)
        row = new_row(spec, now_ms) | script_row(spec, now_ms)
        if spec.enabled:
            row |= self._start(session, spec, now_ms)
        entry = self._audit_log.values(
            Action.JOB_CREATE, f"{spec.app}/{spec.name}", now_ms=now_ms, after=record_of_new(row)
        )
        return NewJob(spec, row, self._schedules.zone(session, spec.timezone), entry)

    def insert(self, session: Session, new: Sequence[tuple[int, NewJob]], now_ms: int) -> list[int]:
        """Insert jobs, each with its app's id; return their ids.

        A job whose first tick has passed since it was prepared starts now; so does one with a
        calendar, which may have changed.

        Raises:
            Problem: as for `prepare`.

        """
        self._schedules.hold(session, (job.spec.schedule_options.calendar for _, job in new))
        return [job_id for chunk in chunks(new) for job_id in self._insert(session, chunk, now_ms)]

    def _insert(
        self, session: Session, new: Sequence[tuple[int, NewJob]], now_ms: int
    ) -> list[int]:
        rows = [self._row(session, app_id, job, now_ms) for app_id, job in new]
        by_key = job_rows.insert(session, rows)
        ids = [by_key[row["app_id"], row["name"]] for row in rows]
        started = [
            (job_id, row, job.zone)
            for job_id, row, (_, job) in zip(ids, rows, new, strict=True)
            if row["is_enabled"]
        ]
        history.record_starts(session, started, by=self._who, now_ms=now_ms)
        expecting = [job_id for job_id, row in zip(ids, rows, strict=True) if row["expect"]]
        watches.look_soon(session, expecting, since_ms=now_ms)
        scripts = {
            job_id: row for job_id, row in zip(ids, rows, strict=True) if row["script_updated"]
        }
        script_versions.save_first(session, scripts, author=self._who)
        audit_log.add_many(
            session,
            [
                {**job.entry, "object_id": job_id, "at": now_ms}
                for job_id, (_, job) in zip(ids, new, strict=True)
            ],
        )
        return ids

    def _row(self, session: Session, app_id: int, job: NewJob, now_ms: int) -> dict[str, Any]:
        row = {**job.row, "app_id": app_id}
        may_differ = row["next_tick_at"] <= now_ms or job.spec.schedule_options.calendar
        if row["is_enabled"] and may_differ:
            row |= self._start(session, job.spec, now_ms)
        return row

    def _start(self, session: Session, spec: JobSpec, now_ms: int) -> dict[str, int]:
        try:
            watermark, tick = self._schedules.check_start(session, spec, now_ms)
        except Problem as problem:
            raise problem.about(app=spec.app, job=spec.name) from None
        return {"is_enabled": 1, "last_tick_at": watermark, "next_tick_at": tick}


def new_row(spec: JobSpec, now_ms: int) -> dict[str, Any]:
    """Return the values of a stopped job without its script, apart from its app's id.

    They are complete, because otherwise each row would be read again after the insert.
    """
    return columns_of(spec) | {
        "add_time": at(now_ms),
        "update_time": at(now_ms),
        "last_tick_at": now_ms,
        "next_tick_at": 0,
        "is_enabled": 0,
        "script_type": "BEAN",
        "script_source": None,
        "script_remark": None,
        "script_updated": None,
        "script_version": None,
        "child_ids": None,
        "declared_in": None,
    }


def script_row(spec: JobSpec, now_ms: int) -> dict[str, Any]:
    """Return the values of a new job's script, apart from its version; none without a script.

    The graph of a flow is kept like a script.
    """
    if spec.flow is not None:
        return {
            "script_type": FLOW_TYPE,
            "script_source": spec.flow.to_json(),
            "script_remark": "",
            "script_updated": at(now_ms),
        }
    if not spec.script_language:
        return {}
    return {
        "script_type": script_type(spec.script_language),
        "script_source": normal_source(spec.script_language, spec.script_source),
        "script_remark": spec.script_remark,
        "script_updated": at(now_ms),
    }


def as_if_stored(job_id: int, spec: JobSpec, before: Job | None, now_ms: int) -> Job:
    """Return the row of a job once it is as described, to compare it with another spec."""
    has_run = before.is_enabled if before is not None else 0
    return Job(
        id=job_id,
        app_id=before.app_id if before is not None else 0,
        **new_row(spec, now_ms)
        | script_row(spec, now_ms)
        | {
            "script_version": 0 if spec.script_language or spec.flow else None,
            "is_enabled": has_run if spec.enabled is None else int(spec.enabled),
            "declared_in": before.declared_in if before is not None else None,
        },
    )


def new_job(app_id: int, spec: JobSpec, now_ms: int) -> Job:
    """Return a stopped job without its script that is not stored yet."""
    return Job(app_id=app_id, **new_row(spec, now_ms))

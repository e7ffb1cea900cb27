"""Creates many jobs: their rows are prepared without a transaction, then inserted together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.jobs.audit_records import (
    record_of_new,
)
from warren.scheduler.jobs.script_cache import normal_source, script_type
from warren.scheduler.jobs.spec import JobSpec, columns_of
from warren.scheduler.problems import Problem
from warren.sql.accounts import audit_log
from warren.sql.alarms import watches
from warren.sql.batch import chunks
from warren.sql.instants import at
from warren.sql.jobs import history, job_rows, script_versions
from warren.sql.models import Job
from warren.sql.models.job_tables import FLOW_TYPE


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

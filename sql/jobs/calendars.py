"""Calendars of working days: reads their versions, adds new ones, finds the jobs that use them."""

from collections.abc import Collection, Iterable
from datetime import date
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, fetch_by_ids
from warren.sql.dialects.supported import PRIMARY_KEY, use_index
from warren.sql.jobs import job_names
from warren.sql.jobs.due_jobs import JobSchedule
from warren.sql.jobs.job_names import NamedJob
from warren.sql.models import CalendarRow, Job
from warren.sql.rows import fetch, query

#: The most characters of a version's source.
SOURCE_LENGTH = 255


class VersionRow(NamedTuple):
    """A version of a calendar, without its days."""

    id: int
    name: str
    number: int
    weekend: str
    until: date
    source: str
    digest: str
    effective_at: int
    made_by: str
    not_taken: str | None


def versions(session: Session, names: Collection[str] | None = None) -> list[VersionRow]:
    """Return all versions of some calendars, or of all, by name and in order."""
    wanted = query(VersionRow, CalendarRow).order_by(CalendarRow.name, CalendarRow.number)
    if names is not None:
        wanted = wanted.where(CalendarRow.name.in_(sorted(names)))
    return fetch(session, VersionRow, wanted)


def days(session: Session, version_ids: Iterable[int]) -> dict[int, str]:
    """Return the days of versions by id, as JSON."""
    wanted = select(CalendarRow.id, CalendarRow.days)
    return {
        version_id: text
        for chunk in chunks(version_ids)
        for version_id, text in session.execute(wanted.where(CalendarRow.id.in_(chunk)))
    }


def lock_newest(session: Session, names: Collection[str]) -> dict[str, CalendarRow]:
    """Lock the newest version of each calendar, in the order of their names; return them by name.

    A change of a calendar and a change of a job that uses it wait for each other here.
    """
    newest = (
        select(func.max(CalendarRow.id))
        .where(CalendarRow.name.in_(sorted(names)))
        .group_by(CalendarRow.name)
    )
    ids = list(session.execute(newest).scalars())
    locked = (
        select(CalendarRow)
        .where(CalendarRow.id.in_(ids))
        .order_by(CalendarRow.name)
        .with_for_update()
    )
    return {row.name: row for row in session.execute(locked).scalars()}


def add(session: Session, version: CalendarRow) -> None:
    """Store a new version."""
    session.add(version)
    session.flush()


def newest(session: Session, name: str) -> VersionRow | None:
    """Return the newest version of a calendar; None if there is none."""
    of_name = versions(session, [name])
    return of_name[-1] if of_name else None


def users_to_plan(session: Session, name: str, *, lock: bool) -> list[JobSchedule]:
    """Return the jobs whose schedules use a calendar, in the order of their ids."""
    # A job that begins to use it meanwhile waits for the lock of its newest version.
    ids = list(session.execute(select(Job.id).where(_by_schedule(name)).order_by(Job.id)).scalars())
    wanted = use_index(query(JobSchedule, Job), Job, PRIMARY_KEY).order_by(Job.id)
    if lock:
        wanted = wanted.with_for_update()
    return fetch_by_ids(session, JobSchedule, wanted, Job.id, ids)


def names(session: Session) -> list[str]:
    named = select(CalendarRow.name).distinct().order_by(CalendarRow.name)
    return list(session.execute(named).scalars())


def users(session: Session, name: str, app_ids: Collection[int] | None) -> list[NamedJob]:
    """Return the jobs of apps that use a calendar, for due times or for run dates."""
    using = job_names.of_jobs().where(or_(_by_schedule(name), Job.run_date_calendar == name))
    if app_ids is not None:
        using = using.where(Job.app_id.in_(app_ids))
    return fetch(session, NamedJob, using.order_by(Job.id))


def _by_schedule(name: str) -> ColumnElement[bool]:
    return Job.schedule_options.contains(f'"calendar":"{name}"', autoescape=True)

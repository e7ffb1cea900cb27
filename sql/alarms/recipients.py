"""The recipients of alarms, and the apps that are watched for executors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.models import Alarm, App, Job
from warren.sql.rows import fetch, query


class JobRecipients(NamedTuple):
    """The columns for a job's failure alarms, of the job and of its app."""

    id: int
    app_id: int
    name: str
    timezone: str | None
    app: str
    alarm_email: str | None
    alarm_webhook: str | None
    alarm_style: str | None
    app_email: str | None
    app_webhook: str | None
    app_style: str | None


class WaitingApp(NamedTuple):
    """An app with enabled jobs, and its columns for alarms."""

    id: int
    name: str
    alarm_email: str | None
    alarm_webhook: str | None
    alarm_style: str | None


class AppAlarm(NamedTuple):
    """An alarm about an app itself, not about a job."""

    app_id: int
    subject_key: str
    created_at: int


def job_targets(session: Session, job_ids: Iterable[int]) -> dict[int, JobRecipients]:
    """Return the recipients of jobs' failure alarms, by job id."""
    of_jobs = query(
        JobRecipients,
        Job,
        app=App.name,
        app_email=App.alarm_email,
        app_webhook=App.alarm_webhook,
        app_style=App.alarm_style,
    ).join(App, App.id == Job.app_id)
    return {
        job.id: job
        for chunk in chunks(job_ids)
        for job in fetch(session, JobRecipients, of_jobs.where(Job.id.in_(chunk)))
    }


def waiting_apps(session: Session) -> list[WaitingApp]:
    """Return the apps with enabled jobs, sorted by id; reads one job of each."""
    has_jobs = exists().where(Job.app_id == App.id, Job.is_enabled == 1)
    return fetch(session, WaitingApp, query(WaitingApp, App).where(has_jobs).order_by(App.id))


def count_enabled(session: Session, app_id: int) -> int:
    """Return the number of an app's enabled jobs."""
    enabled = select(func.count()).where(Job.app_id == app_id, Job.is_enabled == 1)
    return session.execute(enabled).scalar_one()


def newest_of_apps(session: Session, subjects: Sequence[str]) -> dict[int, AppAlarm]:
    """Return the newest alarm about each app with one of these subject prefixes, by app id."""
    newest = (
        select(func.max(Alarm.id).label("id"))
        .where(
            Alarm.job_id == 0,
            or_(*(Alarm.subject_key.startswith(subject) for subject in subjects)),
        )
        .group_by(Alarm.app_id)
        .subquery()
    )
    about = query(AppAlarm, Alarm).join(newest, newest.c.id == Alarm.id)
    return {alarm.app_id: alarm for alarm in fetch(session, AppAlarm, about)}


def differing(app: App, columns: Mapping[str, str]) -> list[str]:
    """Return those of the columns in which an app's alarm targets differ from these."""
    return [name for name, value in columns.items() if (getattr(app, name) or "") != value]


def set_app(session: Session, app_id: int, columns: Mapping[str, str]) -> list[str]:
    """Set an app's alarm targets; return the columns that changed."""
    app = session.get_one(App, app_id)
    changed = differing(app, columns)
    for name in changed:
        setattr(app, name, columns[name] or None)
    session.flush()
    return changed

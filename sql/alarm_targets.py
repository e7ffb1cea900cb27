"""Whom alarms go to, and the apps that could be without an executor."""

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.models import Alarm, App, Job
from sql.rows import AnyRow, Rows


def job_targets(session: Session, job_ids: Iterable[int]) -> dict[int, AnyRow]:
    """Return, by job id, who is told of a job's failures: its own targets and its app's."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in session.execute(
            select(
                Job.id,
                Job.job_desc.label("name"),
                Job.timezone,
                App.app_name.label("app"),
                Job.alarm_email,
                Job.alarm_webhook,
                Job.alarm_style,
                App.alarm_email.label("app_email"),
                App.alarm_webhook.label("app_webhook"),
                App.alarm_style.label("app_style"),
            )
            .join(App, App.id == Job.job_group)
            .where(Job.id.in_(chunk))
        )
    }


def waiting_apps(session: Session) -> Rows:
    """Return the apps with enabled jobs: how many, and who is told when no executor is there."""
    return session.execute(
        select(
            App.id,
            App.app_name.label("name"),
            App.alarm_email,
            App.alarm_webhook,
            App.alarm_style,
            func.count(Job.id).label("jobs"),
        )
        .join(Job, Job.job_group == App.id)
        .where(Job.trigger_status == 1)
        .group_by(App.id, App.app_name, App.alarm_email, App.alarm_webhook, App.alarm_style)
        .order_by(App.id)
    ).all()


def newest_of_apps(session: Session) -> dict[int, AnyRow]:
    """Return the newest alarm about each app itself, by app id; summaries are none."""
    newest = (
        select(func.max(Alarm.id).label("id"))
        .where(Alarm.job_id == 0, Alarm.subject_key.not_like("held:%"))
        .group_by(Alarm.app_id)
        .subquery()
    )
    rows = session.execute(
        select(Alarm.app_id, Alarm.subject_key, Alarm.created_at).join(
            newest, newest.c.id == Alarm.id
        )
    )
    return {row.app_id: row for row in rows}


def set_app(session: Session, app_id: int, *, emails: str, webhook: str, style: str) -> bool:
    """Say whom an app wants told; False when it is so already."""
    app = session.get_one(App, app_id)
    columns = {"alarm_email": emails, "alarm_webhook": webhook, "alarm_style": style}
    if all((getattr(app, name) or "") == value for name, value in columns.items()):
        return False
    for name, value in columns.items():
        setattr(app, name, value or None)
    session.flush()
    return True

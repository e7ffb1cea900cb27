"""Alarms: whom they go to, how they are stored, and how schedulers claim and send them.

    NEW ── let through ──> READY ── sent ──> SENT
     └─ too many ──> HELD ── in a summary ──> TOLD      READY ── a day in vain, refused ──> GIVEN_UP
    GIVEN_UP ── sent again by a person ──> READY        READY, GIVEN_UP ── by a person ──> DISMISSED

A test starts as READY and is tried once. A claim moves `next_try_at` ahead, so that after a crash
another scheduler takes the alarm. One scheduler at a time applies the rate limit.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, exists, func, not_, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, fetch_by_ids, insert_or_ignore, modify
from warren.sql.dialects.supported import of, use_index
from warren.sql.models import Alarm, App, Job, Lease, Run
from warren.sql.models.run_tables import BY_CHANNEL
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
    jobs = fetch_by_ids(session, JobRecipients, of_jobs, Job.id, job_ids)
    return {job.id: job for job in jobs}


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
    """Return the columns in which an app's alarm targets differ from these."""
    return [name for name, value in columns.items() if (getattr(app, name) or "") != value]


def set_app(session: Session, app_id: int, columns: Mapping[str, str]) -> list[str]:
    """Set an app's alarm targets; return the columns that changed."""
    app = session.get_one(App, app_id)
    changed = differing(app, columns)
    for name in changed:
        setattr(app, name, columns[name] or None)
    if "alarm_webhook" in changed and "alarm_secret" not in columns:
        app.alarm_secret = None
    session.flush()
    return changed


#: The channel of e-mails; a webhook's channel is the style of its body.
MAIL = "mail"
#: The channel of run webhooks, which report the ends of runs: no alarms, but sent like them.
RUN_END = "run-end"


class AlarmStatus(StrEnum):
    """The state of an alarm."""

    NEW = "NEW"
    READY = "READY"
    HELD = "HELD"
    TOLD = "TOLD"
    SENT = "SENT"
    GIVEN_UP = "GIVEN_UP"
    DISMISSED = "DISMISSED"


class MessageKind(StrEnum):
    """The kinds of messages; each has its own threads, so that none delays another."""

    MAIL = "mails"
    WEBHOOK = "webhooks"
    RUN_END = "run webhooks"


#: The subject prefix of tests, which people send to see whether a target works.
TEST = "test:"
#: The statuses in which nothing more happens by itself.
FINISHED = (AlarmStatus.TOLD, AlarmStatus.SENT, AlarmStatus.GIVEN_UP, AlarmStatus.DISMISSED)
UNSENT = (AlarmStatus.NEW, AlarmStatus.READY, AlarmStatus.HELD, AlarmStatus.GIVEN_UP)


class RunAlarm(IntEnum):
    """The values of a run's `alarm_status`, with XXL-JOB's numbers."""

    NONE = 0
    NOBODY_TO_TELL = 1
    SENT = 2
    GIVEN_UP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAlarm:
    """An alarm for one target; `subject_key` and target together are unique."""

    subject_key: str
    channel: str
    target: str
    content: str
    created_at: int
    job_id: int = 0
    app_id: int = 0
    run_id: int = 0
    status: AlarmStatus = AlarmStatus.NEW


def add(session: Session, alarms: Iterable[NewAlarm]) -> None:
    """Store alarms, except those whose subject and target already have one."""
    rows = [
        {
            "subject_key": alarm.subject_key,
            "channel": alarm.channel,
            "target": alarm.target,
            "target_hash": _hash(alarm.target),
            "status": alarm.status.value,
            "job_id": alarm.job_id,
            "app_id": alarm.app_id,
            "run_id": alarm.run_id,
            "content": alarm.content,
            "created_at": alarm.created_at,
            "next_try_at": alarm.created_at,
            "tries": 0,
        }
        for alarm in alarms
    ]
    # Always in the same order, so that two schedulers cannot deadlock on their keys.
    rows.sort(key=lambda row: (row["subject_key"], row["channel"], row["target_hash"]))
    insert_or_ignore(session, Alarm, rows)


def secret_of(session: Session, alarm: Alarm) -> str:
    """Return the secret that the alarm's job or app has for its target; empty if there is none."""
    owners = (
        select(Job.alarm_secret).where(Job.id == alarm.job_id, Job.alarm_webhook == alarm.target),
        select(App.alarm_secret).where(App.id == alarm.app_id, App.alarm_webhook == alarm.target),
    )
    found = (session.execute(owner).scalar() for owner in owners)
    return next((str(secret) for secret in found if secret), "")


def jobs_alarmed(
    session: Session, job_ids: Iterable[int], subject: str, *, since_ms: int
) -> set[int]:
    """Return which of the jobs have an alarm after `since_ms` with this subject prefix."""
    return {
        job_id
        for chunk in chunks(sorted(job_ids))
        for job_id in session.execute(
            select(Alarm.job_id).where(
                Alarm.job_id.in_(chunk),
                Alarm.created_at > since_ms,
                Alarm.subject_key.like(f"{subject}%"),
            )
        ).scalars()
    }


def claim(
    session: Session,
    kind: MessageKind,
    *,
    now_ms: int,
    until_ms: int,
    except_targets: Collection[str] = (),
) -> Alarm | None:
    """Claim the next message of a kind; no one else gets it before `until_ms`.

    `except_targets` are the hashes of targets to skip.
    """
    wanted = [*is_ready(now_ms, kind)]
    if except_targets:
        wanted.append(Alarm.target_hash.not_in(sorted(except_targets)))
    alarm = session.execute(
        use_index(select(Alarm), Alarm, BY_CHANNEL)
        .where(*wanted)
        .order_by(Alarm.next_try_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    ).scalar_one_or_none()
    if alarm is not None:
        alarm.tries += 1
        alarm.next_try_at = until_ms
    return alarm


def is_ready(now_ms: int, kind: MessageKind) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on messages of a kind that are due to be sent."""
    channels = {
        MessageKind.MAIL: Alarm.channel == MAIL,
        MessageKind.WEBHOOK: Alarm.channel.not_in((MAIL, RUN_END)),
        MessageKind.RUN_END: Alarm.channel == RUN_END,
    }
    return Alarm.status == AlarmStatus.READY, channels[kind], Alarm.next_try_at <= now_ms


def jobs_with_unsent(session: Session, job_ids: Iterable[int], count: int) -> set[int]:
    """Return which of the jobs have at least `count` messages that wait to be sent."""
    waiting = (
        select(Alarm.job_id)
        .where(Alarm.status == AlarmStatus.READY)
        .group_by(Alarm.job_id)
        .having(func.count() >= count)
    )
    return {
        job_id
        for chunk in chunks(sorted(job_ids))
        for job_id in session.execute(waiting.where(Alarm.job_id.in_(chunk))).scalars()
    }


def settle(session: Session, alarm: Alarm, **columns: Any) -> bool:
    """Update a claimed alarm; return False if it was claimed again meanwhile."""
    claimed = update(Alarm).where(
        Alarm.id == alarm.id,
        Alarm.status == AlarmStatus.READY,
        Alarm.tries == alarm.tries,
    )
    return modify(session, claimed.values(**columns)) > 0


def forget(session: Session, alarm: Alarm) -> None:
    """Delete a claimed message that was sent, unless it was claimed again meanwhile."""
    modify(session, delete(Alarm).where(Alarm.id == alarm.id, Alarm.tries == alarm.tries))


def mark_runs(session: Session, run_ids: Iterable[int], outcome: RunAlarm) -> None:
    """Store the outcome of runs' alarms; with several targets, the worst outcome wins."""
    for chunk in chunks(sorted(set(run_ids))):
        statement = update(Run).where(Run.id.in_(chunk), Run.alarm_status < outcome)
        modify(session, statement.values(alarm_status=outcome))


def _hash(target: str) -> str:
    return hashlib.sha256(target.encode()).hexdigest()[:32]


#: The lease row that serves as a lock.
_LOCK = "alarms"
#: Statuses of alarms that count toward the limit.
_LET_THROUGH = (AlarmStatus.READY, AlarmStatus.SENT, AlarmStatus.GIVEN_UP)
#: The subject prefix of summaries, which do not count.
SUMMARY = "held:"
#: The subject prefixes of alarms about an app's last executor leaving, and about its return. These
#: have a limit of their own, so that problems of many executors do not hide an outage.
ABSENCE, RETURN = "absent:", "back:"


def is_about_absence(alarm: Alarm) -> bool:
    """Return whether an alarm is about an app that lost all executors, or has one again."""
    return alarm.subject_key.startswith((ABSENCE, RETURN))


class Group(NamedTuple):
    """The alarms of one job, or of one app (`job_id` 0), to one target."""

    job_id: int
    app_id: int
    channel: str
    target_hash: str

    @staticmethod
    def of(alarm: Alarm) -> "Group":
        return Group(alarm.job_id, alarm.app_id, alarm.channel, alarm.target_hash)

    def where(self) -> tuple[Any, ...]:
        """Return the conditions on rows of this group."""
        return (
            Alarm.job_id == self.job_id,
            Alarm.app_id == self.app_id,
            Alarm.channel == self.channel,
            Alarm.target_hash == self.target_hash,
        )


class HeldAlarms(NamedTuple):
    """The alarms of a group that are held back; at least one."""

    number: int
    first_at: int
    last_at: int
    newest_id: int


def make_lock_row(session: Session) -> None:
    """Insert the row that `hold_lock_row` locks, if it is missing."""
    row = {"lock_name": _LOCK, "until_at": 0}
    session.execute(of(session).insert_or_ignore(Lease, Lease.lock_name).values(row))


def hold_lock_row(session: Session) -> bool:
    """Lock the right to decide about new alarms until the transaction ends; False if taken."""
    row = select(Lease.lock_name).where(Lease.lock_name == _LOCK)
    return session.execute(row.with_for_update(skip_locked=True)).first() is not None


def is_decision_needed(session: Session, now_ms: int) -> bool:
    """Return whether there are new alarms, or held ones whose hour is over."""
    row = session.execute(select(Alarm.id).where(is_undecided(now_ms)).limit(1))
    return row.first() is not None


def is_undecided(now_ms: int) -> ColumnElement[bool]:
    """Return the condition on new alarms, and on held ones whose hour is over."""
    return or_(
        Alarm.status == AlarmStatus.NEW,
        and_(Alarm.status == AlarmStatus.HELD, Alarm.next_try_at <= now_ms),
    )


def undecided(session: Session, limit: int) -> Sequence[Alarm]:
    """Return new alarms, oldest first."""
    return (
        session.execute(
            select(Alarm).where(Alarm.status == AlarmStatus.NEW).order_by(Alarm.id).limit(limit)
        )
        .scalars()
        .all()
    )


def let_through_since(
    session: Session, group: Group, since_ms: int, *, about_absence: bool
) -> list[int]:
    """Return the times of a group's alarms that were let through after `since_ms`, in order.

    `about_absence`: only those about absence; otherwise only the others.
    """
    is_about = or_(*(Alarm.subject_key.like(f"{kind}%") for kind in (ABSENCE, RETURN)))
    return list(
        session.execute(
            select(Alarm.created_at)
            .where(
                *group.where(),
                Alarm.status.in_(_LET_THROUGH),
                Alarm.created_at > since_ms,
                Alarm.subject_key.not_like(f"{SUMMARY}%"),
                Alarm.subject_key.not_like(f"{TEST}%"),
                is_about if about_absence else not_(is_about),
            )
            .order_by(Alarm.created_at)
        ).scalars()
    )


def overdue_groups(session: Session, now_ms: int, limit: int) -> list[Group]:
    """Return groups with held alarms whose hour is over."""
    overdue = query(Group, Alarm).where(
        Alarm.status == AlarmStatus.HELD, Alarm.next_try_at <= now_ms
    )
    return fetch(session, Group, overdue.distinct().limit(limit))


def held_of(session: Session, group: Group) -> HeldAlarms:
    """Return a group's held alarms; the group must have some."""
    summary = session.execute(
        select(
            func.count(Alarm.id),
            func.min(Alarm.created_at),
            func.max(Alarm.created_at),
            func.max(Alarm.id),
        ).where(*group.where(), Alarm.status == AlarmStatus.HELD)
    )
    return HeldAlarms(*summary.one())


def last_runs(session: Session, group: Group, count: int) -> list[int]:
    """Return the newest `count` runs with held alarms of a group, oldest first."""
    newest = session.execute(
        select(Alarm.run_id)
        .where(*group.where(), Alarm.status == AlarmStatus.HELD, Alarm.run_id > 0)
        .order_by(Alarm.id.desc())
        .limit(count)
    )
    return list(reversed(newest.scalars().all()))


def mark_summarized(session: Session, group: Group) -> None:
    """Move all held alarms of a group to TOLD: they are in a summary now."""
    held = update(Alarm).where(*group.where(), Alarm.status == AlarmStatus.HELD)
    modify(session, held.values(status=AlarmStatus.TOLD))


def runs_in_summary(session: Session, group: Group, first_at: int, last_at: int) -> list[int]:
    """Return the runs whose alarms, from `first_at` to `last_at`, are in a summary."""
    return list(
        session.execute(
            select(Alarm.run_id).where(
                *group.where(),
                Alarm.status == AlarmStatus.TOLD,
                Alarm.created_at.between(first_at, last_at),
                Alarm.run_id > 0,
            )
        ).scalars()
    )


def change(session: Session, ids: Sequence[int], columns: Mapping[str, Any]) -> None:
    """Update alarms while the caller holds the lock row."""
    for chunk in chunks(sorted(ids)):
        modify(session, update(Alarm).where(Alarm.id.in_(chunk)).values(**columns))


def expired(session: Session, *, before_ms: int, limit: int) -> Sequence[Alarm]:
    """Return alarms from before an instant that were not sent and are not being sent."""
    return (
        session.execute(
            select(Alarm)
            .where(
                Alarm.status == AlarmStatus.READY,
                Alarm.created_at < before_ms,
                Alarm.next_try_at < before_ms,
            )
            .limit(limit)
        )
        .scalars()
        .all()
    )


def purge(session: Session, *, before_ms: int, limit: int) -> int:
    """Delete alarms that were finished before an instant; return how many."""
    ids = [
        alarm_id
        for status in FINISHED
        for alarm_id in session.execute(
            select(Alarm.id)
            .where(Alarm.status == status, Alarm.next_try_at < before_ms)
            .limit(limit)
        ).scalars()
    ]
    for chunk in chunks(sorted(ids)):
        session.execute(delete(Alarm).where(Alarm.id.in_(chunk)))
    return len(ids)

"""Queries and updates of the rate limit on alarms, which one scheduler at a time applies."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, func, not_, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.alarms.alarms import FINISHED, TEST, AlarmStatus
from warren.sql.batch import chunks, modify
from warren.sql.dialects.supported import of
from warren.sql.models import Alarm, Lease
from warren.sql.rows import fetch, query

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

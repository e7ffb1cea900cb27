"""Which alarms are let through and which are held back: what one scheduler at a time decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, update
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.orm import Session

from sql.alarms import OVER, AlarmStatus
from sql.batch import chunks
from sql.models import Alarm, Lease
from sql.rows import AnyRow

#: The row that its holder locks.
_GATE = "alarms"
#: Alarms that count when an hour's are counted.
_LET_THROUGH = (AlarmStatus.READY, AlarmStatus.SENT, AlarmStatus.GIVEN_UP)
#: How the subject of a summary begins; it is beside the count.
SUMMARY = "held:"


@dataclass(frozen=True, slots=True)
class Group:
    """The alarms of one job, or of one app (`job_id` 0), to one target."""

    job_id: int
    app_id: int
    channel: str
    target_hash: str

    @staticmethod
    def of(row: AnyRow | Alarm) -> "Group":
        """Return the group that a row belongs to."""
        return Group(row.job_id, row.app_id, row.channel, row.target_hash)

    def where(self) -> tuple[Any, ...]:
        """Return the conditions on rows of this group."""
        return (
            Alarm.job_id == self.job_id,
            Alarm.app_id == self.app_id,
            Alarm.channel == self.channel,
            Alarm.target_hash == self.target_hash,
        )


def make_gate(session: Session) -> None:
    """Make the row that `hold_gate` locks."""
    row = {"lock_name": _GATE, "until_at": 0}
    if session.get_bind().dialect.name == "sqlite":
        session.execute(sqlite.insert(Lease).values(row).on_conflict_do_nothing())
    else:
        made = mysql.insert(Lease).values(row)
        session.execute(made.on_duplicate_key_update(lock_name=Lease.lock_name))


def hold_gate(session: Session) -> bool:
    """Become the one who decides about new alarms, to the end of the transaction."""
    held = select(Lease.lock_name).where(Lease.lock_name == _GATE)
    return session.execute(held.with_for_update(skip_locked=True)).first() is not None


def is_gate_needed(session: Session, now_ms: int) -> bool:
    """Return whether there are new alarms, or held ones whose hour is over."""
    wanted = or_(
        Alarm.status == AlarmStatus.NEW,
        and_(Alarm.status == AlarmStatus.HELD, Alarm.next_try_at <= now_ms),
    )
    return session.execute(select(Alarm.id).where(wanted).limit(1)).first() is not None


def fresh(session: Session, limit: int) -> Sequence[Alarm]:
    """Return alarms that nobody has decided about, in order."""
    return (
        session.execute(
            select(Alarm).where(Alarm.status == AlarmStatus.NEW).order_by(Alarm.id).limit(limit)
        )
        .scalars()
        .all()
    )


def let_through_since(session: Session, group: Group, since_ms: int) -> list[int]:
    """Return when the alarms of a group were made that were let through, in order."""
    return list(
        session.execute(
            select(Alarm.created_at)
            .where(
                *group.where(),
                Alarm.status.in_(_LET_THROUGH),
                Alarm.created_at > since_ms,
                Alarm.subject_key.not_like(f"{SUMMARY}%"),
            )
            .order_by(Alarm.created_at)
        ).scalars()
    )


def overdue_groups(session: Session, now_ms: int, limit: int) -> list[Group]:
    """Return groups with alarms that were held back for an hour that is over."""
    rows = session.execute(
        select(Alarm.job_id, Alarm.app_id, Alarm.channel, Alarm.target_hash)
        .where(Alarm.status == AlarmStatus.HELD, Alarm.next_try_at <= now_ms)
        .distinct()
        .limit(limit)
    )
    return [Group.of(row) for row in rows]


def held_of(session: Session, group: Group) -> AnyRow:
    """Return number, first, last and newest id of a group's alarms that are held back."""
    return session.execute(
        select(
            func.count(Alarm.id).label("number"),
            func.min(Alarm.created_at).label("first_at"),
            func.max(Alarm.created_at).label("last_at"),
            func.max(Alarm.id).label("newest_id"),
        ).where(*group.where(), Alarm.status == AlarmStatus.HELD)
    ).one()


def last_runs(session: Session, group: Group, count: int) -> list[int]:
    """Return the newest runs of a group's alarms that are held back, oldest first."""
    newest = session.execute(
        select(Alarm.run_id)
        .where(*group.where(), Alarm.status == AlarmStatus.HELD, Alarm.run_id > 0)
        .order_by(Alarm.id.desc())
        .limit(count)
    )
    return list(reversed(newest.scalars().all()))


def tell_held(session: Session, group: Group) -> None:
    """Note that all alarms of a group that are held back are in a summary now."""
    _execute(
        session,
        update(Alarm)
        .where(*group.where(), Alarm.status == AlarmStatus.HELD)
        .values(status=AlarmStatus.TOLD),
    )


def runs_in_summary(session: Session, group: Group, first_at: int, last_at: int) -> list[int]:
    """Return the runs whose alarms a summary of that time told."""
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
    """Change alarms whose gate the caller holds."""
    for chunk in chunks(sorted(ids)):
        _execute(session, update(Alarm).where(Alarm.id.in_(chunk)).values(**columns))


def expired(session: Session, *, before_ms: int, limit: int) -> Sequence[Alarm]:
    """Return alarms made before an instant that nobody has sent and nobody is sending."""
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
    """Delete alarms that were over before an instant; return how many."""
    ids = [
        alarm_id
        for status in OVER
        for alarm_id in session.execute(
            select(Alarm.id)
            .where(Alarm.status == status, Alarm.next_try_at < before_ms)
            .limit(limit)
        ).scalars()
    ]
    for chunk in chunks(sorted(ids)):
        session.execute(delete(Alarm).where(Alarm.id.in_(chunk)))
    return len(ids)


def _execute(session: Session, statement: Any) -> None:
    session.execute(statement, execution_options={"synchronize_session": False})

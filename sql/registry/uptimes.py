"""When schedulers could send: one row for each uptime, in which at least one of them could.

The newest row is the present uptime; every scheduler that can send extends it. After a longer gap a
new row begins, which also shows how long the downtime was.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    CompoundSelect,
    and_,
    bindparam,
    func,
    literal,
    select,
    union_all,
    update,
)
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.clock import JUMP_MS, database_now_ms
from warren.sql.models import Pause, Uptime
from warren.sql.rows import fetch, query

#: There was a downtime before the uptime; and runs that were due in it may still be undecided.
IS_DOWNTIME = Uptime.down_since < Uptime.since_at
IS_UNSETTLED = and_(IS_DOWNTIME, Uptime.is_settled == 0)

#: Selects when a scheduler last recorded that it can send.
LAST_RECORD = select(Uptime.until_at).order_by(Uptime.id.desc()).limit(1)

#: Extends the newest uptime. It matches no row if there is none, or if the gap was too long.
_NEWEST = select(func.max(Uptime.id).label("id")).subquery()
EXTENSION = (
    update(Uptime)
    .where(
        # MySQL can read the table that it updates only through a derived table.
        Uptime.id == select(_NEWEST.c.id).scalar_subquery(),
        Uptime.until_at.between(bindparam("earliest_ms"), bindparam("now_ms")),
    )
    .values(until_at=bindparam("now_ms"))
)


class Downtime(NamedTuple):
    """A time in which no scheduler could send, in epoch milliseconds; of one app, 0 = of all."""

    id: int
    from_ms: int
    to_ms: int
    app_id: int = 0


def newest(session: Session) -> int:
    """Return when a scheduler last recorded that it can send; 0 = never."""
    return session.execute(LAST_RECORD).scalar_one_or_none() or 0


def extend(session: Session, *, now_ms: Callable[[], int], gap_ms: int) -> int:
    """Record that a scheduler can send now; return how many milliseconds none could.

    `now_ms` is called once the newest uptime is locked, as that may take long. A gap of up to
    `gap_ms` is no downtime. Two schedulers that end a downtime at the same time may each begin an
    uptime; the downtime is then recorded twice, which is harmless. A scheduler whose clock differs
    from the database's, because it has not noticed a jump yet, records nothing.
    """
    last = _lock_newest(session)
    at_ms = now_ms()
    if last is not None and abs(at_ms - last.until_at) <= gap_ms:
        last.until_at = max(last.until_at, at_ms)
        return 0
    if abs(database_now_ms(session) - at_ms) > JUMP_MS:
        return 0  # the caller's clock is wrong, and so would be the gap
    # A clock that was set back also begins a new uptime, without a downtime before it.
    down_since = at_ms if last is None else min(last.until_at, at_ms)
    is_downtime = down_since < at_ms
    session.add(
        Uptime(
            down_since=down_since, since_at=at_ms, until_at=at_ms, is_settled=int(not is_downtime)
        )
    )
    return at_ms - down_since


def _lock_newest(session: Session) -> Uptime | None:
    """Lock and return the newest uptime; None if there is none.

    PostgreSQL returns the row that was the newest before it waited for the lock, so another
    scheduler may have begun one meanwhile.
    """
    wanted = select(Uptime).order_by(Uptime.id.desc()).limit(1).with_for_update()
    while (last := session.execute(wanted).scalar_one_or_none()) is not None:
        if last.id == session.execute(select(func.max(Uptime.id))).scalar_one():
            break
    return last


def extension_values(*, now_ms: int, gap_ms: int) -> dict[str, int]:
    """Return the parameters of `EXTENSION`."""
    return {"now_ms": now_ms, "earliest_ms": now_ms - gap_ms}


class SendingState(NamedTuple):
    """Whether schedulers could send: when last, and the times in which runs may be undecided."""

    until_ms: int
    downtimes: Sequence[Downtime]


def sending_state(session: Session, app_id: int, now_ms: int) -> SendingState:
    """Return what decides whether runs of an app may be sent, in one statement.

    The downtimes are the unsettled ones, and the app's unsettled pauses that have ended.
    """
    rows = session.execute(_SENDING_STATE, {"app_id": app_id, "now_ms": now_ms}).all()
    until_ms = max((row.until_at for row in rows), default=0)
    return SendingState(until_ms, [Downtime(*row[:4]) for row in rows if row.id])


def start_of_outage(session: Session, due_ms: int, now_ms: int, *, gap_ms: int) -> int:
    """Return the beginning of the outage that kept a run due at `due_ms` from being sent.

    The answer is the same before and after the outage is recorded; without one it is `due_ms`.
    """
    ended_later = select(func.min(Uptime.id)).where(IS_DOWNTIME, Uptime.since_at > due_ms)
    recorded = select(Uptime.down_since).where(Uptime.id == ended_later.scalar_subquery())
    began_ms = session.execute(recorded).scalar_one_or_none()
    if began_ms is not None:
        return began_ms
    until_ms = newest(session)
    return until_ms if until_ms < now_ms - gap_ms else due_ms


def unsettled(session: Session) -> list[Downtime]:
    """Return the downtimes with due runs that may still be undecided."""
    return _downtimes(session, only_unsettled=True)


def downtimes(session: Session) -> list[Downtime]:
    """Return all downtimes, in order."""
    return _downtimes(session, only_unsettled=False)


def settle(session: Session, downtimes: Iterable[Downtime]) -> None:
    """Record that all runs due in these downtimes are decided."""
    ids = [downtime.id for downtime in downtimes]
    modify(session, update(Uptime).where(Uptime.id.in_(ids)).values(is_settled=1))


def _downtimes(session: Session, *, only_unsettled: bool) -> list[Downtime]:
    bounds = {"from_ms": Uptime.down_since, "to_ms": Uptime.since_at}
    statement = query(Downtime, Uptime, **bounds, app_id=literal(0))
    statement = statement.where(IS_UNSETTLED if only_unsettled else IS_DOWNTIME)
    return fetch(session, Downtime, statement.order_by(Uptime.id))


def _sending_state() -> CompoundSelect[*tuple[Any, ...]]:
    """Return the SELECT of the newest uptime, open downtimes, and open pauses of an app."""
    nothing = literal(0)
    newest = select(
        nothing.label("id"),
        nothing.label("from_ms"),
        nothing.label("to_ms"),
        nothing.label("app_id"),
        Uptime.until_at.label("until_at"),
    ).where(Uptime.id == select(_NEWEST.c.id).scalar_subquery())
    of_all = select(Uptime.id, Uptime.down_since, Uptime.since_at, nothing, nothing)
    of_app = select(Pause.id, Pause.since_at, Pause.until_at, Pause.app_id, nothing)
    return union_all(
        newest,
        of_all.where(IS_UNSETTLED),
        of_app.where(
            Pause.is_settled == 0,
            Pause.app_id == bindparam("app_id"),
            Pause.until_at <= bindparam("now_ms"),
        ),
    )


#: Built once, because each claim executes it.
_SENDING_STATE = _sending_state()

"""When schedulers could send: one row for each uptime, in which at least one of them could.

The newest row is the present uptime; every scheduler that can send extends it. After a longer gap a
new row begins, which also shows how long the downtime was.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, func, literal, select, update
from sqlalchemy.orm import Session

from warren.sql.clock import JUMP_MS, database_now_ms
from warren.sql.models import Uptime
from warren.sql.rows import fetch, query
from warren.sql.updates import modify

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


def extend(session: Session, *, now_ms: int, gap_ms: int) -> int:
    """Record that a scheduler can send now; return how many milliseconds none could.

    A gap of up to `gap_ms` is no downtime. Two schedulers that end a downtime at the same time may
    each begin an uptime; the downtime is then recorded twice, which is harmless. A scheduler whose
    clock is not the database's, as before it has noticed a jump, records nothing.
    """
    instants = extension_values(now_ms=now_ms, gap_ms=gap_ms)
    extended: Any = session.connection().execute(EXTENSION, instants)
    if extended.rowcount:
        return 0
    last = session.execute(
        select(Uptime).order_by(Uptime.id.desc()).limit(1).with_for_update()
    ).scalar_one_or_none()
    if last is not None and abs(now_ms - last.until_at) <= gap_ms:
        last.until_at = max(last.until_at, now_ms)
        return 0
    if abs(database_now_ms(session) - now_ms) > JUMP_MS:
        return 0  # the caller's clock is wrong, and so would be the gap
    # A clock that was set back also begins a new uptime, without a downtime before it.
    down_since = now_ms if last is None else min(last.until_at, now_ms)
    is_downtime = down_since < now_ms
    session.add(
        Uptime(
            down_since=down_since, since_at=now_ms, until_at=now_ms, is_settled=int(not is_downtime)
        )
    )
    return now_ms - down_since


def extension_values(*, now_ms: int, gap_ms: int) -> dict[str, int]:
    """Return the parameters of `EXTENSION`."""
    return {"now_ms": now_ms, "earliest_ms": now_ms - gap_ms}


def unsettled(session: Session) -> list[Downtime]:
    """Return the downtimes with due runs that may still be undecided."""
    return _downtimes(session, only_unsettled=True)


def downtimes(session: Session) -> list[Downtime]:
    """Return all downtimes, in order."""
    return _downtimes(session, only_unsettled=False)


def settle(session: Session, downtimes: Iterable[Downtime]) -> None:
    """Record that all runs due in these downtimes are decided."""
    ids = [one.id for one in downtimes]
    modify(session, update(Uptime).where(Uptime.id.in_(ids)).values(is_settled=1))


def _downtimes(session: Session, *, only_unsettled: bool) -> list[Downtime]:
    bounds = {"from_ms": Uptime.down_since, "to_ms": Uptime.since_at}
    statement = query(Downtime, Uptime, **bounds, app_id=literal(0))
    statement = statement.where(IS_UNSETTLED if only_unsettled else IS_DOWNTIME)
    return fetch(session, Downtime, statement.order_by(Uptime.id))

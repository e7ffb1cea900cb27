"""When schedulers could send: one row for each stretch in which at least one of them could.

The newest row is the present stretch; whoever can send prolongs it. A longer silence begins a new
row, which shows how long nobody could.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, func, literal, select, update
from sqlalchemy.orm import Session

from sql.models import Uptime
from sql.rows import fetch, query

#: Nobody could send before the stretch; and there may be planned runs left of that time.
IS_DOWNTIME = Uptime.down_since < Uptime.since_at
IS_UNSETTLED = and_(IS_DOWNTIME, Uptime.is_settled == 0)


#: Prolongs the newest stretch, if nothing else is needed, as is nearly always so; that matches one
#: row.
_NEWEST = select(func.max(Uptime.id).label("id")).subquery()
EXTENSION = (
    update(Uptime)
    .where(
        # MySQL reads the table that it updates only through a derived one.
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
    """Return when a scheduler last said that it can send, 0 when none ever did."""
    found = session.execute(select(Uptime.until_at).order_by(Uptime.id.desc()).limit(1))
    return found.scalar_one_or_none() or 0


def extend(session: Session, *, now_ms: int, gap_ms: int) -> int:
    """Say that a scheduler can send now; return for how many milliseconds nobody could.

    A silence of up to `gap_ms` is none. Two schedulers that end one downtime at the same time may
    each begin a stretch, a moment apart: the downtime is then known twice, which does no harm.
    """
    instants = extension_values(now_ms=now_ms, gap_ms=gap_ms)
    prolonged: Any = session.connection().execute(EXTENSION, instants)
    if prolonged.rowcount:
        return 0
    last = session.execute(
        select(Uptime).order_by(Uptime.id.desc()).limit(1).with_for_update()
    ).scalar_one_or_none()
    if last is not None and abs(now_ms - last.until_at) <= gap_ms:
        last.until_at = max(last.until_at, now_ms)
        return 0
    # A clock that was set back begins a new stretch too, and ends no downtime.
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
    """Return the downtimes of which planned runs may be left that nobody could send in time."""
    return _downtimes(session, only_unsettled=True)


def downtimes(session: Session) -> list[Downtime]:
    """Return every downtime, in order."""
    return _downtimes(session, only_unsettled=False)


def settle(session: Session, downtimes: Iterable[Downtime]) -> None:
    """Note that no planned run is left of these downtimes."""
    session.execute(
        update(Uptime).where(Uptime.id.in_([one.id for one in downtimes])).values(is_settled=1),
        execution_options={"synchronize_session": False},
    )


def _downtimes(session: Session, *, only_unsettled: bool) -> list[Downtime]:
    bounds = {"from_ms": Uptime.down_since, "to_ms": Uptime.since_at}
    statement = query(Downtime, Uptime, **bounds, app_id=literal(0))
    statement = statement.where(IS_UNSETTLED if only_unsettled else IS_DOWNTIME)
    return fetch(session, Downtime, statement.order_by(Uptime.id))

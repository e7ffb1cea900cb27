"""Reads which roles of a scheduler have work, with one statement instead of one for each role.

Each part reads along an index and stops at the first row.
"""

from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ScalarSelect,
    Select,
    bindparam,
    exists,
    func,
    select,
)

from warren.sql.alarms.alarms import MessageKind, is_ready, is_undecided
from warren.sql.engine import Database
from warren.sql.jobs.due_jobs import earliest_tick
from warren.sql.models import Run, Sequence
from warren.sql.registry.pauses import IS_UNSETTLED as HAS_PAUSES
from warren.sql.registry.presence import IS_REQUESTED
from warren.sql.registry.uptimes import IS_UNSETTLED, LAST_RECORD
from warren.sql.run_status import IN_FLIGHT, RunStatus
from warren.sql.runs.backfills import HAS_WORK
from warren.sql.runs.due_runs import next_due_of_apps
from warren.sql.runs.flow_nodes import IS_UNFINISHED
from warren.sql.runs.queries import is_kill_requested


class Pending(NamedTuple):
    """The work that is pending; instants are epoch milliseconds, None = no work.

    `uptime_until` is when a scheduler last recorded that it can send; 0 = never. `next_id` is where
    the counter of run ids is.
    """

    has_pauses: bool
    next_tick: int | None
    next_due: int | None
    uptime_until: int
    has_downtimes: bool
    has_kills: bool
    has_drains: bool
    has_backfills: bool
    has_open_flows: bool
    has_routed: bool
    has_in_flight: bool
    has_new_alarms: bool
    has_mails: bool
    has_webhooks: bool
    has_run_ends: bool
    next_id: int


def look(database: Database, *, since_ms: int, now_ms: int) -> Pending:
    """Return the pending work, without runs due before `since_ms`."""
    statement = STATEMENTS[database.dialect.jumps_to_groups]
    return Pending(*database.select_one(statement, {"since_ms": since_ms, "now_ms": now_ms}))


def _statement(*, jumps: bool) -> Select[*tuple[Any, ...]]:
    since_ms: Any = bindparam("since_ms", type_=BigInteger)
    now_ms: Any = bindparam("now_ms", type_=BigInteger)
    columns: dict[str, ColumnElement[Any]] = {
        "has_pauses": exists().where(HAS_PAUSES),
        "next_tick": earliest_tick().scalar_subquery(),
        "next_due": _earliest_due(since_ms, jumps=jumps),
        "uptime_until": func.coalesce(LAST_RECORD.scalar_subquery(), 0),
        "has_downtimes": exists().where(IS_UNSETTLED),
        "has_kills": exists().where(*is_kill_requested(now_ms)),
        "has_drains": exists().where(*IS_REQUESTED),
        "has_backfills": exists().where(HAS_WORK),
        "has_open_flows": exists().where(IS_UNFINISHED),
        "has_routed": exists().where(Run.status == RunStatus.ROUTED),
        "has_in_flight": exists().where(Run.status.in_(IN_FLIGHT)),
        "has_new_alarms": exists().where(is_undecided(now_ms)),
        "has_mails": exists().where(*is_ready(now_ms, MessageKind.MAIL)),
        "has_webhooks": exists().where(*is_ready(now_ms, MessageKind.WEBHOOK)),
        "has_run_ends": exists().where(*is_ready(now_ms, MessageKind.RUN_END)),
        "next_id": select(Sequence.next_id).where(Sequence.name == "run").scalar_subquery(),
    }
    return select(*(columns[field].label(field) for field in Pending._fields))


def _earliest_due(since_ms: int, *, jumps: bool) -> ScalarSelect[int]:
    """Return the minimum of `next_due`, which uses the index in the same way."""
    due = next_due_of_apps(since_ms, jumps=jumps).subquery()
    return select(func.min(due.c.due_at)).scalar_subquery()


#: Selects a `Pending`, by `Dialect.jumps_to_groups`. Built once, because building and compiling
#: takes five times its execution.
STATEMENTS = {jumps: _statement(jumps=jumps) for jumps in (True, False)}

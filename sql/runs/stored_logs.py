"""Which runs' logs are in the log store, and which are to be deleted there.

A row is written before an executor is told where to store a log. So every log that may be in the
store has a row until it is deleted there.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from warren.sql.batch import (
    ALREADY_LOCKED,
    chunks,
    fetch_by_ids,
    insert_or_ignore,
    modify,
    update_each,
)
from warren.sql.models import StoredLog
from warren.sql.rows import fetch, fetch_one, query


class LogState(StrEnum):
    """What is known of a log."""

    #: Its executor was told where to store it.
    OFFERED = "OFFERED"
    STORED = "STORED"
    #: Its executor gave it up; it has it for as long as it keeps logs.
    DROPPED = "DROPPED"


class LogRow(NamedTuple):
    """A run's log in the store."""

    run_id: int
    identity: int
    key: str
    state: str
    size: int
    packed: int
    parts: int
    told_at: int
    delete_at: int | None
    fault: str | None


def find(session: Session, run_id: int, identity: int) -> LogRow | None:
    """Return what is known of a run's log in the store; None if nothing is, or it is deleted."""
    wanted = query(LogRow, StoredLog).where(
        StoredLog.run_id == run_id, StoredLog.identity == identity, StoredLog.delete_at.is_(None)
    )
    return fetch_one(session, LogRow, wanted)


def by_runs(session: Session, run_ids: Iterable[int]) -> dict[int, LogRow]:
    rows = fetch_by_ids(session, LogRow, query(LogRow, StoredLog), StoredLog.run_id, run_ids)
    return {row.run_id: row for row in rows}


def offer(session: Session, keys: Mapping[int, tuple[int, str]], now_ms: int) -> None:
    """Note that logs may be stored from now on: the identity and the key of each, by its run."""
    new = {
        "state": LogState.OFFERED,
        "size": 0,
        "packed": 0,
        "parts": 0,
        "delete_at": None,
        "fault": None,
    }
    rows = [
        {"run_id": run_id, "identity": identity, "key": key, "told_at": now_ms} | new
        for run_id, (identity, key) in sorted(keys.items())
    ]
    insert_or_ignore(session, StoredLog, rows, key="run_id")
    again = [{name: row[name] for name in ("run_id", "identity", "key", "told_at")} for row in rows]
    update_each(session, StoredLog, again, guard=ALREADY_LOCKED, key="run_id")


def note(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Record what became of offered logs; each row has its `run_id`, and all have the same keys."""
    if rows:
        ordered = sorted(rows, key=lambda row: int(row["run_id"]))
        update_each(session, StoredLog, ordered, guard=ALREADY_LOCKED, key="run_id")


def give_up(session: Session, run_ids: Iterable[int], now_ms: int) -> int:
    """Mark the logs of deleted runs for deletion; return how many there are."""
    return sum(
        modify(
            session,
            update(StoredLog)
            .where(StoredLog.run_id.in_(chunk), StoredLog.delete_at.is_(None))
            .values(delete_at=now_ms),
        )
        for chunk in chunks(run_ids)
    )


def to_delete(session: Session, now_ms: int, *, told_before_ms: int, limit: int) -> list[LogRow]:
    """Return logs to delete now; no executor was told recently where to store them."""
    wanted = (
        query(LogRow, StoredLog)
        .where(StoredLog.delete_at <= now_ms, StoredLog.told_at < told_before_ms)
        .order_by(StoredLog.delete_at)
        .limit(limit)
    )
    return fetch(session, LogRow, wanted)


def forget(session: Session, run_ids: Iterable[int]) -> None:
    """Forget logs that are not in the store any more."""
    for chunk in chunks(run_ids):
        gone = delete(StoredLog).where(
            StoredLog.run_id.in_(chunk), StoredLog.delete_at.is_not(None)
        )
        modify(session, gone)


def postpone(session: Session, run_ids: Iterable[int], until_ms: int) -> None:
    """Let the next attempt to delete these logs wait until `until_ms`."""
    for chunk in chunks(run_ids):
        later = update(StoredLog).where(
            StoredLog.run_id.in_(chunk), StoredLog.delete_at.is_not(None)
        )
        modify(session, later.values(delete_at=until_ms))


def with_parts(session: Session, run_ids: Iterable[int]) -> list[LogRow]:
    """Return which of these logs are stored as a whole but still have parts."""
    rows = by_runs(session, run_ids).values()
    return [row for row in rows if row.parts and row.state == LogState.STORED]

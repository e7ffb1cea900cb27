"""Tells executors where to store the logs of their runs, and notes what became of them.

    StoreLogs ──> row OFFERED ──> LogPlaces      LogsStored ──> row STORED or DROPPED

An executor gets places only for runs of its own app and address, which are told from others by
their identities. In S3, a place is a URL signed for one file of one length.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy.orm import Session

from warren.broker.log_blocks import FILE_BYTES
from warren.broker.messages import (
    LOG_FAULT_LIMIT,
    Boot,
    LogEnd,
    LogPlace,
    LogPlaces,
    LogsStored,
    LogToStore,
    StoreLogs,
)
from warren.scheduler.completion.end import identity_of
from warren.scheduler.log_store.store import LogStore, log_key, part_key
from warren.scheduler.names import bare_line
from warren.scheduler.node_context import AddressedCommand, CommandSender, NodeContext
from warren.scheduler.rounds import NAP_SECONDS
from warren.sql.run_status import RunStatus
from warren.sql.runs import stored_logs, transitions
from warren.sql.runs.run_rows import RoutedRun
from warren.sql.runs.stored_logs import LogRow, LogState

#: The most questions of one app that wait; its executors ask again.
OF_APP = 50
#: How long an answer is valid.
ANSWER_SECONDS = 60.0
NO_RUN = "its run was deleted, or is not this executor's"
TOO_LARGE = f"it has more than {FILE_BYTES:,} bytes"

log = structlog.get_logger()


class LogPlacesRole:
    """Answers executors' questions where to store logs; apps take turns."""

    def __init__(self, context: NodeContext, store: LogStore, commands: CommandSender) -> None:
        self._context = context
        self._store = store
        self._commands = commands
        self._asked: dict[str, deque[StoreLogs]] = {}
        self._lock = threading.Lock()

    def ask(self, question: StoreLogs) -> None:
        """Answer a question soon; never waits. Too many of one app are dropped."""
        with self._lock:
            self._asked.setdefault(question.app, deque(maxlen=OF_APP)).append(question)
        self._context.wakes.wake("log places")

    def run_round(self, _now_ms: int) -> float:
        """Answer one question of each app; return the seconds until the next round."""
        with self._lock:
            questions = [asked.popleft() for asked in self._asked.values()]
            self._asked = {app: asked for app, asked in self._asked.items() if asked}
            has_more = bool(self._asked)
        for question in questions:
            self._answer(question)
        return 0.0 if has_more else NAP_SECONDS

    def _answer(self, question: StoreLogs) -> None:
        app_id = self._context.app_names.id_of(question.app)
        now_ms = self._context.now_ms()

        def unit(session: Session) -> dict[int, LogRow | None]:
            return _offer(session, question, app_id, now_ms)

        rows = self._context.database.write(unit)
        answer = LogPlaces(places=tuple(self._place(each, rows) for each in question.logs))
        boot = Boot(question.app, question.address, question.boot_id)
        command = AddressedCommand(boot=boot, message=answer, valid_seconds=ANSWER_SECONDS)
        self._commands.send([command])

    def _place(self, asked: LogToStore, rows: Mapping[int, LogRow | None]) -> LogPlace:
        row = rows.get(asked.run_id)
        why = TOO_LARGE if asked.packed > FILE_BYTES else ""
        if row is None or row.identity != asked.identity or row.delete_at is not None:
            why = NO_RUN
        key = part_key(row.key, asked.part) if row and not why else ""
        return LogPlace(
            run_id=asked.run_id,
            identity=asked.identity,
            part=asked.part,
            key=key,
            url=self._store.address(key, asked.packed) if key else "",
            why=why,
        )


def _offer(
    session: Session, question: StoreLogs, app_id: int, now_ms: int
) -> dict[int, LogRow | None]:
    """Note which of these logs may be stored; return their rows."""
    theirs = _runs_of(session, question.address, app_id, question.logs)
    keys = {
        run_id: (
            identity_of(run),
            log_key(question.app, run.scheduled_at, run_id, identity_of(run)),
        )
        for run_id, run in theirs.items()
    }
    stored_logs.offer(session, keys, now_ms)
    known = stored_logs.by_runs(session, keys)
    return {run_id: known.get(run_id) for run_id in keys}


def _runs_of(
    session: Session, address: str, app_id: int, logs: Iterable[LogToStore | LogEnd]
) -> dict[int, RoutedRun]:
    """Lock those runs that an executor has; return them by their ids.

    Locked, they are not deleted meanwhile: whoever deletes one later finds the row of its log.
    """
    identities = {each.run_id: each.identity for each in logs}
    return {
        run.id: run
        for run in transitions.lock_routed(session, identities)
        if run.app_id == app_id
        and run.address == address
        and run.status != RunStatus.PLANNED
        and identity_of(run) == identities[run.id]
    }


def note_stored(session: Session, message: LogsStored, app_id: int, now_ms: int) -> list[LogRow]:
    """Record what became of logs; runs of other executors are ignored.

    Return the logs that still have parts which are no longer needed.
    """
    theirs = _runs_of(session, message.address, app_id, message.logs)
    ends = [end for end in message.logs if end.run_id in theirs]
    dropped = {end.run_id: _key(message.app, theirs[end.run_id]) for end in ends if end.dropped}
    stored_logs.offer(session, dropped, now_ms)
    stored_logs.note(session, [_stored(end) for end in ends if not end.dropped and not end.part])
    stored_logs.note(session, [_dropped(end) for end in ends if end.dropped])
    stored_logs.note(session, _parts(ends))
    whole = [end.run_id for end in ends if not end.dropped and not end.part]
    return stored_logs.with_parts(session, whole) if whole else []


def _key(app: str, run: RoutedRun) -> tuple[int, str]:
    identity = identity_of(run)
    return identity, log_key(app, run.scheduled_at, run.id, identity)


def _stored(end: LogEnd) -> dict[str, Any]:
    return {
        "run_id": end.run_id,
        "state": LogState.STORED,
        "size": end.size,
        "packed": end.packed,
        "fault": None,
    }


def _dropped(end: LogEnd) -> dict[str, Any]:
    return {
        "run_id": end.run_id,
        "state": LogState.DROPPED,
        "fault": bare_line(end.dropped, LOG_FAULT_LIMIT),
    }


def _parts(ends: Sequence[LogEnd]) -> list[dict[str, Any]]:
    """Return how many parts of each log are stored."""
    last: dict[int, int] = {}
    for end in ends:
        if end.part and not end.dropped:
            last[end.run_id] = max(end.part, last.get(end.run_id, 0))
    return [{"run_id": run_id, "parts": part} for run_id, part in last.items()]

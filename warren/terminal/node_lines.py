"""Executors and schedulers: read from the registry, and as rows of tables."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from warren.broker.messages.values import HandlerFacts
from warren.broker.reasons.codes import Reason
from warren.scheduler.views import blockers
from warren.scheduler.views.blockers import Blockers
from warren.scheduler.views.process_view import (
    NOT_IN_JSON,
    ExecutorView,
    NodeView,
    node_view,
)
from warren.scheduler.views.to_json import to_json
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.listings import app_listing
from warren.sql.models import Registration
from warren.sql.registry import apps, presence
from warren.sql.registry.presence import ProcessState
from warren.terminal.output import relative, visible

#: The words for states; JSON has the states themselves.
_STATE_WORDS = {
    ProcessState.ALIVE: "online",
    ProcessState.DRAINING: "draining",
    ProcessState.SILENT: "offline",
    ProcessState.ABSENT: "never connected",
}
EXECUTOR_HEADERS = ("app", "address", "state", "up", "beat", "running", "waiting", "cpu", "memory")
SCHEDULER_HEADERS = ("node", "state", "up", "beat")


def registrations(
    database: Database, kind: str, app: str | None = None
) -> tuple[Sequence[Registration], int]:
    """Return the registrations of a kind, and the database's clock in epoch milliseconds.

    Of kind ADMIN these are the schedulers, unless another `app` is given.
    """
    if kind == presence.ADMIN and app is None:
        app = presence.SCHEDULER
    return database.read(
        lambda session: (presence.listing(session, kind, app), database_now_ms(session))
    )


def registered_schedulers(database: Database) -> tuple[list[NodeView], int]:
    """Return all schedulers, and the clock."""
    rows, now_ms = registrations(database, presence.ADMIN)
    return [node_view(row, now_ms) for row in rows], now_ms


def is_scheduler_alive(database: Database) -> bool:
    return any(node.state is not ProcessState.SILENT for node in registered_schedulers(database)[0])


def executor_line(executor: ExecutorView, now_ms: int) -> tuple[str, ...]:
    """Return an executor as a row of a table with `EXECUTOR_HEADERS`."""
    if not executor.beat_at:
        return executor.app, executor.address, _STATE_WORDS[executor.state], *[""] * 6
    return (
        executor.app,
        executor.address,
        _STATE_WORDS[executor.state] + _troubles(executor),
        relative(executor.boot_at, now_ms).removesuffix(" ago"),
        relative(executor.beat_at, now_ms),
        f"{executor.running}/{executor.slots}",
        str(executor.waiting),
        f"{executor.cpu_percent:.0f} %",
        f"{executor.memory_percent:.0f} %",
    )


def executor_with_blockers(
    session: Session, executor_id: int, now_ms: int
) -> tuple[ExecutorView, list[Reason]]:
    """Return an executor that has registered, and why it gets no new runs."""
    row = session.get_one(Registration, executor_id)
    app_id = apps.find(session, row.app).id
    blockers_ = blockers.read(session, [app_id], now_ms=now_ms)
    [executor] = [executor for executor in blockers_.executors if executor.address == row.address]
    started = app_listing.started_jobs(session, row.app, limit=blockers.MAX_JOBS + 1)
    return executor, blockers_.of_executor(executor, started)


def executor_json(executor: ExecutorView, why: Sequence[Reason]) -> dict[str, Any]:
    """Return an executor, and why it gets no new runs, as a JSON object."""
    handlers = executor.catalogue.handlers if executor.catalogue else ()
    return to_json(executor, without=NOT_IN_JSON) | {
        "handler_facts": [_facts(reason) for reason in handlers],
        "blocked_by": blockers.blocker_json(why),
    }


def _facts(handler: HandlerFacts) -> dict[str, Any]:
    schema = msgspec.json.decode(handler.schema) if handler.schema else None
    return msgspec.structs.asdict(handler) | {"schema": schema}


def executor_facts(executor: ExecutorView, why: Sequence[Reason], now_ms: int) -> dict[str, str]:
    """Return everything about an executor, by name."""
    line = dict(zip(EXECUTOR_HEADERS, executor_line(executor, now_ms), strict=True))
    missing = executor.catalogue.missing if executor.catalogue else ()
    return line | {
        "boot": executor.boot_id,
        "code": executor.code_version,
        "handlers": ", ".join(sorted(executor.handlers)),
        "scripts": ", ".join(executor.languages),
        "lacking": ", ".join(missing),
        "no new runs": "; ".join(map(str, why)),
    }


def handler_lines(executor: ExecutorView) -> list[str]:
    """Return a line for each handler: its name, where it is declared, what its docstring says."""
    handlers = executor.catalogue.handlers if executor.catalogue else ()
    return [
        visible(_handler_line(handler)) for handler in handlers if handler.about or handler.module
    ]


def _handler_line(handler: HandlerFacts) -> str:
    place = f"{handler.module}:{handler.line}" if handler.line else handler.module
    about = f"  {handler.about}" if handler.about else ""
    return f"{handler.name}  ({place}){about}" if place else f"{handler.name}{about}"


def blocker_lines(blockers_: Blockers) -> Iterator[str]:
    """Yield lines that say why some or all online executors get no runs."""
    for reason in blockers_.of_cluster():
        yield f"no new runs start: {reason}"
    for executor in blockers_.executors:
        if executor.state is ProcessState.ALIVE and (why := blockers_.of_executor_itself(executor)):
            yield f"no new runs start on {executor.key}: {why[0]}"


def _troubles(executor: ExecutorView) -> str:
    unlisted = ", not listed" if executor.listed is False else ""
    if not executor.ailments or not executor.is_online:
        return unlisted
    return f"{unlisted}, problems: {', '.join(executor.ailments)}"


def scheduler_line(node: NodeView, now_ms: int) -> tuple[str, ...]:
    """Return a scheduler as a row of a table with `SCHEDULER_HEADERS`."""
    return (
        node.node,
        _STATE_WORDS[node.state],
        relative(node.boot_at, now_ms).removesuffix(" ago"),
        relative(node.beat_at, now_ms),
    )

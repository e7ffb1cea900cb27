"""Executors and schedulers as the registry knows them."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sql import presence
from sql.clock import database_now_ms
from sql.engine import Database
from sql.models import Registration
from warren.instants import iso
from warren.terminal import relative

#: Three heartbeats of an executor, and four of a scheduler.
EXECUTOR_ALIVE_MS = 15_000
SCHEDULER_ALIVE_MS = 2_000

EXECUTOR_HEADERS = ("app", "address", "state", "up", "beat", "running", "waiting", "cpu", "memory")
SCHEDULER_HEADERS = ("node", "state", "up", "beat")


def registrations(database: Database, group: str) -> tuple[Sequence[Registration], int]:
    """Return the registrations of a group, and the database's clock in epoch milliseconds."""
    return database.read(
        lambda session: (presence.listing(session, group), database_now_ms(session))
    )


def living_handlers(database: Database) -> dict[str, set[str]]:
    """Return, for each app, the names of the handlers that its living executors have."""
    rows, now_ms = registrations(database, presence.EXECUTOR)
    handlers: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if state(row, now_ms) != "silent":
            handlers[row.registry_key] |= set(load_of(row).get("handlers", ()))
    return handlers


def is_scheduler_alive(database: Database) -> bool:
    """Return whether any scheduler shows signs of life."""
    rows, now_ms = registrations(database, presence.ADMIN)
    return any(state(row, now_ms) != "silent" for row in rows)


def state(row: Registration, now_ms: int) -> str:
    """Return `alive`, `draining` or `silent`."""
    limit = EXECUTOR_ALIVE_MS if row.registry_group == presence.EXECUTOR else SCHEDULER_ALIVE_MS
    if now_ms - row.beat_at > limit:
        return "silent"
    return "draining" if row.draining else "alive"


def load_of(row: Registration) -> dict[str, Any]:
    """Return an executor's last load; empty when it has told none that can be read."""
    try:
        load = json.loads(row.load or "{}")
    except ValueError:
        return {}
    return load if isinstance(load, dict) else {}


def executor_json(row: Registration, now_ms: int) -> dict[str, Any]:
    """Return an executor as a JSON object."""
    load = load_of(row)
    return {
        "app": row.registry_key,
        "address": row.registry_value,
        "state": state(row, now_ms),
        "boot_id": row.boot_id,
        "boot_at": iso(row.boot_at),
        "beat_at": iso(row.beat_at),
        "draining": bool(row.draining),
        "slots": load.get("slots", 0),
        "running": load.get("running", 0),
        "waiting": load.get("waiting", 0),
        "cpu_percent": load.get("cpu_percent", 0),
        "memory_percent": load.get("memory_percent", 0),
        "handlers": load.get("handlers", []),
    }


def executor_line(row: Registration, now_ms: int) -> tuple[str, ...]:
    """Return an executor as a line of a table with `EXECUTOR_HEADERS`."""
    load = load_of(row)
    return (
        row.registry_key,
        row.registry_value,
        state(row, now_ms),
        relative(row.boot_at, now_ms).removesuffix(" ago"),
        relative(row.beat_at, now_ms),
        f"{load.get('running', 0)}/{load.get('slots', 0)}",
        str(load.get("waiting", 0)),
        f"{load.get('cpu_percent', 0):.0f} %",
        f"{load.get('memory_percent', 0):.0f} %",
    )


def scheduler_json(row: Registration, now_ms: int) -> dict[str, Any]:
    """Return a scheduler as a JSON object."""
    return {
        "node": row.registry_value,
        "state": state(row, now_ms),
        "boot_id": row.boot_id,
        "boot_at": iso(row.boot_at),
        "beat_at": iso(row.beat_at),
    }


def scheduler_line(row: Registration, now_ms: int) -> tuple[str, ...]:
    """Return a scheduler as a line of a table with `SCHEDULER_HEADERS`."""
    return (
        row.registry_value,
        state(row, now_ms),
        relative(row.boot_at, now_ms).removesuffix(" ago"),
        relative(row.beat_at, now_ms),
    )

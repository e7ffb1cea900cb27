"""Executors and schedulers as the registry knows them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy.orm import Session

from sql import apps, presence
from sql.clock import database_now_ms
from sql.engine import Database
from sql.liveness import state
from sql.models import Registration
from warren.instants import iso
from warren.terminal import relative

#: By app, the addresses that it may be routed to, where people gave it a list.
Lists = Mapping[str, tuple[str, ...]]
NO_LISTS: Lists = MappingProxyType({})

EXECUTOR_HEADERS = ("app", "address", "state", "up", "beat", "running", "waiting", "cpu", "memory")
SCHEDULER_HEADERS = ("node", "state", "up", "beat")


def registrations(
    database: Database, group: str, key: str | None = None
) -> tuple[Sequence[Registration], int]:
    """Return who is registered in a group, and the database's clock in epoch milliseconds.

    Of the group ADMIN it is the schedulers, unless `key` tells of others.
    """
    if group == presence.ADMIN and key is None:
        key = presence.SCHEDULER
    return database.read(
        lambda session: (presence.listing(session, group, key), database_now_ms(session))
    )


def registered_executors(database: Database) -> tuple[list[Registration], Lists, int]:
    """Return all executors, those that an app only lists included, the lists, and the clock."""

    def read(session: Session) -> tuple[list[Registration], Lists, int]:
        ids = apps.ids_by_name(session)
        lists = apps.listed(session)
        by_name = {name: lists[app_id] for name, app_id in ids.items() if app_id in lists}
        rows = list(presence.listing(session, presence.EXECUTOR))
        return rows + _absent(rows, by_name), by_name, database_now_ms(session)

    return database.read(read)


def _absent(rows: Sequence[Registration], lists: Lists) -> list[Registration]:
    known = {(row.registry_key, row.registry_value) for row in rows}
    return [
        Registration(
            registry_group=presence.EXECUTOR,
            registry_key=app,
            registry_value=address,
            boot_id="",
            boot_at=0,
            beat_at=0,
            draining=0,
        )
        for app, addresses in lists.items()
        for address in addresses
        if (app, address) not in known
    ]


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


def load_of(row: Registration) -> dict[str, Any]:
    """Return an executor's last load; empty when it has told none that can be read."""
    try:
        load = json.loads(row.load or "{}")
    except ValueError:
        return {}
    return load if isinstance(load, dict) else {}


def is_listed(row: Registration, lists: Lists) -> bool | None:
    """Return whether an executor is in its app's own list; None when the app has none."""
    listed = lists.get(row.registry_key)
    return None if listed is None else row.registry_value in listed


def executor_json(row: Registration, now_ms: int, lists: Lists = NO_LISTS) -> dict[str, Any]:
    """Return an executor as a JSON object; `lists` are those that apps have of their own."""
    load = load_of(row)
    return {
        "app": row.registry_key,
        "address": row.registry_value,
        "state": state(row, now_ms),
        "listed": is_listed(row, lists),
        "boot_id": row.boot_id,
        "boot_at": iso(row.boot_at or None),
        "beat_at": iso(row.beat_at or None),
        "draining": bool(row.draining),
        "slots": load.get("slots", 0),
        "running": load.get("running", 0),
        "waiting": load.get("waiting", 0),
        "cpu_percent": load.get("cpu_percent", 0),
        "memory_percent": load.get("memory_percent", 0),
        "handlers": load.get("handlers", []),
    }


def executor_line(row: Registration, now_ms: int, lists: Lists = NO_LISTS) -> tuple[str, ...]:
    """Return an executor as a line of a table with `EXECUTOR_HEADERS`."""
    load = load_of(row)
    unlisted = ", not listed" if is_listed(row, lists) is False else ""
    if not row.beat_at:
        return row.registry_key, row.registry_value, state(row, now_ms), *[""] * 6
    return (
        row.registry_key,
        row.registry_value,
        state(row, now_ms) + unlisted,
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

"""Derives the state of a registered process from its last heartbeat."""

from collections.abc import Mapping
from typing import Any

from sql.models import Registration
from sql.registry import presence

#: Three heartbeats of an executor, four of a scheduler, three of a console.
EXECUTOR_ALIVE_MS = 15_000
SCHEDULER_ALIVE_MS = 2_000
CONSOLE_ALIVE_MS = 15_000
#: States of processes that are running.
ONLINE = ("alive", "draining")


def state(row: Registration, now_ms: int) -> str:
    """Return `alive`, `draining` or `silent`; `absent` for one that has never registered."""
    if not row.beat_at:
        return "absent"
    if now_ms - row.beat_at > _limit_ms(row):
        return "silent"
    return "draining" if row.draining or row.drain_asked_at else "alive"


def ailments(load: Mapping[str, Any]) -> list[str]:
    """Return the troubles in an executor's last reported load, in lower case."""
    names = load.get("ailments", [])
    return [str(name).lower() for name in names] if isinstance(names, list) else []


def _limit_ms(row: Registration) -> int:
    if row.kind == presence.EXECUTOR:
        return EXECUTOR_ALIVE_MS
    return CONSOLE_ALIVE_MS if row.app == presence.CONSOLE else SCHEDULER_ALIVE_MS

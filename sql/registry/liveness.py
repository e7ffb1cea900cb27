"""Derives the state of a registered process from its last heartbeat."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from warren.sql.models import Registration
from warren.sql.registry import presence

#: Three heartbeats of an executor, four of a scheduler, three of a console.
EXECUTOR_ALIVE_MS = 15_000
SCHEDULER_ALIVE_MS = 2_000
CONSOLE_ALIVE_MS = 15_000


class ProcessState(StrEnum):
    """The state of a registered process."""

    ALIVE = "alive"
    #: Alive, but it takes no new runs and ends when those that it has are over.
    DRAINING = "draining"
    SILENT = "silent"
    #: It has never registered.
    ABSENT = "absent"

    @property
    def is_online(self) -> bool:
        """Whether the process is running."""
        return self in {ProcessState.ALIVE, ProcessState.DRAINING}


def state(row: Registration, now_ms: int) -> ProcessState:
    """Return the state of a process."""
    if not row.beat_at:
        return ProcessState.ABSENT
    if now_ms - row.beat_at > _limit_ms(row):
        return ProcessState.SILENT
    is_draining = row.draining or row.drain_asked_at
    return ProcessState.DRAINING if is_draining else ProcessState.ALIVE


def ailments(load: Mapping[str, Any]) -> list[str]:
    """Return the troubles in an executor's last reported load, in lower case."""
    names = load.get("ailments", [])
    return [str(name).lower() for name in names] if isinstance(names, list) else []


def _limit_ms(row: Registration) -> int:
    if row.kind == presence.EXECUTOR:
        return EXECUTOR_ALIVE_MS
    return CONSOLE_ALIVE_MS if row.app == presence.CONSOLE else SCHEDULER_ALIVE_MS

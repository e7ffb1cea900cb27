"""The registry's record of an executor's heartbeat, and a cache of apps' settings.

The settings, which people change and routing uses, are read again once a second.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import msgspec

from warren.broker.messages import Heartbeat
from warren.sql.engine import Database
from warren.sql.models import Registration
from warren.sql.registry import apps, presence
from warren.sql.registry.apps import RoutingSettings

#: For how many seconds settings are used before they are read again.
READ_SECONDS = 1.0
_NONE = RoutingSettings((), "")


class AppSettings:
    """A cache, for one thread; `clock` is monotonic seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._settings: dict[int, RoutingSettings] = {}
        self._read_at = float("-inf")

    def __call__(self, app_id: int) -> RoutingSettings:
        now = self._clock()
        if now - self._read_at >= READ_SECONDS:
            self._settings = self._database.read(apps.routing_settings)
            self._read_at = now
        return self._settings.get(app_id, _NONE)


def registration(beat: Heartbeat, now_ms: int, account: str | None = None) -> presence.Beat:
    """Return the registry's record of a heartbeat, which this account of the broker sent."""
    others: dict[str, Any] = {
        "ailments": beat.each_health_issue,
        "returns_seconds": beat.returns_seconds,
    }
    if beat.unstored_logs or beat.log_fault:
        others |= {"unstored_logs": beat.unstored_logs, "log_fault": beat.log_fault}
    load = msgspec.to_builtins(beat.load) | others
    return presence.Beat(
        kind=presence.EXECUTOR,
        app=beat.app,
        address=beat.address,
        boot_id=beat.boot_id,
        beat_at=now_ms,
        load=msgspec.json.encode(load).decode(),
        draining=beat.draining,
        account=account,
        catalogue=beat.catalogue,
    )


def stored_load(row: Registration) -> dict[str, Any]:
    """Return the load in a process's last heartbeat; empty if it cannot be read."""
    try:
        load = json.loads(row.load or "{}")
    except ValueError:
        return {}
    return load if isinstance(load, dict) else {}


def stored_returns_seconds(row: Registration) -> float:
    """Return how long an executor may be silent and still come back with its runs."""
    seconds = stored_load(row).get("returns_seconds", 0)
    return float(seconds) if isinstance(seconds, int | float) else 0.0

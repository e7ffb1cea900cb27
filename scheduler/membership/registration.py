"""An executor's heartbeat as the registry keeps it."""

import json
from typing import Any

import msgspec

from broker.messages import Heartbeat
from sql.models import Registration
from sql.registry import presence


def registration(beat: Heartbeat, now_ms: int) -> presence.Beat:
    """Return a heartbeat as the registry keeps it."""
    told = {
        "handlers": beat.handlers,
        "ailments": beat.ailments,
        "returns_seconds": beat.returns_seconds,
    }
    load = msgspec.to_builtins(beat.load) | told
    return presence.Beat(
        group=presence.EXECUTOR,
        key=beat.app,
        address=beat.address,
        boot_id=beat.boot_id,
        beat_at=now_ms,
        load=msgspec.json.encode(load).decode(),
        draining=beat.draining,
    )


def stored_load(row: Registration) -> dict[str, Any]:
    """Return the load in a process's last sign of life; empty when it cannot be read."""
    try:
        found = json.loads(row.load or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def stored_returns_seconds(row: Registration) -> float:
    """Return how long an executor may be silent and still come back with its runs."""
    found = stored_load(row).get("returns_seconds", 0)
    return float(found) if isinstance(found, int | float) else 0.0

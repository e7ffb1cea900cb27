"""Converts an executor's heartbeat to the form of the registry, and back."""

import json
from typing import Any

import msgspec

from warren.broker.messages.to_scheduler import Heartbeat
from warren.sql.models import Registration
from warren.sql.registry import presence


def registration(beat: Heartbeat, now_ms: int, account: str | None = None) -> presence.Beat:
    """Return the registry's record of a heartbeat, which this account of the broker sent."""
    others = {
        "ailments": beat.each_ailment,
        "returns_seconds": beat.returns_seconds,
    }
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

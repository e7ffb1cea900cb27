"""Pauses in JSON."""

from warren.sql.instants import iso
from warren.sql.registry.pauses import ShownPause


def pause_facts(pause: ShownPause | None) -> dict[str, str | None]:
    """Return start, end, author and reason of a pause as JSON; all None without a pause."""
    return {
        "paused_at": iso(pause.since_at) if pause else None,
        "paused_until": iso(pause.until_at) if pause else None,
        "paused_by": (pause.paused_by or None) if pause else None,
        "paused_reason": (pause.reason or None) if pause else None,
    }

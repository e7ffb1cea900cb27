"""Instants as users write and read them."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from sql.instants import moment

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO = re.compile(r"(\d{1,9})([smhdw])")


def read_instant(text: str, *, now_ms: int, zone: ZoneInfo) -> int:
    """Return epoch milliseconds of an ISO 8601 instant, or of `10m`: so long before now.

    An instant without an offset is in `zone`. Units are s, m, h, d and w.

    Raises:
        ValueError: it is neither.

    """
    if ago := _AGO.fullmatch(text.strip()):
        return max(now_ms - int(ago[1]) * _UNITS_MS[ago[2]], 0)
    try:
        instant = datetime.fromisoformat(text.strip())
        aware = instant if instant.tzinfo else instant.replace(tzinfo=zone)
        return max(int(aware.timestamp() * 1000), 0)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"expected a time like 2026-12-01T08:00:00+08:00 or 10m, got: {text[:100]!r}"
        ) from error


def local(instant_ms: int | None, zone: ZoneInfo) -> str:
    """Return an instant as people in a zone read it; empty when there is none."""
    if not instant_ms:
        return ""
    shown = moment(instant_ms, zone)
    return shown.strftime("%Y-%m-%d %H:%M:%S ") + (shown.tzname() or "")

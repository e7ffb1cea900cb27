"""Times as users write and read them."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import click

from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS, moment

_UNITS_MS = {"s": 1_000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")


def read_instant(text: str, *, now_ms: int, zone: ZoneInfo) -> int:
    """Return an ISO 8601 time as epoch milliseconds; `10m` means 10 minutes before now.

    A time without an offset is in `zone`. Units are s, m, h, d and w.

    Raises:
        UsageError: it is neither.

    """
    if ago := _SPAN.fullmatch(text.strip()):
        return max(now_ms - _span_ms(ago), 0)
    try:
        return _iso_instant(text, zone)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"expected a time like 2026-12-01T08:00:00+08:00 or 10m, got: {text[:100]!r}"
        ) from error


def read_moment(text: str, option: str, *, zone: ZoneInfo) -> int:
    """Return an option's ISO 8601 time as epoch milliseconds; without an offset, it is in `zone`.

    Raises:
        UsageError: it is not a time.

    """
    try:
        return _iso_instant(text, zone)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"expected {option} to be a time like 2026-12-01T08:00, got: {text[:100]!r}"
        ) from error


def read_span(text: str) -> int:
    """Return a duration like `2h` in milliseconds; units are s, m, h, d and w.

    Raises:
        UsageError: it is not a duration, or 0.

    """
    match = _SPAN.fullmatch(text.strip())
    if not match or not int(match[1]):
        raise click.UsageError(
            f"expected --for to be a duration like 30m or 2h, got: {text[:100]!r}"
        )
    return _span_ms(match)


def _span_ms(match: re.Match[str]) -> int:
    return int(match[1]) * _UNITS_MS[match[2]]


def _iso_instant(text: str, zone: ZoneInfo) -> int:
    instant = datetime.fromisoformat(text.strip())
    aware = instant if instant.tzinfo else instant.replace(tzinfo=zone)
    return max(int(aware.timestamp() * 1000), 0)


def local(instant_ms: int | None, zone: ZoneInfo) -> str:
    """Return a time in a zone, with the zone's abbreviation; empty if there is none."""
    if not instant_ms:
        return ""
    shown = moment(instant_ms, zone)
    return shown.strftime("%Y-%m-%d %H:%M:%S ") + (shown.tzname() or "")

"""Times as users write and read them."""

from datetime import datetime
from zoneinfo import ZoneInfo

import click

from warren.broker.durations import DURATION, seconds_of
from warren.sql.instants import moment


def read_instant(text: str, *, now_ms: int, zone: ZoneInfo) -> int:
    """Return an ISO 8601 time as epoch milliseconds; `10m` means 10 minutes before now.

    A time without an offset is in `zone`. Units are s, m, h, d and w.

    Raises:
        UsageError: it is neither.

    """
    ago = seconds_of(text, needs_unit=True)
    if ago is not None:
        return max(now_ms - int(ago * 1_000), 0)
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
    seconds = seconds_of(text, needs_unit=True)
    if not seconds:
        raise click.UsageError(f"expected --for to be {DURATION}, got: {text[:100]!r}")
    return int(seconds * 1_000)


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

"""Instants as XXL-JOB's DATETIME columns hold them, and as people read them."""

from datetime import UTC, datetime, tzinfo

#: The last day of year 9999, less what zones may add: no calendar goes on.
LATEST_MS = 253_402_214_400_000


def moment(instant_ms: int, zone: tzinfo = UTC) -> datetime:
    """Return epoch milliseconds as a datetime; what is beyond all calendars is its nearest one."""
    return datetime.fromtimestamp(min(max(instant_ms, 0), LATEST_MS) / 1000, zone)


def iso(instant_ms: int | None) -> str | None:
    """Return an instant as ISO 8601 in UTC with its offset; None when there is none."""
    if not instant_ms:
        return None
    return moment(instant_ms).isoformat(timespec="milliseconds")


def at(instant_ms: int) -> datetime:
    """Return epoch milliseconds as a naive UTC datetime, cut to the second as DATETIME is."""
    return moment(instant_ms // 1000 * 1000).replace(tzinfo=None)


def epoch_ms(moment: datetime) -> int:
    """Return what `at` was given, in whole seconds."""
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1000


def at_as_text(instant_ms: int) -> str:
    """Return the same for statements past the ORM, in the form in which it writes to SQLite."""
    return at(instant_ms).isoformat(" ", "microseconds")

"""Instants as XXL-JOB's DATETIME columns hold them."""

from datetime import UTC, datetime


def at(instant_ms: int) -> datetime:
    """Return epoch milliseconds as a naive UTC datetime, cut to the second as DATETIME is."""
    return datetime.fromtimestamp(instant_ms // 1000, UTC).replace(tzinfo=None)


def epoch_ms(moment: datetime) -> int:
    """Return what `at` was given, in whole seconds."""
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1000


def at_as_text(instant_ms: int) -> str:
    """Return the same for statements past the ORM, in the form in which it writes to SQLite."""
    return at(instant_ms).isoformat(" ", "microseconds")

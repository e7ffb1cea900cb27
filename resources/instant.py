"""Points in time in answers: ISO 8601 in UTC, with milliseconds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

#: The last millisecond of the year 9999.
_LATEST_MS = 253_402_300_799_999


class Instant(datetime):
    """A point in time that answers give with its milliseconds, unlike msgspec."""

    __slots__ = ()

    @classmethod
    def of(cls, instant_ms: int) -> "Instant":
        """Return epoch milliseconds as a point in time; out of range, the nearest one."""
        since_epoch = timedelta(milliseconds=min(max(instant_ms, 0), _LATEST_MS))
        return cls(1970, 1, 1, tzinfo=UTC) + since_epoch

    @classmethod
    def if_any(cls, instant_ms: int | None) -> "Instant | None":
        """Return epoch milliseconds as a point in time; None for None and 0."""
        return cls.of(instant_ms) if instant_ms else None


#: The latest day that is in the year 9999 in every zone: until then is for ever.
END_OF_TIME = Instant(9999, 12, 31, tzinfo=UTC)


def iso(at: Any) -> str:
    """Return a point in time such as `2026-12-01T08:00:00.000+00:00`."""
    if isinstance(at, datetime):
        return at.astimezone(UTC).isoformat(timespec="milliseconds")
    raise NotImplementedError


#: Writes an answer as JSON.
encode = msgspec.json.Encoder(enc_hook=iso).encode


def to_builtins(resource: msgspec.Struct) -> dict[str, Any]:
    """Return a resource as JSON has it, in Python's own types."""
    said: dict[str, Any] = _with_instants(
        msgspec.to_builtins(resource, builtin_types=(datetime,), enc_hook=iso)
    )
    return said


def _with_instants(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_instants(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_instants(part) for part in value]
    return iso(value) if isinstance(value, datetime) else value

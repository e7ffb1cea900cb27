"""All that decides a schedule's ticks, as one value: what a row says, or what JSON keeps of it."""

import json
from dataclasses import asdict, dataclass
from typing import Protocol, Self

from warren.scheduler.schedules.options import ScheduleOptions


class Scheduled(Protocol):
    """A job's row, a change in its history, or a part of either."""

    @property
    def schedule_kind(self) -> str:
        """A kind of schedule, by its value in the column."""

    @property
    def schedule_value(self) -> str | None:
        """Its value, which the kind reads."""

    @property
    def schedule_options(self) -> str | None:
        """Its options, as JSON."""


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """A schedule as it is stored.

    Attributes:
        kind: a kind of `registry`.
        value: what it reads.
        timezone: the IANA name of its zone.
        options: its options as canonical JSON; empty = none.

    """

    kind: str
    value: str
    timezone: str
    options: str = ""

    @classmethod
    def of(cls, row: Scheduled, timezone: str) -> Self:
        """Return the facts of a row, in a time zone."""
        return cls(
            row.schedule_kind, row.schedule_value or "", timezone, row.schedule_options or ""
        )

    @classmethod
    def from_json(cls, stored: str) -> Self:
        """Return what `to_json` has written."""
        return cls(**json.loads(stored))

    def to_json(self) -> str:
        """Return the facts as canonical JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def calendar_of(row: Scheduled) -> str:
    """Return the name of the calendar that a row's schedule uses; empty if it uses none."""
    if not row.schedule_options or '"calendar"' not in row.schedule_options:
        return ""
    return ScheduleOptions.from_json(row.schedule_options).calendar

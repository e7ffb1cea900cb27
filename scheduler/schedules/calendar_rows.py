"""Calendars as rows: reads them with all their versions, and writes a version's days.

A process keeps what it has read, as versions never change.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from itertools import groupby

import msgspec
from sqlalchemy.orm import Session

from warren.resources.calendars import WEEKDAYS
from warren.scheduler.schedules.facts import Scheduled, calendar_of
from warren.scheduler.schedules.working_days import Calendar, Calendars, CalendarVersion, day_of
from warren.sql.jobs import calendars
from warren.sql.jobs.calendars import VersionRow

WORK, OFF = "work", "off"
#: What is said of them.
NOT_TAKEN = (
    "events not taken: with hours %(timed)s, observances %(observances)s, "
    "unreadable %(unreadable)s; "
    "the first in line %(line)s: %(first)s"
)


class NotTaken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many events of a feed are no days of its calendar, why, and the first in its file.

    `observances` are days on which people work, `first` is its title with what is wrong.
    """

    timed: int = 0
    observances: int = 0
    unreadable: int = 0
    line: int
    first: str

    def __str__(self) -> str:
        return NOT_TAKEN % msgspec.structs.asdict(self)

    @classmethod
    def of(cls, row: VersionRow) -> "NotTaken | None":
        """Return what a row says of it."""
        return msgspec.json.decode(row.not_taken, type=cls) if row.not_taken else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarDays:
    """What a version of a calendar says.

    Attributes:
        weekend: the weekdays that are off, such as `SAT`.
        days: `work` or `off` for each day that is not as its weekday says, with the name of a
            holiday behind it: `off National Day`.
        until: the last day that it knows.
        source: where the days are from.
        not_taken: the source's events that are not days of it; None = there are none.

    """

    weekend: tuple[str, ...]
    days: Mapping[date, str]
    until: date
    source: str = field(default="", compare=False)
    not_taken: NotTaken | None = field(default=None, compare=False)

    @property
    def stored_weekend(self) -> str:
        """The weekend as a row has it."""
        return ",".join(sorted(self.weekend, key=WEEKDAYS.index))

    @property
    def stored_days(self) -> str:
        """The days as a row has them."""
        ordered = {day.isoformat(): self.days[day] for day in sorted(self.days)}
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))

    @property
    def stored_not_taken(self) -> str | None:
        """What is left of a feed, as a row has it."""
        return msgspec.json.encode(self.not_taken).decode() if self.not_taken else None

    @property
    def digest(self) -> str:
        """What two versions that say the same have in common."""
        text = f"{self.stored_weekend}\n{self.until}\n{self.stored_days}"
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def of(cls, row: VersionRow, days: str) -> "CalendarDays":
        """Return what a row says."""
        return cls(
            weekend=tuple(row.weekend.split(",")) if row.weekend else (),
            days={date.fromisoformat(day): said for day, said in json.loads(days).items()},
            until=row.until,
            source=row.source,
        )

    def version(self, number: int, effective_ms: int) -> CalendarVersion:
        """Return the version with this number that counts from an instant on."""
        said = {day_of(day): said.partition(" ") for day, said in self.days.items()}
        return CalendarVersion(
            number=number,
            weekend=frozenset(map(WEEKDAYS.index, self.weekend)),
            days={day: word == WORK for day, (word, _, _) in said.items()},
            names={day: name for day, (_, _, name) in said.items() if name},
            until_day=day_of(self.until),
            effective_ms=effective_ms,
        )


def load_calendars(session: Session, names: Iterable[str]) -> Calendars:
    """Return the calendars of these names, with all their versions; empty names are left out.

    Without a name no statement is executed.
    """
    wanted = {name for name in names if name}
    if not wanted:
        return {}
    rows = calendars.versions(session, wanted)
    return {name: _calendar(session, name, list(of)) for name, of in groupby(rows, _name_of)}


def calendars_for(session: Session, rows: Iterable[Scheduled]) -> Calendars:
    """Return the calendars that the schedules of rows use."""
    return load_calendars(session, map(calendar_of, rows))


def _name_of(row: VersionRow) -> str:
    return row.name


def _calendar(session: Session, name: str, rows: list[VersionRow]) -> Calendar:
    kept = _kept(name, tuple((row.number, row.effective_at, row.digest) for row in rows))
    if not kept:
        days = calendars.days(session, [row.id for row in rows])
        kept.append(
            Calendar(
                name,
                tuple(
                    CalendarDays.of(row, days[row.id]).version(row.number, row.effective_at)
                    for row in rows
                ),
            )
        )
    return kept[0]


@lru_cache(maxsize=256)
def _kept(_name: str, _versions: tuple[tuple[int, int, str], ...]) -> list[Calendar]:
    """Return where the calendar of these versions is kept; empty = it has not been read yet."""
    return []

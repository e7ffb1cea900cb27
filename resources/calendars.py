"""Calendars: which days are working days."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from warren.resources.job_files import Applied, JobFileText
from warren.resources.operation import Scope, operation

#: Weekdays from Monday on.
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


class Calendar(msgspec.Struct, kw_only=True, frozen=True):
    """A version of a calendar; `jobs` are those that use it and may be seen, as APP/NAME.

    `effective_at` is when it begins to count. `not_taken` says which events of a feed are no days
    of it; empty = there are none.
    """

    name: str
    version: int
    weekend: list[str]
    until: str
    source: str
    effective_at: datetime
    made_by: str
    jobs: list[str]
    not_taken: str


class CalendarDay(msgspec.Struct, kw_only=True, frozen=True):
    """A day that is not as its weekday says; `name` is that of a holiday."""

    date: str
    working: bool
    name: str


class CalendarYear(Calendar, kw_only=True, frozen=True):
    """A year of a calendar: its special days, and how many working days it has.

    `versions` is how many versions of the calendar there are.
    """

    year: int
    working_days: int
    days: list[CalendarDay]
    versions: int


class YearQuery(msgspec.Struct, kw_only=True):
    """Which year, by default this one in UTC, and by which version, by default the newest."""

    year: Annotated[int, msgspec.Meta(ge=1970, le=2999)] | None = None
    version: Annotated[int, msgspec.Meta(ge=1)] | None = None


class CalendarFilesBody(msgspec.Struct, kw_only=True):
    """Job files of which only the calendars are applied; with `dry_run`, nothing is stored."""

    files: list[JobFileText]
    dry_run: bool = False


@operation("GET", "/calendars", Scope.READ)
def list_calendars() -> list[Calendar]:
    """List calendars by name, with the jobs that use them."""


@operation("GET", "/calendars/<name>", Scope.READ, query=YearQuery)
def show_calendar(
    name: str, *, year: int | None = None, version: int | None = None
) -> CalendarYear:
    """Show a year of a calendar: days off on weekdays, working days on weekends, and its jobs."""


@operation("POST", "/calendars:apply", Scope.ADMIN, body=CalendarFilesBody)
def apply_calendars(*, files: Sequence[JobFileText], dry_run: bool = False) -> Applied:
    """Make calendars match those of job files; nothing else of the files is applied.

    A new version counts from ten seconds after it is stored.
    """

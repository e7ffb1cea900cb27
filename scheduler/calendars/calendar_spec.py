"""A calendar as users describe it, the days that this gives, and descriptions of stored ones."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from sqlalchemy.orm import Session

from warren.resources.calendars import WEEKDAYS
from warren.resources.spelling import nearest
from warren.scheduler.calendars.feeds import DEFAULT_WEEKEND, NAME_LENGTH, YEARS_AHEAD, read_ical
from warren.scheduler.problems import Code, FieldName, Problem, refusal, unknown_word
from warren.scheduler.schedules.options import CALENDAR_PATTERN
from warren.scheduler.schedules.reading import OFF, WORK, CalendarDays
from warren.scheduler.schedules.working_days import day_of
from warren.sql.jobs import calendars

PREFIX = "holidays:"


def read_country(source: str, today: date, until: date | None = None) -> CalendarDays:
    """Return the days of a source such as `holidays:CN` or `holidays:DE-BY`, from last year on.

    They end with the last year that has any; where the government moves working days each year,
    with the last one for which it is known. With `until`, with that day: by what the rules say for
    the years that are computed ahead.

    Raises:
        Problem: there is no such country or part of it, its days are over and there is no `until`,
            or the library is not installed.

    """
    try:
        import holidays  # noqa: PLC0415 - half a second, and only `warren[server]` has it
    except ImportError as error:
        raise Problem(Code.HOLIDAYS_MISSING, "from") from error
    code = source.removeprefix(PREFIX)
    country, _, part = code.partition("-")
    supported = holidays.list_supported_countries(include_aliases=True)
    if country not in supported or (part and part not in supported[country]):
        known = [*supported, *(f"{country}-{each}" for each in supported.get(country, ()))]
        hint = nearest(code, known) or "CN"
        raise Problem(Code.HOLIDAYS_UNKNOWN, "from", got=source[:100], near=f"{PREFIX}{hint}")
    first = date(today.year - 1, 1, 1)
    known_days = holidays.country_holidays(country, subdiv=part or None)
    last = until or date(_last_year(known_days, today), 12, 31)
    if last < today and until is None:
        facts = {"got": source[:100], "year": today.year, "until": f"{today.year}-12-31"}
        raise Problem(Code.HOLIDAYS_OVER, "from", **facts)
    weekend = tuple(name for number, name in enumerate(WEEKDAYS) if number in known_days.weekend)
    days = {}
    at, ahead = first, date(today.year + YEARS_AHEAD, 12, 31)
    while at <= min(last, ahead):
        is_weekend = at.weekday() in known_days.weekend
        if at in known_days and not is_weekend:
            days[at] = f"{OFF} {known_days.get(at)}"
        elif is_weekend and known_days.is_working_day(at):
            days[at] = WORK
        at += timedelta(days=1)
    return CalendarDays(weekend=weekend, days=days, until=last, source=source)


def _last_year(known_days: Any, today: date) -> int:
    """Return the last year whose days are final; a past year means that all days have passed."""
    last = min(today.year + YEARS_AHEAD, int(known_days.end_year))
    named = getattr(known_days, "special_public_holidays", None)
    if getattr(known_days, "has_substituted_holidays", False) and named:
        last = min(last, int(max(named)))
    years = range(today.year, last + 1)
    for year in years:
        known_days.get(date(year, 1, 1))  # it computes a year when it is asked for a day of it
    return max({day.year for day in known_days}.intersection(years), default=today.year - 1)


#: The most days that a description adds.
MAX_DAYS = 5_000
#: What is wrong with a calendar once time has passed over its data.
OVER = (Code.CALENDAR_PAST, Code.HOLIDAYS_OVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarSpec:
    """The desired state of a calendar.

    Attributes:
        name: its name.
        source: `holidays:CN`, the name of an `.ics` file, or empty: the days are all that it has.
        weekend: the weekdays that are off; None = as the source says, and without one SAT and SUN.
        days: days that are not as the rest says: `work`, `off`, or `off NAME`.
        until: the last day that it knows; None = as the source says.
        files: the texts of `.ics` files by name.

    """

    name: str
    source: str = ""
    weekend: tuple[str, ...] | None = None
    days: Mapping[date, str] = field(default_factory=dict)
    until: date | None = None
    files: Mapping[str, str] = field(default_factory=dict, repr=False)

    def resolved(self, today: date, *, even_over: bool = False) -> CalendarDays:
        """Return its days; with `even_over`, also if all that it knows has passed.

        Raises:
            Refused: the source is unknown, or what the calendar says makes no sense.

        """
        if problems := [*self.problems()]:
            raise refusal(problems)
        from_source = self._of_source(today, even_over=even_over)
        until = self.until or (from_source.until if from_source else None)
        if until is None:
            until = date(max([today, *self.days]).year, 12, 31)
        if until < today and not even_over:
            raise Problem(Code.CALENDAR_PAST, "until", calendar=self.name, until=str(until))
        weekend = self.weekend
        if weekend is None:
            weekend = from_source.weekend if from_source else DEFAULT_WEEKEND
        days = {**(from_source.days if from_source else {}), **self.days}
        kept = {day: said for day, said in days.items() if day <= until}
        resolved = CalendarDays(
            weekend=weekend,
            days=kept,
            until=until,
            source=self.source,
            not_taken=from_source.not_taken if from_source else None,
        )
        if until >= today and not resolved.version(1, 0).has_working_day(day_of(today)):
            raise Problem(Code.CALENDAR_WITHOUT_WORK, "days", calendar=self.name, until=str(until))
        return resolved

    def _of_source(self, today: date, *, even_over: bool) -> CalendarDays | None:
        if not self.source:
            return None
        if self.source.startswith(PREFIX):
            try:
                return read_country(self.source, today, self.until)
            except Problem as problem:
                if problem.code is not Code.HOLIDAYS_OVER or not even_over:
                    raise
                return read_country(self.source, today, date(today.year - 1, 12, 31))
        text = self.files.get(self.source)
        if text is None:
            raise Problem(Code.CALENDAR_SOURCE, "from", got=self.source[:100])
        return read_ical(text, self.source, today)

    def problems(self) -> Iterator[Problem]:
        """Yield everything that is wrong with what it says itself."""
        if not re.fullmatch(CALENDAR_PATTERN, self.name):
            facts = {"pattern": CALENDAR_PATTERN, "got": self.name[:100]}
            yield Problem(Code.CALENDAR_NAME, "name", **facts)
        if len(self.source) > calendars.SOURCE_LENGTH:
            yield Problem(Code.CALENDAR_SOURCE, "from", got=self.source[:100])
        for day in self.weekend or ():
            if day not in WEEKDAYS:
                yield unknown_word("weekend", FieldName("weekend"), day, WEEKDAYS)
        if len(self.days) > MAX_DAYS:
            yield Problem(Code.CALENDAR_DAYS, "days", most=MAX_DAYS, got=len(self.days))
            return
        for on, said in self.days.items():
            word, _, name = said.partition(" ")
            if word not in (WORK, OFF) or len(name) > NAME_LENGTH or not name.isprintable():
                yield Problem(Code.CALENDAR_DAY, "days", day=str(on), got=said[:100])


def stored_specs(
    session: Session, names: Collection[str], today: date
) -> tuple[list[CalendarSpec], list[str]]:
    """Return what the newest versions of calendars say; a job file with it changes nothing.

    If a calendar has only a country's holidays, its spec names the country; otherwise it lists all
    days. One that ends before today is no longer a valid description: a line for each says so.
    """
    newest = {row.name: row for row in calendars.versions(session, names)} if names else {}
    days = calendars.days(session, [row.id for row in newest.values()])
    specs, left_out = [], []
    for name, row in sorted(newest.items()):
        if row.until < today:
            left_out.append(f"calendar {name} ended on {row.until}")
        else:
            specs.append(_stored_spec(name, CalendarDays.of(row, days[row.id]), today))
    return specs, left_out


def _stored_spec(name: str, days: CalendarDays, today: date) -> CalendarSpec:
    if days.source.startswith(PREFIX):
        country = CalendarSpec(name=name, source=days.source)
        try:
            if country.resolved(today) == days:
                return country
        except Problem:  # the country is known no more
            pass
    return CalendarSpec(name=name, weekend=days.weekend, days=days.days, until=days.until)

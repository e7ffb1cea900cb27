"""What becomes of the times that a schedule means: due, moved, or left out, and why.

`clock_notes` says what changes of the clock do to them, and what another rule changes of that. Only
changes within a year are looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from warren.broker.reasons import Reason, Why
from warren.scheduler.cron.expression import Cron
from warren.scheduler.cron.wall_clock import ClockChange, WallClock
from warren.scheduler.schedules.options import OnHoliday, ScheduleOptions
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.refined import RefinedTicks, WallTicks
from warren.scheduler.schedules.registry import CronSchedule, newest_rule
from warren.scheduler.schedules.schedule import ScheduleFacts, Ticks
from warren.scheduler.schedules.working_days import (
    NO_CALENDARS,
    Calendar,
    Calendars,
    date_of,
    day_of,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
#: Times that are looked at for each due time.
LOOKED_AT = 400


@dataclass(frozen=True, slots=True)
class Fate:
    """A time that a schedule means, and the due time that it is; None = it is left out.

    `why` says what moved it or left it out; None = it is due as it stands.
    """

    nominal_ms: int
    tick_ms: int | None
    why: Reason | None = None


def fates(
    facts: ScheduleFacts, calendars: Calendars, *, now_ms: int, anchor_ms: int, count: int
) -> list[Fate]:
    """Return the next times that a schedule means, up to the last of its next `count` due times.

    Raises:
        Problem: the schedule cannot be read.

    """
    ticks = read_schedule(facts, calendars)
    if not isinstance(ticks, RefinedTicks) or ticks.plain is None:
        due = ticks.ticks(now_ms, 2**62, anchor_ms, count)
        return [Fate(tick, tick) for tick in due]
    told: list[Fate] = []
    seen: set[int] = set()
    for fate in _of_each(ticks, ticks.plain, now_ms, anchor_ms):
        if fate.tick_ms in seen:
            told.append(Fate(fate.nominal_ms, None, Why.TICK_MEETS_ANOTHER()))
        else:
            told.append(fate)
        if fate.tick_ms is not None:
            seen.add(fate.tick_ms)
        if len(seen) >= count or len(told) >= count * LOOKED_AT:
            break
    return told


def _of_each(ticks: RefinedTicks, plain: Ticks, now_ms: int, anchor_ms: int) -> Iterator[Fate]:
    anchor_ms = ticks.anchor(anchor_ms)
    nominal = plain.next_after(now_ms, anchor_ms)
    if nominal is not None and ticks.begin_ms is not None and nominal < ticks.begin_ms:
        yield _fate(ticks, nominal)  # it stands for all before the first
        nominal = plain.next_after(ticks.begin_ms - 1, anchor_ms)
    while nominal is not None:
        fate = _fate(ticks, nominal)
        if fate.tick_ms is not None and not _is_tick(ticks, fate.tick_ms, anchor_ms):
            fate = Fate(nominal, None, Why.TICK_DECIDED_BEFORE())
        yield fate
        if ticks.until_ms is not None and nominal > ticks.until_ms:
            return
        if _is_unknown(ticks, nominal):
            return
        nominal = plain.next_after(nominal, anchor_ms)


def _fate(ticks: RefinedTicks, nominal: int) -> Fate:
    options, shown = ticks.options, _shown(ticks, nominal)
    if ticks.begin_ms is not None and nominal < ticks.begin_ms:
        return Fate(nominal, None, Why.TICK_BEFORE_FROM(begin=options.begin))
    if ticks.until_ms is not None and nominal > ticks.until_ms:
        return Fate(nominal, None, Why.TICK_AFTER_UNTIL(until=options.until))
    second = shown.hour * 3_600 + shown.minute * 60 + shown.second
    if ticks.window and not any(low <= second < high for low, high in ticks.window.spans()):
        return Fate(nominal, None, Why.TICK_OUTSIDE_WINDOW(window=options.window))
    if ticks.calendar is None:
        return Fate(nominal, nominal)
    return _by_calendar(ticks, ticks.calendar, nominal, shown)


def _by_calendar(ticks: RefinedTicks, calendar: Calendar, nominal: int, shown: datetime) -> Fate:
    version, day = calendar.at(nominal), day_of(shown.date())
    if day > version.until_day:
        until = date_of(version.until_day).isoformat()
        return Fate(nominal, None, Why.CALENDAR_ENDED(calendar=calendar.name, until=until))
    if version.is_working(day):
        return Fate(nominal, nominal)
    why = Why.TICK_ON_DAY_OFF(calendar=calendar.name, name=version.names.get(day, ""))
    target: int | None = None
    if ticks.options.on_holiday == OnHoliday.NEXT:
        target = version.working_from(day)
    elif ticks.options.on_holiday == OnHoliday.PREVIOUS:
        target = version.working_until(day)
    if target is None:
        return Fate(nominal, None, why)
    moved = shown.replace(tzinfo=None) + timedelta(days=target - day)
    return Fate(nominal, _due_at(ticks, moved), why)


def _due_at(ticks: RefinedTicks, shown: datetime) -> int | None:
    """Return when a time that a calendar has moved is due; None if the clock leaves it out."""
    assert isinstance(ticks.inner, WallTicks)  # a rate moves nothing
    cron, wall = ticks.inner.cron, (shown - _EPOCH.replace(tzinfo=None)) // timedelta(seconds=1)
    instant = cron.clock.instant_of(wall)
    if instant is None and cron.runs_after_gap:
        instant = cron.clock.instant_of(cron.clock.gap_around(wall)[1])
    return None if instant is None else instant * 1_000


def _shown(ticks: RefinedTicks, instant: int) -> datetime:
    return (_EPOCH + instant * _MILLISECOND).astimezone(ticks.zone)


def _is_tick(ticks: RefinedTicks, tick: int, anchor_ms: int) -> bool:
    return ticks.next_after(tick - 1, anchor_ms) == tick


def _is_unknown(ticks: RefinedTicks, nominal: int) -> bool:
    """Whether the calendar does not know the day of a time."""
    if ticks.calendar is None:
        return False
    return day_of(_shown(ticks, nominal).date()) > ticks.calendar.newest.until_day


YEAR_SECONDS = 366 * 86_400
#: Ticks that are compared around a change: more than a schedule has that fires each minute.
_COMPARED = 5_000


def clock_notes(
    facts: ScheduleFacts, *, now_ms: int, calendars: Calendars = NO_CALENDARS
) -> list[Reason]:
    """Return what the next gap, and the next hour that comes twice, do to a schedule's times.

    Raises:
        Problem: the schedule cannot be read.

    """
    ticks = read_schedule(facts, calendars)
    cron = _cron_of(ticks)
    if cron is None:
        return []
    notes: dict[bool, Reason] = {}
    for change in _changes(cron.clock, now_ms):
        if change.is_gap not in notes and _is_within(ticks, change) and cron.fires_in(change):
            notes[change.is_gap] = _note(cron, change)
    return list(notes.values())


@dataclass(frozen=True, slots=True)
class ChangedTimes:
    """Due times that a schedule has no longer by its newest rule, and those that it has instead.

    They are in epoch milliseconds, in order.
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def changed_by_rule(
    facts: ScheduleFacts, *, now_ms: int, next_ms: int = 0, calendars: Calendars = NO_CALENDARS
) -> ChangedTimes:
    """Return which due times change if a schedule follows its newest rule from now on.

    `next_ms` is the next tick of its job; 0 = it is stopped. Of a rate, all change if any does:
    only the next ones are returned.

    Raises:
        Problem: the schedule cannot be read.

    """
    said = ScheduleOptions.from_json(facts.options)
    newest = said.by_rule(newest_rule(facts.kind, said)).to_json() or ""
    new_facts = ScheduleFacts(facts.kind, facts.value, facts.timezone, newest)
    old, new = read_schedule(facts, calendars), read_schedule(new_facts, calendars)
    cron = _cron_of(new)
    if cron is None:
        first = new.next_after(now_ms, next_ms) if next_ms else None
        is_same = first is None or old.next_after(first - 1, next_ms) == first
        return ChangedTimes() if is_same or first is None else ChangedTimes((next_ms,), (first,))
    ticks = [set(_around_changes(each, cron.clock, now_ms)) for each in (old, new)]
    return ChangedTimes(
        tuple(sorted(ticks[0] - ticks[1])),
        tuple(sorted(ticks[1] - ticks[0])),
    )


def _around_changes(ticks: Ticks, clock: WallClock, now_ms: int) -> Iterator[int]:
    for change in _changes(clock, now_ms):
        width = abs(change.after - change.before)
        after_ms = max(now_ms, (change.instant - width) * 1_000 - 1)
        yield from ticks.ticks(after_ms, (change.instant + width) * 1_000, 0, _COMPARED)


def _changes(clock: WallClock, now_ms: int) -> Iterator[ClockChange]:
    return clock.changes(now_ms // 1_000, now_ms // 1_000 + YEAR_SECONDS)


def _cron_of(ticks: Ticks) -> Cron | None:
    """Return what decides a schedule's wall-clock times; None if it has none."""
    inner = ticks.inner if isinstance(ticks, RefinedTicks) else ticks
    return inner.cron if isinstance(inner, CronSchedule | WallTicks) else None


def _is_within(ticks: Ticks, change: ClockChange) -> bool:
    if not isinstance(ticks, RefinedTicks):
        return True
    begin, until = ticks.begin_ms, ticks.until_ms
    at_ms = change.instant * 1_000
    return (begin is None or begin <= at_ms) and (until is None or at_ms <= until)


def _note(cron: Cron, change: ClockChange) -> Reason:
    begin, end = (datetime.fromtimestamp(wall, UTC) for wall in change.walls)
    date, first, last = f"{begin:%Y-%m-%d}", f"{begin:%H:%M}", f"{end:%H:%M}"
    if change.is_gap:
        if cron.runs_after_gap:
            return Why.CLOCK_MOVES(date=date, first=first, last=last)
        return Why.CLOCK_DROPS(date=date, first=first, last=last)
    if cron.again is not None:
        return Why.CLOCK_REPEATS(date=date, first=first, last=last)
    if cron.clock.is_first:
        return Why.CLOCK_FIRST_ONLY(date=date, first=first, last=last)
    return Why.CLOCK_SECOND_ONLY(date=date, first=first, last=last)

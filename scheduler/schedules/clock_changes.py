"""What changes of the clock do to the times of a schedule, and what another rule changes of that.

Only changes within a year are looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from warren.broker.reasons import Reason, Why
from warren.scheduler.cron.expression import Cron
from warren.scheduler.cron.wall_clock import ClockChange, WallClock
from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.refined import RefinedTicks, WallTicks
from warren.scheduler.schedules.registry import CronSchedule, newest_rule
from warren.scheduler.schedules.schedule import Ticks
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendars

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

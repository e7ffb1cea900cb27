"""Cron patterns narrowed by a window and a calendar: on each day, which of the day's times count.

The times of a day are numbered (`DayTimes.rank`), so what counts on a day is a few ranges of ranks.
A nominal day is one that the expression means. A calendar moves its times to an actual day, or
leaves them out; the version in force at the nominal due time decides, once:

    version    1 in force      │ 2 in force
    ───────────────────────────┼───────────────────────────────>
    next:      nominal ────────┼──> actual       version 1 has decided
    previous:  actual by 1 <───┼─── nominal      has run for it, whatever version 2 says
               actual by 2 <───┼─── nominal      moved into the past: never runs
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from warren.scheduler.cron.expression import DAY_SECONDS, Days, DayTimes
from warren.scheduler.schedules.nominal_days import NominalDays
from warren.scheduler.schedules.working_days import MAX_MOVE_DAYS, CalendarVersion

#: Ranges of ranks, each from its first to before its second, in order and apart.
Ranks = tuple[tuple[int, int], ...]
#: Days whose ranks are remembered.
_REMEMBERED = 1_000


class DayPlan(Protocol):
    """Says which times of each day are ticks."""

    def ranks(self, day: int) -> Ranks:
        """Return the ranks of the times that are ticks on a day."""

    def days_from(self, day: int) -> Iterator[int]:
        """Yield the days from this one on that may have ticks, in order."""

    def days_before(self, day: int) -> Iterator[int]:
        """Yield the days before this one that may have ticks, the latest first."""


@dataclass(frozen=True, slots=True)
class PlannedPattern:
    """Wall seconds by a day plan; asked like a cron's `Pattern`."""

    plan: DayPlan
    times: DayTimes

    def first_from(self, wall: int) -> int | None:
        """Return the first that is not before this wall second; None if none is left."""
        first_day, second = divmod(wall, DAY_SECONDS)
        least = self.times.rank(second)
        for day in self.plan.days_from(first_day):
            rank = _first_from(self.plan.ranks(day), least if day == first_day else 0)
            if rank is not None:
                return day * DAY_SECONDS + self.times.pick(rank)
        return None

    def last_before(self, wall: int) -> int | None:
        """Return the last before this wall second; None when there is none."""
        last_day, second = divmod(wall, DAY_SECONDS)
        most = self.times.rank(second)
        for day in self.plan.days_before(last_day + 1):
            rank = _last_before(self.plan.ranks(day), most if day == last_day else len(self.times))
            if rank is not None:
                return day * DAY_SECONDS + self.times.pick(rank)
        return None

    def count(self, start: int, end: int) -> int:
        """Count how many from `start` to before `end`, which is not smaller."""
        first_day, first_second = divmod(start, DAY_SECONDS)
        last_day, last_second = divmod(end, DAY_SECONDS)
        least, most = self.times.rank(first_second), self.times.rank(last_second)
        total = 0
        for day in self.plan.days_from(first_day):
            if day > last_day:
                break
            ranks = self.plan.ranks(day)
            low, high = least if day == first_day else 0, most if day == last_day else None
            total += _size(ranks if not low and high is None else _clipped(ranks, low, high))
        return total


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The days that an expression means, with the times of a window."""

    days: Days
    open: Ranks

    def ranks(self, day: int) -> Ranks:
        """Return the window's times on a day that is meant."""
        return self.open if self.days.first_from(day) == day else ()

    def days_from(self, day: int) -> Iterator[int]:
        """Yield the days that are meant."""
        at = self.days.first_from(day) if self.open else None
        while at is not None:
            yield at
            at = self.days.first_from(at + 1)

    def days_before(self, day: int) -> Iterator[int]:
        """Yield the days that are meant, backwards."""
        while self.open and (at := self.days.last_before(day)) is not None:
            yield at
            day = at


@dataclass(frozen=True, slots=True)
class Term:
    """The wall seconds in which a version of a calendar is in force: from `start` to `end`."""

    version: CalendarVersion
    start: float
    end: float


def terms_of(versions: Sequence[CalendarVersion], starts: Sequence[int]) -> tuple[Term, ...]:
    """Return the terms of versions, of which all but the first start at these wall seconds."""
    bounds = (-inf, *starts, inf)
    return tuple(
        Term(version, bounds[at], bounds[at + 1])
        for at, version in enumerate(versions)
        if bounds[at] < bounds[at + 1]
    )


class CalendarPlan:
    """The days of a schedule with a calendar.

    Args:
        nominal: the days that the calendar moves.
        times: the times of each of them.
        open: those of the times that are within the window.
        terms: the versions of the calendar, in order.

    """

    def __init__(
        self, nominal: NominalDays, times: DayTimes, open_: Ranks, terms: Sequence[Term]
    ) -> None:
        self._nominal = nominal
        self._times = times
        self._open = open_
        self._terms = terms
        self._starts = [term.start for term in terms]
        self._last_day = max(term.version.until_day for term in terms)
        self._known: dict[int, Ranks] = {}

    def ranks(self, day: int) -> Ranks:
        """Return the times on a day that some version has decided on."""
        ranks = self._known.get(day)
        if ranks is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            ranks = self._known[day] = self._ranks(day)
        return ranks

    def days_from(self, day: int) -> Iterator[int]:
        """Yield the days near a nominal day, as far as the calendar knows."""
        nominal: int | None = None
        while self._open and day <= self._last_day:
            if nominal is None or nominal < day - self._nominal.reach_back:
                nominal = self._nominal.first_from(day - self._nominal.reach_back)
                if nominal is None:
                    return
                day = max(day, nominal - self._nominal.reach_ahead)
            yield day
            day += 1

    def days_before(self, day: int) -> Iterator[int]:
        """Yield the same days backwards."""
        day, nominal = min(day - 1, self._last_day), None
        while self._open:
            if nominal is None or nominal > day + self._nominal.reach_ahead:
                nominal = self._nominal.last_before(day + self._nominal.reach_ahead + 1)
                if nominal is None:
                    return
                day = min(day, nominal + self._nominal.reach_back)
            yield day
            day -= 1

    def moved_into_past(self, wall: int) -> list[int]:
        """Return the wall seconds to which the version that starts here moves what is due later.

        They are before it starts, and nothing runs for their nominal times.
        """
        at = bisect_right(self._starts, wall) - 1
        term, today = self._terms[at], wall // DAY_SECONDS
        lost: list[int] = []
        for day in sorted(self._nominal.latest(term.version, today)):
            ranks = _united(
                each
                for nominal in self._nominal.nominal(term.version, day)
                for each in self._not_run(at, nominal, self._before(day, nominal, term))
            )
            kept = _without(ranks, self.ranks(day))
            lost += [
                day * DAY_SECONDS + self._times.pick(rank)
                for low, high in kept
                for rank in range(low, high)
            ]
        return lost

    def _before(self, day: int, nominal: int, term: Term) -> Ranks:
        """Return the times that are moved to before a term, of those that are due in it."""
        if not self._nominal.moves_back:
            return ()
        past = self._within(day, -inf, term.start)
        if self._nominal.reach_ahead:
            past = _common(past, self._within(nominal, term.start, term.end))
        return past

    def _ranks(self, day: int) -> Ranks:
        found: list[tuple[int, int]] = []
        first = (day - MAX_MOVE_DAYS - 1) * DAY_SECONDS
        last = (day + MAX_MOVE_DAYS + 1) * DAY_SECONDS
        for at, term in enumerate(self._terms):
            if term.end <= first or term.start > last:
                continue
            for nominal in self._nominal.nominal(term.version, day):
                decided = nominal if self._nominal.decided_by_nominal else day
                found += self._not_run(at, nominal, self._within(decided, term.start, term.end))
        return _united(found)

    def _not_run(self, at: int, nominal: int, ranks: Ranks) -> Ranks:
        """Return the times that have not run for this nominal day by an earlier version."""
        if not self._nominal.moves_back:
            return ranks
        for term in self._terms[:at]:
            day = self._nominal.actual(term.version, nominal)
            if day is not None and ranks:
                ranks = _without(ranks, self._within(day, term.start, term.end))
        return ranks

    def _within(self, day: int, start: float, end: float) -> Ranks:
        """Return the open times of a day from one wall second to before another."""
        midnight = day * DAY_SECONDS
        if start <= midnight and end >= midnight + DAY_SECONDS:
            return self._open
        low = 0 if start <= midnight else self._rank(start - midnight)
        high = None if end >= midnight + DAY_SECONDS else self._rank(end - midnight)
        return _clipped(self._open, low, high)

    def _rank(self, second: float) -> int:
        if second >= DAY_SECONDS:
            return len(self._times)
        return self._times.rank(int(second)) if second > 0 else 0


def _first_from(ranks: Ranks, least: int) -> int | None:
    return next((max(low, least) for low, high in ranks if high > least), None)


def _last_before(ranks: Ranks, most: int) -> int | None:
    return next((min(high, most) - 1 for low, high in reversed(ranks) if low < most), None)


def _size(ranks: Ranks) -> int:
    return sum(high - low for low, high in ranks)


def _clipped(ranks: Ranks, least: int, most: int | None) -> Ranks:
    cut = ((max(low, least), high if most is None else min(high, most)) for low, high in ranks)
    return tuple((low, high) for low, high in cut if low < high)


def _united(ranks: Iterable[tuple[int, int]]) -> Ranks:
    united: list[tuple[int, int]] = []
    for low, high in sorted(ranks):
        if united and low <= united[-1][1]:
            united[-1] = (united[-1][0], max(high, united[-1][1]))
        else:
            united.append((low, high))
    return tuple(united)


def _without(ranks: Ranks, others: Ranks) -> Ranks:
    for low, high in others:
        ranks = (*_clipped(ranks, 0, low), *_clipped(ranks, high, None))
    return ranks


def _common(ranks: Ranks, others: Ranks) -> Ranks:
    return _united(each for low, high in others for each in _clipped(ranks, low, high))

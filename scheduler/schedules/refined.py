"""A schedule with options, behind the interface of a schedule without any.

The times of a day are numbered (`DayTimes.rank`), so what counts on a day is a few ranges of ranks.
A nominal day is one that the expression means. A calendar moves its times to an actual day, or
leaves them out; the version in force at the nominal due time decides, once:

    version    1 in force      │ 2 in force
    ───────────────────────────┼───────────────────────────────>
    next:      nominal ────────┼──> actual       version 1 has decided
    previous:  actual by 1 <───┼─── nominal      has run for it, whatever version 2 says
               actual by 2 <───┼─── nominal      moved into the past: never runs
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import inf
from typing import Protocol, Self
from zoneinfo import ZoneInfo

from warren.broker.reasons import Reason, Why
from warren.scheduler.cron.expression import Cron, Days, DayTimes, Pattern
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.options import (
    DAY_SECONDS,
    MovedDays,
    NominalDays,
    OnHoliday,
    ScheduleOptions,
    Window,
)
from warren.scheduler.schedules.schedule import Ticks
from warren.scheduler.schedules.working_days import (
    MAX_MOVE_DAYS,
    Calendar,
    CalendarVersion,
    date_of,
)

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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
#: Ticks by which a new schedule's shortest distance is judged.
JUDGED_TICKS = 500


@dataclass(frozen=True, slots=True, eq=False)
class WallTicks(Ticks):
    """Ticks at wall-clock times: those of a cron, narrowed and moved by window and calendar."""

    cron: Cron
    plan: DayPlan

    @classmethod
    def of(
        cls,
        cron: Cron,
        options: ScheduleOptions,
        calendar: Calendar | None,
        nominal: NominalDays | None = None,
    ) -> Self:
        """Return the ticks of a cron with options; `nominal` are days in place of the cron's."""
        pattern = cron.pattern
        assert isinstance(pattern, Pattern)
        open_ = _open_ranks(pattern.times, options.opening)
        if calendar is None:
            return cls._planned(cron, WindowPlan(pattern.days, open_), pattern.times)
        on_holiday = OnHoliday(options.on_holiday or OnHoliday.SKIP)
        starts = [
            cron.clock.wall_from(_whole_second(version.effective_ms))
            for version in calendar.versions[1:]
        ]
        plan = CalendarPlan(
            nominal or MovedDays(pattern.days, on_holiday),
            pattern.times,
            open_,
            terms_of(calendar.versions, starts),
        )
        return cls._planned(cron, plan, pattern.times)

    @classmethod
    def _planned(cls, cron: Cron, plan: DayPlan, times: DayTimes) -> Self:
        return cls(replace(cron, pattern=PlannedPattern(plan, times)), plan)

    def next_after(self, after_ms: int, _anchor_ms: int) -> int | None:
        """Return the first tick after this instant."""
        return self.cron.next_after(after_ms)

    def last_until(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int | None:
        """Return the last tick of this span."""
        return self.cron.last_until(after_ms, until_ms)

    def count(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int:
        """Count the ticks in this span."""
        return self.cron.count(after_ms, until_ms)

    def lost_to(self, effective_ms: int) -> list[int]:
        """Return the times before a version's start to which it moves what is due later."""
        if not isinstance(self.plan, CalendarPlan):
            return []
        clock = self.cron.clock
        walls = self.plan.moved_into_past(clock.wall_from(_whole_second(effective_ms)))
        instants = [clock.instant_of(wall) for wall in walls]
        return [instant * 1_000 for instant in instants if instant is not None]


@dataclass(frozen=True, slots=True, eq=False)
class RefinedTicks(Ticks):
    """Ticks between a first and a last instant, with jitter.

    Attributes:
        inner: the ticks, as window and calendar have left them.
        plain: the same without options; None if there are none without a calendar.
        has_rhythm: whether the first instant is the anchor, whatever the job's next tick is.

    """

    inner: Ticks
    plain: Ticks | None
    options: ScheduleOptions
    zone: ZoneInfo
    calendar: Calendar | None
    begin_ms: int | None
    until_ms: int | None
    window: Window | None
    has_rhythm: bool

    @classmethod
    def of(
        cls,
        inner: Ticks,
        options: ScheduleOptions,
        zone: ZoneInfo,
        calendar: Calendar | None,
        plain: Ticks | None,
    ) -> Self:
        """Return ticks within the bounds of options."""
        begin, until = options.bounds_ms(zone)
        has_rhythm = begin is not None and options.rule > 1 and bool(plain and plain.is_rhythmic)
        opening = options.opening
        return cls(inner, plain, options, zone, calendar, begin, until, opening, has_rhythm)

    def anchor(self, anchor_ms: int) -> int:
        """Return the tick that sets the rhythm: its first instant, or else the one given."""
        return self.begin_ms if self.has_rhythm and self.begin_ms is not None else anchor_ms

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Return the first tick after this instant."""
        anchor_ms = self.anchor(anchor_ms)
        return self._unless_over(self.inner.next_after(self._from(after_ms), anchor_ms))

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Return the last tick of this span."""
        after_ms, until_ms = self._from(after_ms), self._until(until_ms)
        return self.inner.last_until(after_ms, until_ms, self.anchor(anchor_ms))

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the ticks in this span."""
        after_ms, until_ms = self._from(after_ms), self._until(until_ms)
        if after_ms >= until_ms:
            return 0
        return self.inner.count(after_ms, until_ms, self.anchor(anchor_ms))

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Begin now, or with the first instant if that is later."""
        if self.begin_ms is not None and self.begin_ms > now_ms:
            watermark_ms = self.begin_ms - 1
            return watermark_ms, self.next_after(watermark_ms, self.begin_ms)
        if self.has_rhythm:
            return now_ms, self.next_after(now_ms, now_ms)
        watermark_ms, tick = self.inner.start(now_ms)
        return watermark_ms, self._unless_over(tick)

    def due_at(self, job_id: int, tick_ms: int) -> int:
        """Return when the run of a tick is due: within the jitter, the same for every scheduler.

        Never after the window's end or the last instant.
        """
        longest = self.options.jitter_seconds * 1_000
        if not longest:
            return tick_ms
        if self.window is not None:
            longest = min(longest, self._left_of_window(self.window, tick_ms))
        if self.until_ms is not None:
            longest = min(longest, self.until_ms - tick_ms)
        digest = hashlib.blake2b(f"{job_id}:{tick_ms}".encode(), digest_size=8).digest()
        return tick_ms + int.from_bytes(digest) % longest if longest > 0 else tick_ms

    def end_reason(self, watermark_ms: int) -> Reason:
        """Return whether the schedule has ended, or the data of its calendar."""
        if self.plain and self.plain.next_after(watermark_ms, watermark_ms) is None:
            return Why.NO_FURTHER_TIME()
        if self.until_ms is not None and not self._ends_unknown(self.until_ms):
            return Why.SCHEDULE_OVER(until=self.options.until)
        if self.calendar is not None:
            until = date_of(self.calendar.newest.until_day).isoformat()
            return Why.CALENDAR_ENDED(calendar=self.calendar.name, until=until)
        return Why.NO_FURTHER_TIME()

    def lost_to(self, effective_ms: int) -> list[int]:
        """Return the times before a version's start to which it moves what is due later."""
        lost = self.inner.lost_to(effective_ms)
        return [tick for tick in lost if tick > self._from(0) and tick == self._unless_over(tick)]

    def ends_with_calendar(self) -> int | None:
        """Return the last day that its calendar knows, if the schedule continues after it."""
        if self.calendar is None:
            return None
        if self.until_ms is not None and not self._ends_unknown(self.until_ms):
            return None
        return self.calendar.newest.until_day

    def check_new(self, now_ms: int) -> None:
        """Refuse options that leave no tick, and a jitter so long that two ticks would overlap.

        A schedule that has ended is not refused, nor one whose calendar has: its job stays in its
        file.
        """
        if self.until_ms is not None and self.until_ms <= now_ms:
            return
        watermark_ms, first = self.start(now_ms)
        if first is None and self._ends_unknown(now_ms + DAY_SECONDS * 1_000):
            return
        if first is None:
            raise self._no_tick()
        jitter_ms = self.options.jitter_seconds * 1_000
        if not jitter_ms:
            return
        ticks = [first, *self.ticks(max(first, watermark_ms), 2**62, first, JUDGED_TICKS)]
        least_ms = min((b - a for a, b in pairwise(ticks)), default=jitter_ms + 1)
        if jitter_ms >= least_ms:
            facts = {"least": least_ms // 1_000, "got": self.options.jitter}
            raise Problem(Code.JITTER_TOO_LONG, "jitter", **facts)

    def _no_tick(self) -> Problem:
        """Return what leaves the schedule without a tick."""
        if self.window is not None:
            return Problem(Code.WINDOW_EMPTY, "window", got=self.options.window)
        if self.calendar is not None and self.calendar.name:
            until = date_of(self.calendar.newest.until_day).isoformat()
            name = self.calendar.name
            return Problem(Code.CALENDAR_LEAVES_NONE, "calendar", calendar=name, until=until)
        return Problem(Code.OPTIONS_LEAVE_NONE, "until" if self.options.until else "")

    def _ends_unknown(self, instant_ms: int) -> bool:
        """Whether the calendar's data end before an instant."""
        if self.calendar is None:
            return False
        day = (_EPOCH + instant_ms * _MILLISECOND).astimezone(self.zone).date()
        return date_of(self.calendar.newest.until_day) < day

    def _left_of_window(self, window: Window, tick_ms: int) -> int:
        """Return the time from a tick to the end of its window; clock changes lie between, too."""
        at = (_EPOCH + tick_ms * _MILLISECOND).astimezone(self.zone)
        left = window.seconds_left(at.hour * 3_600 + at.minute * 60 + at.second)
        shown = at.replace(tzinfo=None) + timedelta(seconds=left)
        end = shown.replace(tzinfo=self.zone, fold=at.fold) - _EPOCH
        return end // _MILLISECOND - tick_ms

    def _from(self, after_ms: int) -> int:
        return after_ms if self.begin_ms is None else max(after_ms, self.begin_ms - 1)

    def _until(self, until_ms: int) -> int:
        return until_ms if self.until_ms is None else min(until_ms, self.until_ms)

    def _unless_over(self, tick_ms: int | None) -> int | None:
        is_over = tick_ms is not None and self.until_ms is not None and tick_ms > self.until_ms
        return None if is_over else tick_ms


def _open_ranks(times: DayTimes, window: Window | None) -> Ranks:
    """Return the ranks of a day's times that are within a window."""
    if window is None:
        return ((0, len(times)),)
    spans = (
        (times.rank(start), len(times) if end >= DAY_SECONDS else times.rank(end))
        for start, end in window.spans()
    )
    return tuple((low, high) for low, high in spans if low < high)


def _whole_second(instant_ms: int) -> int:
    return -(-instant_ms // 1_000)

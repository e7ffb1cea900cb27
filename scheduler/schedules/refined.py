"""A schedule with options, behind the interface of a schedule without any."""

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Self
from zoneinfo import ZoneInfo

from warren.broker.reasons.codes import Reason, Why
from warren.scheduler.cron.expression import Cron, DayTimes, Pattern
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.nominal_days import MovedDays, NominalDays, OnHoliday
from warren.scheduler.schedules.options import DAY_SECONDS, ScheduleOptions, Window
from warren.scheduler.schedules.schedule import Ticks
from warren.scheduler.schedules.tick_days import (
    CalendarPlan,
    DayPlan,
    PlannedPattern,
    Ranks,
    WindowPlan,
    terms_of,
)
from warren.scheduler.schedules.working_days import Calendar, date_of

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
        """Return whether the schedule is over, or the data of its calendar end."""
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
        """Return the last day that its calendar knows, if the schedule goes on after it."""
        if self.calendar is None:
            return None
        if self.until_ms is not None and not self._ends_unknown(self.until_ms):
            return None
        return self.calendar.newest.until_day

    def check_new(self, now_ms: int) -> None:
        """Refuse options that leave no tick, and a jitter in which two ticks would meet.

        A schedule that is over is not refused, nor one with the data of its calendar: its job stays
        in its file.
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

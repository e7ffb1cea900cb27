"""A fixed rate of which only some ticks count: those within a window and on working days.

A tick that does not count is no tick; the rate keeps its phase.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from warren.scheduler.schedules.options import DAY_SECONDS, Window
from warren.scheduler.schedules.schedule import Ticks
from warren.scheduler.schedules.working_days import Calendar

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
#: Days that are looked through for the next tick.
SEARCHED_DAYS = 4_000
_REMEMBERED = 1_000
_WHOLE_DAY = ((0, DAY_SECONDS),)

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class OpenHours:
    """The instants that count, in epoch milliseconds, day by day of a time zone."""

    zone: ZoneInfo
    window: Window | None
    calendar: Calendar | None
    _known: dict[int, Spans] = field(default_factory=dict, repr=False)

    def day_of(self, instant_ms: int) -> int:
        """Return the day that the zone's clock shows at an instant."""
        at = _EPOCH + instant_ms * _MILLISECOND
        return (at.astimezone(self.zone).date() - _EPOCH.date()).days

    def midnight(self, day: int) -> int:
        """Return the instant at which a day begins."""
        return self._instant(day, 0)

    def on(self, day: int) -> Spans:
        """Return the instants of a day that count: spans from their first to before their second.

        Of a time of day that comes twice, both count.
        """
        spans = self._known.get(day)
        if spans is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            spans = self._known[day] = tuple(self._spans(day))
        return spans

    def last_day_from(self, day: int) -> int:
        """Return the last day worth a look from this one on, and that the calendar knows."""
        last = day + SEARCHED_DAYS
        if self.calendar is None:
            return last
        return min(last, max(version.until_day for version in self.calendar.versions))

    def _spans(self, day: int) -> Iterator[tuple[int, int]]:
        for start, end in self.window.spans() if self.window else _WHOLE_DAY:
            first, last = self._instant(day, start), self._instant(day, end, fold=1)
            yield from self._on_working_days(day, first, last)

    def _on_working_days(self, day: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a span in which the calendar's version in force lets them count."""
        if self.calendar is None:
            yield start, end
            return
        versions = self.calendar.versions
        for at, version in enumerate(versions):
            low = start if at == 0 else max(start, version.effective_ms)
            high = end if at + 1 == len(versions) else min(end, versions[at + 1].effective_ms)
            if low < high and day <= version.until_day and version.is_working(day):
                yield low, high

    def _instant(self, day: int, second: int, *, fold: int = 0) -> int:
        shown = datetime(1970, 1, 1) + timedelta(days=day, seconds=second)  # noqa: DTZ001 - below
        return (shown.replace(tzinfo=self.zone, fold=fold) - _EPOCH) // _MILLISECOND


@dataclass(frozen=True, slots=True, eq=False)
class OpenRate(Ticks):
    """The ticks of a fixed rate that are within open hours."""

    rate: Ticks
    hours: OpenHours

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Return the first tick after this instant."""
        day = self.hours.day_of(after_ms)
        last_day = self.hours.last_day_from(day)
        while day <= last_day:
            for start, end in self.hours.on(day):
                tick = self.rate.next_after(max(after_ms, start - 1), anchor_ms)
                if tick is not None and tick < end:
                    return tick
            # A long period has no tick on many days.
            tomorrow = self.hours.midnight(day + 1)
            following = self.rate.next_after(max(after_ms, tomorrow - 1), anchor_ms)
            day = max(day + 1, self.hours.day_of(tomorrow if following is None else following))
        return None

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Return the last tick of this span."""
        for day in range(self.hours.day_of(until_ms), self.hours.day_of(after_ms) - 1, -1):
            for start, end in reversed(self.hours.on(day)):
                since_ms, last_ms = max(after_ms, start - 1), min(until_ms, end - 1)
                tick = self.rate.last_until(since_ms, last_ms, anchor_ms)
                if tick is not None:
                    return tick
        return None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the ticks in this span."""
        return sum(
            self.rate.count(max(after_ms, start - 1), min(until_ms, end - 1), anchor_ms)
            for day in range(self.hours.day_of(after_ms), self.hours.day_of(until_ms) + 1)
            for start, end in self.hours.on(day)
        )

    def start(self, now_ms: int) -> tuple[int, int | None]:
        """Begin one period from now, with the first tick that counts."""
        watermark, first = self.rate.start(now_ms)
        return watermark, None if first is None else self.next_after(watermark, first)

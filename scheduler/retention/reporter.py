"""Keeps the day report: by day and app, how many runs are running, succeeded, or failed.

A day is counted in slices along the index of `trigger_time`. A slice whose runs are all over never
changes again and is counted once, so that a round costs what the last minutes and the open runs
cost, however many runs a day has. One scheduler at a time does it. Were there two, they would
write the same: counts are made anew, never added up from one round to the next.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from scheduler.retention.calendar_days import CalendarDays, days_between
from scheduler.retention.lease_holder import LeaseHolder
from sql.engine import Database
from sql.instants import at
from sql.models import DayReport
from sql.runs import day_reports
from sql.runs.day_reports import ByApp, Cleared, together

LEASE = "report"
#: How often a round looks whether it is time, and how often there is a count.
LOOK_SECONDS = 5.0
COUNT_MS = 10_000
#: Counting takes at most one part in this many of the time.
SPARING = 20
ROUND_SECONDS = 0.5
SLICE = timedelta(minutes=5)
#: A row may be written this long after it is due.
LATE = timedelta(minutes=2)
#: How far back days without a final report are looked for.
FARTHEST = timedelta(days=366)


@dataclass(slots=True)
class _Tally:
    """What is known of a day: its slices that cannot change any more, and their sums.

    `cleared` is what had been cleared of it when they were counted.
    """

    cleared: Cleared
    settled: set[datetime] = field(default_factory=set)
    sums: ByApp = field(default_factory=dict)

    def settle(self, start: datetime, counted: ByApp) -> None:
        """Keep what was counted of a slice for good."""
        self.settled.add(start)
        self.sums = together(self.sums, counted)


class Reporter:
    """The role that counts.

    Args:
        node: this scheduler's name.
        database: where everything is.
        timezone: whose days are meant.
        monotonic: measures how long a round takes, in seconds.
        round_seconds: no further day before today is begun in a round after so long.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        timezone: str,
        monotonic: Callable[[], float] = time.monotonic,
        round_seconds: float = ROUND_SECONDS,
    ) -> None:
        self._monotonic = monotonic
        self._round_seconds = round_seconds
        self._database = database
        self._lease = LeaseHolder(LEASE, node=node, database=database)
        self._days = CalendarDays(timezone)
        self._tallies: dict[date, _Tally] = {}
        self._counted_ms: dict[date, int] = {}
        self._next_ms = 0

    def tick(self, now_ms: int) -> float:
        """Count today and earlier days that are not settled; return the seconds to wait."""
        if not self._lease.take(now_ms):
            self._tallies.clear()
            self._counted_ms.clear()
            self._next_ms = 0
            return LOOK_SECONDS
        if 0 < self._next_ms - now_ms <= COUNT_MS * SPARING:
            return min((self._next_ms - now_ms) / 1000, LOOK_SECONDS)
        began = self._monotonic()
        is_all = self._count(now_ms)
        took_ms = (self._monotonic() - began) * 1000
        pause_ms = max(COUNT_MS if is_all else 0, int(took_ms * SPARING))
        self._next_ms = now_ms + min(pause_ms, COUNT_MS * SPARING)
        return min(pause_ms / 1000, LOOK_SECONDS)

    def leave(self) -> None:
        """Let another scheduler go on at once."""
        self._lease.release()

    def _count(self, now_ms: int) -> bool:
        """Count; False while there are days that were not counted yet."""
        now = at(now_ms)
        today = self._days.of(now)
        self._report(today, now)
        # Those that were never counted first, the newest of them before the others.
        waiting = sorted(
            self._unsettled(today),
            key=lambda day: (self._counted_ms.get(day, 0), -day.toordinal()),
        )
        give_up_at = self._monotonic() + self._round_seconds
        for number, day in enumerate(waiting):
            if number and self._monotonic() > give_up_at:
                break
            self._report(day, now)
            self._counted_ms[day] = now_ms
        kept = {today, *waiting}
        self._tallies = {day: tally for day, tally in self._tallies.items() if day in kept}
        return all(day in self._counted_ms for day in waiting)

    def _unsettled(self, today: date) -> Iterator[date]:
        """Give the days before today whose report is missing or may still change."""
        farthest, yesterday = today - FARTHEST, today - timedelta(days=1)
        start, end = self._days.start(farthest), self._days.start(today)
        first = self._database.read(lambda session: day_reports.first_due(session, start, end))
        rows = self._database.read(
            lambda session: day_reports.between(session, farthest, yesterday)
        )
        known = {row.day.date(): row for row in rows if row.day}
        oldest = min([self._days.of(first)] if first else [], default=today)
        for day in days_between(min(oldest, *known, today), yesterday):
            row = known.get(day)
            if row is None and day < oldest:
                continue
            if row is None or not self._is_settled(day, row):
                yield day

    def _is_settled(self, day: date, row: DayReport) -> bool:
        counted_at = row.update_time
        is_over = counted_at is not None and counted_at >= self._days.end(day) + LATE
        return is_over and not row.running

    def _report(self, day: date, now: datetime) -> None:
        cleared = self._database.read(lambda session: day_reports.cleared(session, day))
        tally = self._tallies.get(day)
        if tally is None or tally.cleared != cleared:
            tally = self._tallies[day] = _Tally(cleared)
        counted = self._sum(tally, day, now)
        is_stored = self._database.write(
            lambda session: day_reports.store(
                session, day, counted, already_cleared=cleared, at=now
            )
        )
        if not is_stored:
            del self._tallies[day]

    def _sum(self, tally: _Tally, day: date, now: datetime) -> ByApp:
        """Return the counts of a day, up to now; a stretch without runs is passed over."""
        unsettled: list[ByApp] = []
        start, end = self._days.start(day), self._days.end(day)
        empty_until, until = start, min(end, now + SLICE)
        while start < until:
            stop = min(start + SLICE, end)
            if start not in tally.settled:
                counted = {} if stop <= empty_until else self._count_slice(start, stop)
                if not counted and stop > empty_until:
                    empty_until = self._first_due(stop, end) or end
                if stop + LATE <= now and not any(one.running for one in counted.values()):
                    tally.settle(start, counted)
                else:
                    unsettled.append(counted)
            start = stop
        return together(tally.sums, *unsettled)

    def _count_slice(self, start: datetime, stop: datetime) -> ByApp:
        return self._database.read(lambda session: day_reports.count(session, start, stop))

    def _first_due(self, start: datetime, stop: datetime) -> datetime | None:
        return self._database.read(lambda session: day_reports.first_due(session, start, stop))

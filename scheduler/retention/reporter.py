"""Maintains the day report: how many runs of each day and app are running, succeeded or failed.

A day is counted in slices along the index on `trigger_time`. A slice whose runs are all final never
changes, so it is counted only once. The cost of a round depends on the last minutes and the open
runs, not on the size of the day. One scheduler at a time does this; two would do no harm, because
each stores complete counts and never adds to stored ones.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from warren.scheduler.retention.clearing import CalendarDays, days_between
from warren.sql.engine import Database
from warren.sql.instants import at
from warren.sql.models import DayReport
from warren.sql.registry.cluster import LeaseHolder
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import ByApp, Cleared, add_counts

LEASE = "report"
#: Longest wait between two rounds, and the time from one count to the next.
POLL_SECONDS = 5.0
COUNT_MS = 10_000
#: After a count, the role rests for this many times the count's duration.
WAIT_FACTOR = 20
ROUND_SECONDS = 0.5
SLICE, SECOND = timedelta(minutes=5), timedelta(seconds=1)
#: A run may be inserted this long after its due time.
INSERT_DELAY = timedelta(minutes=2)
#: How far back to search for days without a final report.
LOOK_BACK = timedelta(days=366)


@dataclass(slots=True)
class _DayTally:
    """The slices of a day that can no longer change, and the sum of their counts.

    `cleared` is how many of the day's runs had been deleted when the slices were counted.
    """

    cleared: Cleared
    settled: set[datetime] = field(default_factory=set)
    sums: ByApp = field(default_factory=dict)

    def settle(self, start: datetime, counted: ByApp) -> None:
        """Add the final counts of a slice."""
        self.settled.add(start)
        self.sums = add_counts(self.sums, counted)


class Reporter:
    """Counts runs by day and app while this scheduler holds the lease.

    Args:
        node: this scheduler's name.
        database: where runs and reports are stored.
        timezone: IANA name of the zone in which days are counted.
        monotonic: a clock in seconds that measures rounds.
        round_seconds: after this long, a round starts no other past day.

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
        self._tallies: dict[date, _DayTally] = {}
        self._counted_ms: dict[date, int] = {}
        self._counted_until_ms = 0
        self._next_ms = 0

    def run_round(self, now_ms: int) -> float:
        """Count today and earlier days that are not settled; return the seconds to wait."""
        if not self._lease.take(now_ms):
            self._tallies.clear()
            self._counted_ms.clear()
            self._next_ms = 0
            return POLL_SECONDS
        if 0 < self._next_ms - now_ms <= COUNT_MS * WAIT_FACTOR:
            return min((self._next_ms - now_ms) / 1000, POLL_SECONDS)
        began = self._monotonic()
        is_complete = self._count(now_ms)
        took_ms = (self._monotonic() - began) * 1000
        wait_ms = max(COUNT_MS if is_complete else 0, int(took_ms * WAIT_FACTOR))
        self._next_ms = now_ms + min(wait_ms, COUNT_MS * WAIT_FACTOR)
        return min(wait_ms / 1000, POLL_SECONDS)

    def leave(self) -> None:
        """Release the lease, so that another scheduler continues at once."""
        self._lease.release()

    def _count(self, now_ms: int) -> bool:
        """Count today and past days; return False while a day has never been counted."""
        if now_ms < self._counted_until_ms:
            # The clock was ahead: slices counted as final may still get runs.
            self._tallies.clear()
        self._counted_until_ms = now_ms
        now = at(now_ms)
        today = self._days.of(now)
        self._report(today, now)
        # Days that were never counted come first, the newest of them before the others.
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
        """Yield the days before today whose report is missing or may still change."""
        earliest, yesterday = today - LOOK_BACK, today - timedelta(days=1)
        start, end = self._days.start(earliest), self._days.start(today)
        first = self._database.read(lambda session: day_reports.first_due(session, start, end))
        rows = self._database.read(
            lambda session: day_reports.between(session, earliest, yesterday)
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
        is_over = counted_at is not None and counted_at >= self._days.end(day) + INSERT_DELAY
        return is_over and not row.running

    def _report(self, day: date, now: datetime) -> None:
        cleared = self._database.read(lambda session: day_reports.cleared(session, day))
        tally = self._tallies.get(day)
        if tally is None or tally.cleared != cleared:
            tally = self._tallies[day] = _DayTally(cleared)
        counted = self._sum(tally, day, now)
        is_stored = self._database.write(
            lambda session: day_reports.store(
                session, day, counted, already_cleared=cleared, at=now
            )
        )
        if not is_stored:
            del self._tallies[day]

    def _sum(self, tally: _DayTally, day: date, now: datetime) -> ByApp:
        """Return the counts of a day up to now; slices without runs are not queried."""
        unsettled: list[ByApp] = []
        start, end = self._days.start(day), self._days.end(day)
        # What is planned for later is not running yet.
        empty_until, until = start, min(end, now.replace(microsecond=0) + SECOND)
        while start < until:
            stop = min(start + SLICE, end)
            if start not in tally.settled:
                counted = {} if stop <= empty_until else self._count_slice(start, min(stop, until))
                if not counted and stop > empty_until:
                    empty_until = self._first_due(stop, end) or end
                if stop + INSERT_DELAY <= now and not any(
                    count.running for count in counted.values()
                ):
                    tally.settle(start, counted)
                else:
                    unsettled.append(counted)
            start = stop
        return add_counts(tally.sums, *unsettled)

    def _count_slice(self, start: datetime, stop: datetime) -> ByApp:
        return self._database.read(lambda session: day_reports.count(session, start, stop))

    def _first_due(self, start: datetime, stop: datetime) -> datetime | None:
        return self._database.read(lambda session: day_reports.first_due(session, start, stop))

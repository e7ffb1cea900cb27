"""What the wall clock of a time zone shows, and when; both in whole seconds.

A wall second that is skipped (spring) belongs to no instant. One that comes twice (autumn) belongs
to its second coming, as measured on Quartz, or to its first one. So every wall second belongs to at
most one instant, and a later wall second to a later instant.

                 T: clock set forward             T: clock set back
    instants   ────────┬────────────           ────────┬────────────
    wall       01:59:59│03:00:00               first 01:00-01:59 │ second 01:00-01:59
    fires             yes, none between        none, or all      │ all, or none
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from warren.resources.spelling import nearest
from warren.scheduler.problems import Code, Problem, echo

#: No zone has changed its offset twice within a day.
_SAMPLE_SECONDS = 86_400
_SECOND = timedelta(seconds=1)


def load_zone(name: str) -> ZoneInfo:
    """Return the IANA time zone of this name. Raises `Problem` if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        # A folder of the database, a path with `..`, a NUL and a name of 10 kB raise other errors.
        raise Problem(Code.TIMEZONE, got=echo(name)) from error


def check_zone(name: str) -> None:
    """Raise `Problem` unless there is a time zone of this name; it says which one is like it."""
    try:
        load_zone(name)
    except Problem as problem:
        if near := nearest(name, available_timezones()):
            raise Problem(Code.TIMEZONE_NEAR, got=echo(name), near=near) from problem
        raise


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of a clock at an instant; `before` and `after` are its offsets in seconds."""

    instant: int
    before: int
    after: int

    @property
    def is_gap(self) -> bool:
        """Whether the clock is set forward."""
        return self.after > self.before

    @property
    def walls(self) -> tuple[int, int]:
        """The wall seconds that are left out or come twice: the first, and the first after them."""
        first, last = sorted((self.before, self.after))
        return self.instant + first, self.instant + last


class WallClock:
    """The wall clock of one zone. Instants are epoch seconds.

    Args:
        zone: the zone.
        is_first: whether wall seconds that come twice belong to their first coming.

    """

    def __init__(self, zone: ZoneInfo, *, is_first: bool = False) -> None:
        self.zone = zone
        self.is_first = is_first

    def wall_from(self, instant: int) -> int:
        """Return the first wall second that may still fire at this instant or later."""
        shown = datetime.fromtimestamp(instant, self.zone)
        offset = _offset(shown)
        if self.is_first:
            if shown.fold:
                before = _offset(shown.replace(fold=0))
                return self._change(instant + offset - before, instant) + before
        elif not shown.fold:
            again = _offset(shown.replace(fold=1))
            if again < offset:
                return self._change(instant, instant + offset - again) + again
        return instant + offset

    def instant_of(self, wall: int) -> int | None:
        """Return the instant at which this wall second fires; None if the clock skips it."""
        before, after = self._offsets(wall)
        if after > before:
            return None
        return wall - (before if self.is_first else after)

    def gap_around(self, wall: int) -> tuple[int, int]:
        """Return the first skipped wall second, and the first after the skipped ones."""
        before, after = self._offsets(wall)
        change = self._change(wall - after, wall - before)
        return change + before, change + after

    def changes(self, start: int, end: int) -> Iterator[ClockChange]:
        """Yield the changes after `start` and not after `end`, in order."""
        before = self._offset_at(start)
        for first in range(start, end, _SAMPLE_SECONDS):
            last = min(first + _SAMPLE_SECONDS, end)
            after = self._offset_at(last)
            if after != before:
                yield ClockChange(self._change(first, last), before, after)
            before = after

    def _offsets(self, wall: int) -> tuple[int, int]:
        """Return the offsets before and after a change at this wall second; equal if none."""
        shown = datetime.fromtimestamp(wall, UTC).replace(tzinfo=self.zone)
        return _offset(shown), _offset(shown.replace(fold=1))

    def _offset_at(self, instant: int) -> int:
        return _offset(datetime.fromtimestamp(instant, self.zone))

    def _change(self, before: int, after: int) -> int:
        """Return the first instant with the offset of `after`, which differs from `before`'s."""
        old_offset = self._offset_at(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self._offset_at(middle) == old_offset:
                before = middle
            else:
                after = middle
        return after


def _offset(shown: datetime) -> int:
    return (shown.utcoffset() or timedelta()) // _SECOND

"""What the wall clock of a time zone shows, and when; both in whole seconds.

The rule, measured on Quartz: a wall second that is skipped (spring) never fires; one that comes
twice (autumn) fires the second time. So every wall second belongs to at most one instant, and a
later wall second to a later instant.

                 T: clock set forward             T: clock set back
    instants   ────────┬────────────           ────────┬────────────
    wall       01:59:59│03:00:00               first 01:00-01:59 │ second 01:00-01:59
    fires             yes, none between        none              │ all
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from warren.scheduler.cron.cron_fields import echo
from warren.scheduler.problems import Code, Problem

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


class WallClock:
    """The wall clock of one zone. Instants are epoch seconds."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone

    def wall_from(self, instant: int) -> int:
        """Return the first wall second that may still fire at this instant or later."""
        shown = datetime.fromtimestamp(instant, self.zone)
        offset = _offset(shown)
        if not shown.fold:
            again = _offset(shown.replace(fold=1))
            if again < offset:
                return self._change(instant, instant + offset - again) + again
        return instant + offset

    def instant_of(self, wall: int) -> int | None:
        """Return the instant at which this wall second fires; None if the clock skips it."""
        before, after = self._offsets(wall)
        return wall - after if after <= before else None

    def gap_around(self, wall: int) -> tuple[int, int]:
        """Return the first skipped wall second, and the first after the skipped ones."""
        before, after = self._offsets(wall)
        change = self._change(wall - after, wall - before)
        return change + before, change + after

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Return the skipped wall seconds between two instants, as `gap_around` does."""
        for first in range(start, end, _SAMPLE_SECONDS):
            last = min(first + _SAMPLE_SECONDS, end)
            before, after = self._offset_at(first), self._offset_at(last)
            if after > before:
                change = self._change(first, last)
                yield change + before, change + after

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

"""When a job is due: one value for what its row says, whatever the kind of schedule.

Instants are epoch milliseconds, as in the job's row. The *anchor* is any one tick of the job, in
practice its stored next time: it gives FIX_RATE its phase and FIX_DELAY its only tick; CRON and AT
need none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol

from scheduler.cron import Cron
from scheduler.cron_fields import echo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SECONDS = re.compile(r"0{0,9}[1-9][0-9]{0,8}")


class ScheduleKind(StrEnum):
    """What sets a job's ticks."""

    NONE = "NONE"
    CRON = "CRON"
    FIX_RATE = "FIX_RATE"
    FIX_DELAY = "FIX_DELAY"
    AT = "AT"


class _Ticks(Protocol):
    """The ticks of one kind; the contract is that of `Schedule`."""

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None: ...

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None: ...

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """The ticks of one job. Three questions, asked of one fixed set of instants."""

    kind: ScheduleKind
    conf: str
    timezone: str
    _ticks: _Ticks = field(repr=False, compare=False)

    @staticmethod
    def parse(kind: str, conf: str, timezone: str) -> "Schedule":
        """Read a row's kind, configuration and IANA time zone (which only CRON looks at).

        `conf` is the expression (CRON), whole seconds from 1 (FIX_RATE, FIX_DELAY), an ISO 8601
        instant with its offset (AT), or unused (NONE). Raises `ValueError` in one line.
        """
        if kind not in _READERS:
            raise ValueError(
                f"expected schedule kind to be one of {', '.join(ScheduleKind)}, got: {echo(kind)}"
            )
        known = ScheduleKind(kind)
        return Schedule(known, conf, timezone, _READERS[known](conf, timezone))

    @property
    def waits_for_completion(self) -> bool:
        """Whether the end of a run sets the next tick, so that no next tick is no end."""
        return self.kind is ScheduleKind.FIX_DELAY

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        """Give the first tick after this instant.

        None = never again; for FIX_DELAY: not before a run has ended.
        """
        return self._ticks.next_after(after_ms, anchor_ms)

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        """Give the last tick after `after_ms` and not after `until_ms`."""
        return self._ticks.last_until(after_ms, until_ms, anchor_ms)

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        """Count the ticks after `after_ms` and not after `until_ms`; cheap for long spans."""
        return self._ticks.count(after_ms, until_ms, anchor_ms)

    def ticks(self, after_ms: int, until_ms: int, anchor_ms: int, limit: int) -> list[int]:
        """List the first `limit` ticks after `after_ms` and not after `until_ms`."""
        found: list[int] = []
        while len(found) < limit:
            tick = self.next_after(found[-1] if found else after_ms, anchor_ms)
            if tick is None or tick > until_ms:
                break
            found.append(tick)
        return found

    def after_completion(self, finished_ms: int) -> int | None:
        """Give the tick that the end of a run sets: FIX_DELAY's next one, None for all others."""
        return finished_ms + _period_ms(self.conf) if self.waits_for_completion else None


@dataclass(frozen=True, slots=True)
class _CronTicks:
    cron: Cron

    def next_after(self, after_ms: int, _anchor_ms: int) -> int | None:
        return self.cron.next_after(after_ms)

    def last_until(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int | None:
        return self.cron.last_until(after_ms, until_ms)

    def count(self, after_ms: int, until_ms: int, _anchor_ms: int) -> int:
        return self.cron.count(after_ms, until_ms)


@dataclass(frozen=True, slots=True)
class _RateTicks:
    """anchor + n * period, for every whole n."""

    period_ms: int

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        return anchor_ms + (self._rank(after_ms, anchor_ms) + 1) * self.period_ms

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        last = anchor_ms + self._rank(until_ms, anchor_ms) * self.period_ms
        return last if last > after_ms else None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        return max(0, self._rank(until_ms, anchor_ms) - self._rank(after_ms, anchor_ms))

    def _rank(self, instant_ms: int, anchor_ms: int) -> int:
        return (instant_ms - anchor_ms) // self.period_ms


@dataclass(frozen=True, slots=True)
class _OneTick:
    """One tick: at a fixed instant, or, where there is none, at the anchor."""

    at_ms: int | None

    def next_after(self, after_ms: int, anchor_ms: int) -> int | None:
        at_ms = anchor_ms if self.at_ms is None else self.at_ms
        return at_ms if at_ms > after_ms else None

    def last_until(self, after_ms: int, until_ms: int, anchor_ms: int) -> int | None:
        at_ms = self.next_after(after_ms, anchor_ms)
        return at_ms if at_ms is not None and at_ms <= until_ms else None

    def count(self, after_ms: int, until_ms: int, anchor_ms: int) -> int:
        return 0 if self.last_until(after_ms, until_ms, anchor_ms) is None else 1


@dataclass(frozen=True, slots=True)
class _NoTicks:
    def next_after(self, _after_ms: int, _anchor_ms: int) -> int | None:
        return None

    def last_until(self, _after_ms: int, _until_ms: int, _anchor_ms: int) -> int | None:
        return None

    def count(self, _after_ms: int, _until_ms: int, _anchor_ms: int) -> int:
        return 0


def _period_ms(conf: str) -> int:
    if not _SECONDS.fullmatch(conf):
        raise ValueError(f"expected period to be 1-999999999 whole seconds, got: {echo(conf)}")
    return int(conf) * 1_000


def _read_delay(conf: str, _timezone: str) -> _Ticks:
    _period_ms(conf)
    return _OneTick(None)


def _read_at(conf: str, _timezone: str) -> _Ticks:
    try:
        at = datetime.fromisoformat(conf)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(
            f"expected at to be an ISO 8601 instant with its offset, got: {echo(conf)}"
        )
    return _OneTick((at - _EPOCH) // _MILLISECOND)


_READERS: dict[str, Callable[[str, str], _Ticks]] = {
    ScheduleKind.NONE: lambda _conf, _timezone: _NoTicks(),
    ScheduleKind.CRON: lambda conf, timezone: _CronTicks(Cron.parse(conf, timezone)),
    ScheduleKind.FIX_RATE: lambda conf, _timezone: _RateTicks(_period_ms(conf)),
    ScheduleKind.FIX_DELAY: _read_delay,
    ScheduleKind.AT: _read_at,
}

"""Lays out the runs of a row as bars and its due times as marks, for a template to draw.

A row is WIDTH units wide, whatever the window; it contains no text, so a page may stretch it. Short
runs that would overlap become one bar with their number.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warren.sql.jobs.skips import SkipLine
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.timeline.job_spans import TROUBLE, SpanRun

WIDTH = 2_400
#: Shorter runs that begin within this distance become one bar.
STEP = 10
#: A bar shows as late a run that starts more than this after its due time.
SHOWN_LATE_MS = 10_000
#: A bar of several runs shows the state with the highest value.
_GRAVITY = {
    **dict.fromkeys(TROUBLE, 3),
    **dict.fromkeys(OPEN, 2),
    RunStatus.SUCCEEDED: 1,
    RunStatus.SKIPPED: 0,
    RunStatus.CANCELLED: 0,
}


@dataclass(frozen=True, slots=True)
class Window:
    """The period on the page: [from, until), and the current time."""

    from_ms: int
    until_ms: int
    now_ms: int

    def place(self, instant_ms: int) -> int:
        """Return the position of a time, clamped to 0..WIDTH."""
        length = self.until_ms - self.from_ms
        inside = min(max(instant_ms, self.from_ms), self.until_ms) - self.from_ms
        return inside * WIDTH // length

    @property
    def now_at(self) -> int | None:
        """The position of the current time; None if it is outside the window."""
        return self.place(self.now_ms) if self.from_ms <= self.now_ms < self.until_ms else None


@dataclass(frozen=True, slots=True)
class Span:
    """When a run waited and worked; unknown times are filled in."""

    run: SpanRun
    due_ms: int
    start_ms: int
    end_ms: int

    @property
    def is_late(self) -> bool:
        """Whether it started long after it was due."""
        return self.start_ms - self.due_ms > SHOWN_LATE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One run, or several short ones; `lane` 1 = it overlaps an earlier run of its row.

    `run_id` and `status` are those of the worst run, `states` counts the runs by status.
    """

    run_id: int
    status: RunStatus
    states: Counter[RunStatus]
    due_ms: int
    from_ms: int
    until_ms: int
    x: int
    width: int
    lane: int = 0
    #: The time from due to start.
    wait_x: int = 0
    wait_width: int = 0
    is_late: bool = False

    @property
    def count(self) -> int:
        """How many runs it shows."""
        return self.states.total()

    @property
    def usual(self) -> RunStatus:
        """The status of most of its runs."""
        return max(self.states, key=lambda status: self.states[status])

    @property
    def worst_share(self) -> float:
        """The share of its runs with the worst status."""
        return self.states[self.status] / self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Skipped due times of a row, and where they are drawn."""

    skip: SkipLine
    x: int
    width: int


def skipped(skips: Iterable[SkipLine], window: Window) -> list[Skipped]:
    """Return the skips of a row from left to right."""
    bars = []
    for skip in sorted(skips, key=lambda skip: skip.from_at):
        first, last = window.place(skip.from_at), window.place(skip.to_at)
        bars.append(Skipped(skip=skip, x=min(first, WIDTH - STEP), width=max(last - first, STEP)))
    return bars


def span(run: SpanRun, now_ms: int) -> Span:
    """Return when a run waited and worked; unfinished ones last until now."""
    is_open = run.status in OPEN
    began = run.started_at or (now_ms if is_open else run.finished_at) or run.due_at
    ended = run.finished_at or (now_ms if is_open else began)
    return Span(run, run.due_at, max(began, run.due_at), max(ended, began))


def overlapping(spans: Sequence[Span]) -> set[int]:
    """Return the ids of a job's runs that began before a run of an earlier tick was over."""
    ids: set[int] = set()
    latest: Span | None = None
    for single in sorted(spans, key=lambda each: (each.start_ms, each.run.id)):
        is_later = latest is not None and single.run.scheduled_at != latest.run.scheduled_at
        if latest is not None and is_later and single.start_ms < latest.end_ms:
            ids.add(single.run.id)
        if latest is None or single.end_ms > latest.end_ms:
            latest = single
    return ids


def draw(spans: Iterable[Span], window: Window, lower: set[int]) -> list[Bar]:
    """Return the bars of a row from left to right; the runs in `lower` go into lane 1."""
    bars: list[Bar] = []
    for single in sorted(spans, key=lambda each: (each.start_ms, each.run.id)):
        if single.end_ms < window.from_ms or single.due_ms >= window.until_ms:
            continue
        fresh = _bar(single, window, int(single.run.id in lower))
        if bars and _are_one(bars[-1], fresh):
            bars[-1] = _merged(bars[-1], fresh)
        else:
            bars.append(fresh)
    return bars


def _bar(single: Span, window: Window, lane: int) -> Bar:
    due, start, end = (window.place(at) for at in (single.due_ms, single.start_ms, single.end_ms))
    return Bar(
        run_id=single.run.id,
        status=RunStatus(single.run.status),
        states=Counter([RunStatus(single.run.status)]),
        due_ms=single.due_ms,
        from_ms=single.start_ms,
        until_ms=single.end_ms,
        x=min(start, WIDTH - STEP),
        width=max(end - start, STEP),
        lane=lane,
        wait_x=due,
        wait_width=start - due,
        is_late=single.is_late,
    )


def _are_one(last: Bar, fresh: Bar) -> bool:
    is_short = last.width <= STEP and fresh.width <= STEP
    return is_short and fresh.x < last.x + STEP and last.lane == fresh.lane


def _merged(last: Bar, fresh: Bar) -> Bar:
    worst = max(last, fresh, key=lambda bar: _GRAVITY[bar.status])
    return Bar(
        run_id=worst.run_id,
        status=worst.status,
        states=last.states + fresh.states,
        due_ms=min(last.due_ms, fresh.due_ms),
        from_ms=last.from_ms,
        until_ms=max(last.until_ms, fresh.until_ms),
        x=last.x,
        width=STEP,
        lane=last.lane,
        is_late=last.is_late or fresh.is_late,
    )

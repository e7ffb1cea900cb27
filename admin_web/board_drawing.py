"""Where the marks of the board's drawings stand: strips of due times, the day, the next hour.

Pure geometry, in pixels and in percent of the width; templates write it as SVG.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from warren.sql.instants import HOUR_MS, MINUTE_MS

#: A strip's due times at most, the distance and width of their bars, and its base line.
STRIP_LENGTH, STEP, BAR, BASE = 30, 7, 5, 16
#: The tallest bars above and below the base line, and the shortest.
ABOVE, BELOW, SHORTEST = 14.0, 12.0, 2.5


class Mark(StrEnum):
    """What a due time looks like; the names are classes of the style sheet."""

    GOOD = "good"
    BAD = "bad"
    #: Lost with its executor.
    LOST = "lost"
    SKIPPED = "skipped"
    #: Killed or refused: it decided nothing.
    NONE = "none"
    WAITING = "waiting"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Point:
    """A due time in a strip: what became of it, how long it took, and how many it stands for."""

    mark: Mark
    took_ms: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Strip:
    """The last due times of a job: SVG path data for each mark that it has, and how many ended how.

    One path for all due times with a mark, as a page has thousands of them.
    """

    paths: Mapping[Mark, str]
    succeeded: int
    failed: int
    skipped: int
    is_running: bool


def strip(points: Sequence[Point]) -> Strip:
    """Draw the last due times; the height of a bar is its duration beside the longest one."""
    shown = points[-STRIP_LENGTH:]
    longest = max((point.took_ms for point in shown), default=0) or 1
    first = STRIP_LENGTH - len(shown)
    paths = dict.fromkeys([point.mark for point in shown], "")
    for place, point in enumerate(shown):
        tenths = round(10 * point.took_ms / longest)
        paths[point.mark] += _shape(point.mark, (first + place) * STEP, tenths)
    return Strip(
        paths=paths,
        succeeded=sum(point.mark is Mark.GOOD for point in shown),
        failed=sum(point.mark in {Mark.BAD, Mark.LOST} for point in shown),
        skipped=sum(point.count for point in shown if point.mark is Mark.SKIPPED),
        is_running=Mark.RUNNING in paths,
    )


@cache
def _shape(mark: Mark, x: int, tenths: int) -> str:
    """Return the path of a mark at `x`, with so many tenths of the greatest height."""
    if mark is Mark.LOST:
        return f"M{x} 19l5 5m0-5l-5 5"
    if mark is Mark.BAD:
        return f"M{x} {BASE + 0.5}h{BAR}v{max(SHORTEST, tenths * BELOW / 10):.3g}h-{BAR}z"
    if mark in {Mark.GOOD, Mark.RUNNING}:
        height = max(SHORTEST, tenths * ABOVE / 10)
        return f"M{x} {BASE - 0.5 - height:.3g}h{BAR}v{height:.3g}h-{BAR}z"
    if mark is Mark.SKIPPED:
        return f"M{x} {BASE}a2.3 2.3 0 1 0 4.6 0a2.3 2.3 0 1 0-4.6 0"
    if mark is Mark.WAITING:
        return f"M{x + BAR / 2} 7v9"
    return f"M{x + 0.5} {BASE}h4"


#: The day's columns: a quarter of an hour each, of the last day and the next hour.
QUARTER_MS = 15 * MINUTE_MS
PAST, AHEAD = 96, 4
COLUMNS = PAST + AHEAD
#: The heights in pixels of the tallest columns above and below the base line.
DAY_ABOVE, DAY_BELOW = 44, 30
#: Lanes of bars with words above the columns, the top of the first and their distance.
LANES, LANE_TOP, LANE_STEP = 5, 6, 19
#: How much of the width a character of a label takes, in percent, on a page of usual width.
_CHARACTER = 0.56


@dataclass(frozen=True, slots=True)
class Quarter:
    """Runs that were due in a quarter of an hour."""

    at: int
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A quarter: its place in percent, and the heights of its two halves in pixels."""

    quarter: Quarter
    x: float
    above: float
    below: float


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted: `until_at` None = it still does."""

    since_at: int
    until_at: int | None
    label: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A span by its place in a sequence: where its bar and label are, in percent and pixels."""

    place: int
    x: float
    width: float
    y: int
    #: Whether the label stands before the bar, as there is more room.
    is_label_before: bool


@dataclass(frozen=True, slots=True)
class Day:
    """The last 24 hours and the next one; `base` is how far down its base line is, in pixels."""

    base: int
    from_at: int
    now_x: float
    columns: Sequence[Column]
    ahead: Sequence[Column]
    spans: Sequence[Placed]
    #: Full hours that are marked, and where.
    hours: Sequence[tuple[int, float]]


def day(
    past: Iterable[Quarter],
    ahead: Iterable[Quarter],
    spans: Sequence[Span],
    *,
    now_ms: int,
    hours: Iterable[int],
) -> Day:
    """Draw a day; `ahead` counts due times to come as successes, `hours` are marked at the foot."""
    from_at = now_ms - PAST * QUARTER_MS
    end_at = now_ms + AHEAD * QUARTER_MS

    def x(at_ms: int) -> float:
        inside = min(max(at_ms, from_at), end_at)
        return round((inside - from_at) * 100 / (end_at - from_at), 3)

    before, after = list(past), list(ahead)
    most = max((one.succeeded for one in (*before, *after)), default=0) or 1
    worst = max((one.failed for one in before), default=0) or 1

    def columns(quarters: Sequence[Quarter]) -> list[Column]:
        return [
            Column(
                quarter=one,
                x=x(one.at),
                above=_height(one.succeeded, most, DAY_ABOVE),
                below=_height(one.failed, max(worst, most // 4), DAY_BELOW),
            )
            for one in quarters
            if from_at - QUARTER_MS < one.at < end_at
        ]

    placed = _placed(spans, x, now_ms)
    lanes = max((one.y + LANE_STEP for one in placed), default=LANE_TOP)
    return Day(
        base=lanes + DAY_ABOVE + 4,
        from_at=from_at,
        now_x=x(now_ms),
        columns=columns(before),
        ahead=columns(after),
        spans=placed,
        hours=[(hour, x(hour)) for hour in hours if from_at + HOUR_MS <= hour <= now_ms],
    )


def _height(count: int, most: int, tallest: int) -> float:
    return round(max(2.0, count * tallest / most), 1) if count else 0.0


def _placed(spans: Sequence[Span], x: Callable[[int], float], now_ms: int) -> list[Placed]:
    """Give each span the first lane where neither bar nor label meets another's; else none."""
    taken: list[list[tuple[float, float]]] = [[] for _ in range(LANES)]
    placed: list[Placed] = []
    for place, span in enumerate(spans):
        left, right = x(span.since_at), x(span.until_at or now_ms)
        right = max(right, left + 0.6)
        words = len(span.label) * _CHARACTER + 1
        is_before = left >= words
        reach = (left - words, right) if is_before else (left, right + words)
        for lane, others in enumerate(taken):
            if all(reach[1] <= start or reach[0] >= end for start, end in others):
                others.append(reach)
                y = LANE_TOP + lane * LANE_STEP
                placed.append(Placed(place, left, round(right - left, 3), y, is_before))
                break
    return placed


#: A pool's height in pixels, and of the line that shows its slots where nothing is above it.
POOL_HEIGHT, ROOM_LINE = 38, 26
#: Minutes that share a bar.
POOL_MINUTES = 2


@dataclass(frozen=True, slots=True)
class PoolBar:
    """Runs that are expected to run or wait in a few minutes, in percent and pixels."""

    x: float
    width: float
    height: float
    is_over: bool


@dataclass(frozen=True, slots=True)
class Pool:
    """An app in the next hour; `room` is the height of its slots."""

    bars: Sequence[PoolBar]
    room: float


def pool(running: Sequence[float], waiting: Sequence[float], slots: int) -> Pool:
    """Draw what is expected to run and to wait in each minute against the slots."""
    wanted = [run + wait for run, wait in zip(running, waiting, strict=True)]
    parts = [
        max(wanted[first : first + POOL_MINUTES]) for first in range(0, len(wanted), POOL_MINUTES)
    ]
    tallest = max([*parts, slots * POOL_HEIGHT / ROOM_LINE, 1])
    width = 100 / len(parts) if parts else 100
    bars = [
        PoolBar(
            x=round(place * width, 2),
            width=round(width * 0.9, 2),
            height=round(number * POOL_HEIGHT / tallest, 1),
            is_over=number > slots,
        )
        for place, number in enumerate(parts)
        if number
    ]
    return Pool(bars=bars, room=round(slots * POOL_HEIGHT / tallest, 1))

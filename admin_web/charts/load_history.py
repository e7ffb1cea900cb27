"""The load of executors over the last hour and day, as lines for a template to draw."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy.orm import Session

from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.registry import executor_loads
from warren.sql.registry.executor_loads import LoadPoint

#: Width and height of a chart, and the time of a point in the chart of a day: the highest value.
WIDTH, HEIGHT, STEP_MS = 720, 100, 10 * MINUTE_MS
#: More than this many steps without a value make a gap in the line: the executor was silent.
GAP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadChart:
    """One period; each line is an SVG path, in percent from the bottom."""

    hours: int
    since_ms: int
    slots: str
    cpu: str
    memory: str
    most_running: int
    most_waiting: int
    most_cpu: int
    most_memory: int
    points: int


def last_hour(session: Session, executor_ids: Collection[int], now_ms: int) -> dict[int, str]:
    """Return, by executor, a path that shows the share of busy slots over the last hour."""
    since_ms = now_ms - HOUR_MS
    points = executor_loads.since(session, executor_ids, since_ms)
    return {
        executor_id: _path([(one.minute_at, _share(one)) for one in mine], since_ms, HOUR_MS, 1)
        for executor_id, mine in groupby(points, key=lambda one: one.executor_id)
    }


def charts(session: Session, executor_id: int, now_ms: int) -> list[LoadChart]:
    """Return the last hour and the last day of an executor."""
    points = executor_loads.since(session, [executor_id], now_ms - DAY_MS)
    return [
        _chart(points, now_ms, HOUR_MS, 1),
        _chart(points, now_ms, DAY_MS, STEP_MS // MINUTE_MS),
    ]


def _chart(points: Sequence[LoadPoint], now_ms: int, length_ms: int, minutes: int) -> LoadChart:
    since_ms = now_ms - length_ms
    mine = [one for one in points if one.minute_at >= since_ms]

    def line(values: Sequence[int]) -> str:
        placed = [(one.minute_at, value) for one, value in zip(mine, values, strict=True)]
        return _path(placed, since_ms, length_ms, minutes)

    return LoadChart(
        hours=length_ms // HOUR_MS,
        since_ms=since_ms,
        slots=line([_share(one) for one in mine]),
        cpu=line([one.cpu_percent for one in mine]),
        memory=line([one.memory_percent for one in mine]),
        most_running=max((one.running for one in mine), default=0),
        most_waiting=max((one.waiting for one in mine), default=0),
        most_cpu=max((one.cpu_percent for one in mine), default=0),
        most_memory=max((one.memory_percent for one in mine), default=0),
        points=len(mine),
    )


def _share(point: LoadPoint) -> int:
    return round(100 * point.running / point.slots) if point.slots else 0


def _path(values: Sequence[tuple[int, int]], since_ms: int, length_ms: int, minutes: int) -> str:
    """Return a path through the highest value of each step, with gaps where values are missing."""
    step_ms = minutes * MINUTE_MS
    steps: dict[int, int] = {}
    for at_ms, value in values:
        step = (at_ms - since_ms) // step_ms
        steps[step] = max(steps.get(step, 0), value)
    path, last = "", None
    for step, value in sorted(steps.items()):
        x = min(WIDTH, round(step * step_ms * WIDTH / length_ms))
        is_new = last is None or step - last > GAP
        # A single point is drawn as a short line, so that it can be seen.
        path += f"{'M' if is_new else 'L'}{x} {HEIGHT - min(value, 100)}{'h2' if is_new else ''}"
        last = step
    return path

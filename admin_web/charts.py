"""What charts show: a job's days as a heat map, an executor's load, and runs per day."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import groupby, pairwise
from zoneinfo import ZoneInfo

from flask_babel import lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict
from wtforms import Form, SelectField
from wtforms.validators import Optional

from warren.admin_web.forms.console_form import DayField, select_choices
from warren.scheduler.retention.clearing import days_between
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.listings.timeline import DayOutcomes, outcomes_of_days
from warren.sql.registry import presence
from warren.sql.registry.presence import LoadPoint
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts

DAYS = 90
#: The side of a square, and the distance between two squares' left edges, in pixels.
SIDE, STEP = 13, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """One day; the lowest `failed_height` pixels of its square show failures."""

    day: date
    since_ms: int
    until_ms: int
    x: int
    y: int
    outcomes: DayOutcomes
    side: int = SIDE

    @property
    def failed_height(self) -> int:
        """The height of the failures in pixels, at least 4 if there are any."""
        total, failed = self.outcomes.total, self.outcomes.failed
        return max(4, round(SIDE * failed / total)) if failed else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The squares, and the first days of months with their x."""

    width: int
    height: int
    squares: list[Square]
    months: list[tuple[int, date]]

    @property
    def has_runs(self) -> bool:
        """Whether there are any runs."""
        return any(square.outcomes.total for square in self.squares)

    @property
    def is_all(self) -> bool:
        """Whether every run was counted."""
        return all(square.outcomes.is_all for square in self.squares)

    @property
    def bad_days(self) -> list[Square]:
        """The days with failures, latest first."""
        return [square for square in reversed(self.squares) if square.outcomes.failed]


def heat_map(session: Session, job_id: int, *, now_ms: int, zone: str) -> HeatMap:
    """Return the last days of a job in a time zone; the last one is today."""
    today = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone)).date()
    days = [today - timedelta(days=back) for back in range(DAYS - 1, -2, -1)]
    midnights = [datetime.combine(day, time(), ZoneInfo(zone)) for day in days]
    bounds = [int(midnight.timestamp() * 1000) for midnight in midnights]
    outcomes = outcomes_of_days(session, job_id, bounds)
    shift = days[0].weekday()
    squares = [
        Square(
            day=day,
            since_ms=since,
            until_ms=until,
            x=(number + shift) // 7 * STEP,
            y=(number + shift) % 7 * STEP + STEP,
            outcomes=of_day,
        )
        for number, (day, (since, until), of_day) in enumerate(
            zip(days, pairwise(bounds), outcomes, strict=False)
        )
    ]
    return HeatMap(
        width=squares[-1].x + SIDE,
        height=8 * STEP - STEP + SIDE,
        squares=squares,
        months=[(square.x, square.day) for square in squares if square.day.day == 1],
    )


#: Width and height of a chart, and the time of a point in the chart of a day: the highest value.
WIDTH, HEIGHT, STEP_MS = 720, 100, 10 * MINUTE_MS
#: A line has a gap where more steps than this have no value: the executor was silent.
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
    points = presence.loads_since(session, executor_ids, since_ms)
    return {
        executor_id: _path(
            [(point.minute_at, _share(point)) for point in mine], since_ms, HOUR_MS, 1
        )
        for executor_id, mine in groupby(points, key=lambda point: point.executor_id)
    }


def load_charts(session: Session, executor_id: int, now_ms: int) -> list[LoadChart]:
    """Return the last hour and the last day of an executor."""
    points = presence.loads_since(session, [executor_id], now_ms - DAY_MS)
    return [
        _chart(points, now_ms, HOUR_MS, 1),
        _chart(points, now_ms, DAY_MS, STEP_MS // MINUTE_MS),
    ]


def _chart(points: Sequence[LoadPoint], now_ms: int, length_ms: int, minutes: int) -> LoadChart:
    since_ms = now_ms - length_ms
    mine = [point for point in points if point.minute_at >= since_ms]

    def line(values: Sequence[int]) -> str:
        placed = [(point.minute_at, value) for point, value in zip(mine, values, strict=True)]
        return _path(placed, since_ms, length_ms, minutes)

    return LoadChart(
        hours=length_ms // HOUR_MS,
        since_ms=since_ms,
        slots=line([_share(point) for point in mine]),
        cpu=line([point.cpu_percent for point in mine]),
        memory=line([point.memory_percent for point in mine]),
        most_running=max((point.running for point in mine), default=0),
        most_waiting=max((point.waiting for point in mine), default=0),
        most_cpu=max((point.cpu_percent for point in mine), default=0),
        most_memory=max((point.memory_percent for point in mine), default=0),
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


#: The most days in a range.
MAX_DAYS = 366
CUSTOM = "custom"
#: The number of days, ending today, by the value in the URL.
RANGES = {"1": 1, "7": 7, "30": 30}
DEFAULT_RANGE = "7"


@dataclass(frozen=True, slots=True)
class Day:
    day: date
    succeeded: int = 0
    failed: int = 0
    open: int = 0
    skipped: int = 0

    @property
    def runs(self) -> int:
        """All of them."""
        return self.succeeded + self.failed + self.open + self.skipped


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a ring: its length and where it begins, in percent of the ring."""

    tone: str
    length: float
    start: float


class RangeForm(Form):
    """Asks for a range of days."""

    range = SelectField(
        lazy_gettext("Days"),
        choices=select_choices(
            [
                ("1", lazy_gettext("Today")),
                ("7", lazy_gettext("7 days")),
                ("30", lazy_gettext("30 days")),
                (CUSTOM, lazy_gettext("Custom")),
            ]
        ),
        default=DEFAULT_RANGE,
    )
    since = DayField(lazy_gettext("From date"), [Optional()])
    until = DayField(lazy_gettext("To date"), [Optional()])

    def days(self, today: date) -> tuple[date, date] | None:
        """Return the first and last day, or None and show errors if they are not a valid range."""
        if not self.validate():
            return None
        if self.range.data != CUSTOM:
            length = RANGES[self.range.data]
            return today - timedelta(days=length - 1), today
        last = self.until.data or today
        first = self.since.data or last
        if first > last:
            self.since.errors = [lazy_gettext("The start date is after the end date.")]
            return None
        if (last - first).days >= MAX_DAYS:
            self.since.errors = [lazy_gettext("Choose at most 366 days.")]
            return None
        return first, last


@dataclass(frozen=True, slots=True)
class DayChart:
    """The form and its days; no days if the form is invalid."""

    form: RangeForm
    days: list[Day]

    @property
    def totals(self) -> Day | None:
        """The sums over all days; None if there are no runs."""
        if not any(day.runs for day in self.days):
            return None
        return Day(
            self.days[-1].day,
            sum(day.succeeded for day in self.days),
            sum(day.failed for day in self.days),
            sum(day.open for day in self.days),
            sum(day.skipped for day in self.days),
        )

    @property
    def ring(self) -> list[Slice]:
        """The shares of the outcomes, as consecutive slices."""
        totals = self.totals
        if totals is None:
            return []
        numbers = {"good": totals.succeeded, "bad": totals.failed, "busy": totals.open}
        numbers |= {"skip": totals.skipped}
        whole, start, slices = sum(numbers.values()), 0.0, []
        for tone, number in numbers.items():
            length = round(100 * number / whole, 2)
            slices.append(Slice(tone, length, start))
            start += length
        return slices


def day_chart(
    session: Session, asked: MultiDict[str, str], today: date, app_ids: Collection[int] | None
) -> DayChart:
    """Return the days for a URL's parameters; a day without a report has no runs."""
    form = RangeForm(asked if "range" in asked else None)
    wanted = form.days(today)
    if wanted is None:
        return DayChart(form, [])
    known = day_reports.of_days(session, app_ids, *wanted)
    return DayChart(form, [_day(day, known.get(day, Counts())) for day in days_between(*wanted)])


def _day(day: date, counts: Counts) -> Day:
    return Day(day, counts.succeeded, counts.failed, counts.running, counts.skipped)

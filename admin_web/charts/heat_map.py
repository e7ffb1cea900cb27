"""The last 90 days of a job as squares, one column per week, for a template to draw."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from warren.sql.timeline import job_days
from warren.sql.timeline.job_days import DayOutcomes

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


def read(session: Session, job_id: int, *, now_ms: int, zone: str) -> HeatMap:
    """Return the last days of a job in a time zone; the last one is today."""
    today = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone)).date()
    days = [today - timedelta(days=back) for back in range(DAYS - 1, -2, -1)]
    bounds = [_start_ms(day, zone) for day in days]
    outcomes = job_days.of_days(session, job_id, bounds)
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


def _start_ms(day: date, zone: str) -> int:
    return int(datetime.combine(day, time(), ZoneInfo(zone)).timestamp() * 1000)

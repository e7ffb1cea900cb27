"""How long the next tick of a schedule with all options takes.

    python -m benchmarks.schedule_ticks

The calendar has ten years of China's holidays and a version in the middle of the year.
"""

import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

import holidays

from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import Calendar, CalendarVersion, day_of

YEARS = range(2017, 2028)
YEAR_MS = 365 * 86_400_000
ASKED = 5_000
OPTIONS = {
    "calendar": "cn",
    "window": "08:00-20:00",
    "jitter": "2m",
    "from": "2020-01-01",
    "until": "2027-06-30",
}
SCHEDULES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("CRON", "0 30 18 * * ?", {"gap": "run_after"}),
    ("CRON", "0 30 18 L * ?", {"on_holiday": "previous", "gap": "run_after"}),
    ("CRON", "0 30 18 1 * ?", {"on_holiday": "next", "gap": "run_after"}),
    ("CRON", "0 0/5 * * * ?", {"gap": "run_after"}),
    ("UNIX_CRON", "30 18 * * 1-5", {}),
    ("UNIX_CRON", "*/5 * * * *", {}),
    ("WORKDAY", "-1 18:30", {}),
    ("FIX_RATE", "300", {}),
)


def calendar() -> Calendar:
    """Return the calendar."""
    listed = holidays.country_holidays("CN", years=YEARS)
    days = {day_of(day): listed.is_working_day(day) for day in listed}
    days |= {day_of(day): True for day in listed.weekend_workdays}
    facts = {"weekend": frozenset({5, 6}), "days": days, "until_day": day_of(date(2027, 12, 31))}
    changed = int(datetime(2026, 7, 1, tzinfo=UTC).timestamp() * 1_000)
    versions = (
        CalendarVersion(number=1, **facts),
        CalendarVersion(number=2, effective_ms=changed, **facts),
    )
    return Calendar("cn", versions)


@dataclass(frozen=True, slots=True)
class Taken:
    """Microseconds: the median, and what nine of ten are below."""

    median: float
    p90: float


def measure() -> Iterator[tuple[str, str, Taken]]:
    """Yield kind and value of each schedule, and how long its next tick takes."""
    chance, known = random.Random(7), {"cn": calendar()}
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000)
    for kind, value, more in SCHEDULES:
        stored = ScheduleOptions.of(OPTIONS | dict(more)).to_json() or ""
        ticks = read_schedule(ScheduleFacts(kind, value, "Asia/Shanghai", stored), known)
        taken = []
        for _ in range(ASKED):
            after = start + chance.randrange(YEAR_MS)
            began = time.perf_counter()
            ticks.next_after(after, start)
            taken.append((time.perf_counter() - began) * 1e6)
        yield kind, value, Taken(statistics.median(taken), sorted(taken)[ASKED * 9 // 10])


def main() -> None:
    """Print the median and the slowest tenth of each kind, in microseconds."""
    for kind, value, found in measure():
        print(f"{kind:10} {value:16} median {found.median:6.1f} µs, p90 {found.p90:6.1f} µs")


if __name__ == "__main__":
    main()

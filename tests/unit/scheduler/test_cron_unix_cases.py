"""Every row of a table of what a cron daemon fires around changes of the clock."""

import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts, Ticks

#: Made from the daemon's rule for minutes and hours that begin with `*` and for fixed times, with
#: the clocks of ten time zones in 2021, as a past year stays as it is: what fires from one instant
#: to before another, in UTC.
CASES = Path(__file__).parents[2] / "data" / "unix_cron_cases.tsv"
MINUTE_MS = 60_000


def rows() -> list[dict[str, str]]:
    with CASES.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def schedule_of(row: dict[str, str]) -> Ticks:
    stored = ScheduleOptions(rule=2).to_json() or ""
    return read_schedule(ScheduleFacts("UNIX_CRON", row["expression"], row["timezone"], stored))


def span_of(row: dict[str, str]) -> tuple[int, int]:
    """Return the instants after and until which the fires of a row are."""
    begin, end = (int(datetime.fromisoformat(row[key]).timestamp()) for key in ("from", "until"))
    return begin * 1_000 - 1, end * 1_000 - 1


def fires_of(row: dict[str, str]) -> list[int]:
    month = row["from"][:8]
    texts = [text for text in row["fires_utc"].split(",") if text]
    return [int(datetime.fromisoformat(f"{month}{text}Z").timestamp()) * 1_000 for text in texts]


def backwards(ticks: Ticks, after_ms: int, until_ms: int) -> Iterator[int]:
    while (last := ticks.last_until(after_ms, until_ms, 0)) is not None:
        yield last
        until_ms = last - 1


def name(row: dict[str, str]) -> str:
    return f"{row['timezone']} {row['from']} {row['expression']}"


def test_table_is_whole() -> None:
    assert len(rows()) == 313


def test_what_fires_is_what_the_daemon_fires() -> None:
    got = {name(row): schedule_of(row).ticks(*span_of(row), 0, 1_000) for row in rows()}

    expected = {name(row): fires_of(row) for row in rows()}
    assert {row: ticks for row, ticks in got.items() if ticks != expected[row]} == {}


def test_looking_back_and_counting_find_the_same_fires() -> None:
    wrong = []
    for row in rows():
        ticks, (after_ms, until_ms), fires = schedule_of(row), span_of(row), fires_of(row)
        if [*backwards(ticks, after_ms, until_ms)] != fires[::-1]:
            wrong.append(f"{name(row)}: last")
        # A span that begins or ends at any half hour.
        for at_ms in range(after_ms, until_ms, 30 * MINUTE_MS):
            before = sum(fire <= at_ms for fire in fires)
            if ticks.count(after_ms, at_ms, 0) != before:
                wrong.append(f"{name(row)}: count until {at_ms}")
            if ticks.count(at_ms, until_ms, 0) != len(fires) - before:
                wrong.append(f"{name(row)}: count after {at_ms}")

    assert wrong == []

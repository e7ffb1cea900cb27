"""Jobs are listed in each order on every database, a page at a time, and each of them once."""

from collections.abc import Iterator

import pytest

from tests.support.stored_rows import Rows
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.listings import job_search
from warren.sql.listings.job_search import JobFilter, Order
from warren.sql.models import JobState

NOW = 1_800_000_000_000


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


def listed(rows: Rows, order: Order) -> list[str]:
    """Return the names of all jobs, read in pages of two."""
    names: list[str] = []
    after: str | None = None
    while True:
        wanted = JobFilter(order=order, after=after, limit=2)
        page = rows.database.read(
            lambda session, wanted=wanted: job_search.search(session, wanted, now_ms=NOW)
        )
        names += [job.name for job in page]
        if len(page) < 2:
            return names
        after = job_search.place(page[-1], order)


def test_jobs_are_ranked_by_how_they_are_doing(rows: Rows) -> None:
    states = {
        # newest due time, duration, usual duration now and a week ago, time between due times
        "slower": (NOW - 3, 40_000, 40_000, 10_000, DAY_MS),
        "busy": (NOW - 1, 30_000, 60_000, 60_000, 100_000),
        "long": (NOW - 2, 90_000, 90_000, 0, HOUR_MS),
        "new": (NOW - 4, 1, 0, 0, HOUR_MS),
    }
    for name, (newest_at, took, usual, week, period) in states.items():
        job_id = rows.job(name, is_enabled=1, last_tick_at=NOW, next_tick_at=NOW + period)
        state = JobState(job_id=job_id, trouble=9, newest_at=newest_at, took_ms=took)
        state.usual_ms, state.week_ms = usual, week
        rows.database.write(lambda session, state=state: session.add(state))
    rows.job("never")

    assert listed(rows, Order.ENDED) == ["busy", "long", "slower", "new", "never"]
    assert listed(rows, Order.TOOK) == ["long", "slower", "busy", "new", "never"]
    assert listed(rows, Order.CHANGE) == ["slower", "busy", "long", "new", "never"]
    assert listed(rows, Order.SHARE) == ["busy", "long", "slower", "new", "never"]

"""Once a minute, the load that executors told is kept; after a week it goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.support.stored_rows import Rows
from warren.scheduler.membership.registration import KEPT_MS, LoadRecorder
from warren.sql.engine import Database
from warren.sql.instants import MINUTE_MS
from warren.sql.models import ExecutorLoad

NOW_MS = 1_800_000_000_000
LOAD = '{"slots": 8, "running": 3, "waiting": 2, "cpu_percent": 41.6, "memory_percent": 63}'


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    rows = Rows(f"sqlite:///{tmp_path}/load.db")
    yield rows
    rows.database.close()


def recorded(database: Database) -> list[tuple[int, ...]]:
    """Return what was kept, by time."""
    columns = (ExecutorLoad.minute_at, ExecutorLoad.running, ExecutorLoad.cpu_percent)
    found = select(*columns).order_by(ExecutorLoad.minute_at, ExecutorLoad.executor_id)
    return database.read(lambda session: [tuple(row) for row in session.execute(found)])


def test_each_minute_is_kept_once_for_each_online_executor(rows: Rows) -> None:
    rows.executor("fit", NOW_MS - 1_000, LOAD)
    rows.executor("silent", NOW_MS - 60_000, LOAD)
    rows.executor("odd", NOW_MS, '{"slots": "many", "running": null}')
    rows.executor("broken", NOW_MS, "no json")
    recorder, other = LoadRecorder(rows.database), LoadRecorder(rows.database)

    for seconds in (0, 5, 10):
        recorder.run_round(NOW_MS + seconds * 1_000)
        other.run_round(NOW_MS + seconds * 1_000)

    assert recorded(rows.database) == [(NOW_MS, 3, 42)]


def test_the_next_minute_is_a_row_of_its_own(rows: Rows) -> None:
    recorder = LoadRecorder(rows.database)
    for minute in range(2):
        now_ms = NOW_MS + minute * MINUTE_MS
        rows.executor(f"fit-{minute}", now_ms, LOAD)
        recorder.run_round(now_ms + 3_000)

    assert [row[0] for row in recorded(rows.database)] == [NOW_MS, NOW_MS + MINUTE_MS]


def test_figures_that_no_column_holds_are_the_nearest_that_one_does(rows: Rows) -> None:
    rows.executor("wild", NOW_MS, '{"slots": 1, "running": -5, "cpu_percent": 1e12}')

    LoadRecorder(rows.database).run_round(NOW_MS)

    assert recorded(rows.database) == [(NOW_MS, 0, 32_767)]


def test_a_week_later_it_is_gone(rows: Rows) -> None:
    rows.executor("fit", NOW_MS, LOAD)
    LoadRecorder(rows.database).run_round(NOW_MS)

    LoadRecorder(rows.database).run_round(NOW_MS + KEPT_MS + 2 * MINUTE_MS)

    assert recorded(rows.database) == []

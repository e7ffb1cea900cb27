"""What is open is looked at every few seconds: jobs that wait or run for long, and events."""

from typing import Any

import pytest
from sqlalchemy import select, update

from tests.support.stored_rows import Rows
from warren.scheduler.board import history
from warren.scheduler.board.history import DueTime
from warren.scheduler.board.keeper import BoardKeeper
from warren.sql.board import job_states
from warren.sql.board.job_states import Trouble
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.models import BoardEvent, Hold, JobError, JobState, Limit, Pause, Registration, Run
from warren.sql.run_status import RunStatus

NOW = 1_800_000_000_000


@pytest.fixture
def rows(any_schema_url: str) -> Any:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def keeper(rows: Rows) -> BoardKeeper:
    keeper = BoardKeeper(node="one", database=rows.database)
    look(keeper, NOW - HOUR_MS)
    return keeper


def look(keeper: BoardKeeper, now_ms: int) -> None:
    while keeper.run_round(now_ms) < 1:
        pass


def write(rows: Rows, *made: Any) -> None:
    rows.database.write(lambda session: session.add_all(made))


def state(rows: Rows, job_id: int) -> dict[str, Any]:
    return rows.database.read(lambda session: job_states.rows(session, [job_id]))[job_id]


def events(rows: Rows) -> list[tuple[str, str, int | None, int]]:
    found = rows.database.read(
        lambda s: list(s.execute(select(BoardEvent).order_by(BoardEvent.id)).scalars())
    )
    return [(event.kind, event.subject, event.until_at, event.runs) for event in found]


def test_a_job_waits_while_a_run_is_overdue(rows: Rows, keeper: BoardKeeper) -> None:
    job_id = rows.job("copy")
    job_states_row(rows, job_id)
    run_id = rows.run(job_id, NOW - 5 * MINUTE_MS)

    look(keeper, NOW)

    waiting = state(rows, job_id)
    assert (waiting["trouble"], waiting["waiting_count"]) == (Trouble.WAITING, 1)
    assert waiting["waiting_since"] == NOW - 5 * MINUTE_MS

    change(rows, run_id, status="RUNNING", started_at=NOW)
    look(keeper, NOW + 10_000)

    started = state(rows, job_id)
    assert (started["trouble"], started["waiting_count"]) == (Trouble.NONE, 0)


def test_a_job_that_has_never_run_waits_too(rows: Rows, keeper: BoardKeeper) -> None:
    job_id = rows.job("new")
    rows.run(job_id, NOW - 5 * MINUTE_MS)

    look(keeper, NOW)

    assert (state(rows, job_id)["trouble"], state(rows, job_id)["waiting_count"]) == (
        Trouble.WAITING,
        1,
    )


def test_a_job_runs_for_long_by_its_usual_duration(rows: Rows, keeper: BoardKeeper) -> None:
    job_id = rows.job("load")
    job_states_row(rows, job_id, usual_ms=MINUTE_MS)
    rows.run(job_id, NOW, status="RUNNING", started_at=NOW)

    look(keeper, NOW + MINUTE_MS)
    assert state(rows, job_id)["trouble"] == Trouble.NONE
    look(keeper, NOW + 3 * MINUTE_MS)

    assert (state(rows, job_id)["trouble"], state(rows, job_id)["long_since"]) == (
        Trouble.LONG,
        NOW,
    )


def test_a_job_that_takes_longer_than_a_week_ago_is_slow(rows: Rows, keeper: BoardKeeper) -> None:
    job_id = rows.job("snapshot")
    kept = history.of(
        DueTime(at=NOW - n * HOUR_MS, status=RunStatus.SUCCEEDED, took_ms=400_000, run_id=n)
        for n in range(9, 0, -1)
    )
    usual_ms = kept.summary().usual_ms
    job_states_row(rows, job_id, usual_ms=usual_ms, strip=history.to_text(kept))
    for number in range(8, 14):
        at_ms = NOW - number * DAY_MS
        rows.run(job_id, at_ms, status="SUCCEEDED", started_at=at_ms, finished_at=at_ms + 100_000)
    failed_at = NOW - 8 * DAY_MS + HOUR_MS
    rows.run(job_id, failed_at, status="FAILED", started_at=failed_at, finished_at=failed_at)

    look(keeper, NOW)

    compared = state(rows, job_id)
    assert (compared["week_ms"], compared["trouble"]) == (100_000, Trouble.SLOW)


def test_a_week_ago_needs_as_many_successes_as_what_is_usual(
    rows: Rows, keeper: BoardKeeper
) -> None:
    job_id = rows.job("snapshot")
    job_states_row(rows, job_id, usual_ms=MINUTE_MS)
    for number in (8, 9, 10, 11, 15, 16, 17):
        at_ms = NOW - number * DAY_MS
        rows.run(job_id, at_ms, status="SUCCEEDED", started_at=at_ms, finished_at=at_ms + 1_000)

    look(keeper, NOW)

    assert state(rows, job_id)["week_ms"] == 0


def test_an_executor_is_gone_until_it_is_back(rows: Rows, keeper: BoardKeeper) -> None:
    rows.app("reports")
    write(
        rows,
        Registration(
            kind="EXECUTOR", app="reports", address="one", boot_id="b", boot_at=1, beat_at=NOW
        ),
    )
    job_id = rows.job("load")
    rows.run(job_id, NOW, status="LOST", address="one")
    look(keeper, NOW)
    assert events(rows) == []

    look(keeper, NOW + 2 * MINUTE_MS)
    assert events(rows) == [("EXECUTOR_GONE", "one", None, 1)]
    beat = update(Registration).values(beat_at=NOW + 3 * MINUTE_MS)
    rows.database.write(lambda session: session.execute(beat))
    look(keeper, NOW + 3 * MINUTE_MS)

    assert events(rows) == [("EXECUTOR_GONE", "one", NOW + 3 * MINUTE_MS, 1)]


def test_a_limit_is_full_while_runs_wait_for_it(rows: Rows, keeper: BoardKeeper) -> None:
    job_id = rows.job("copy", limits="warehouse:2")
    rows.run(job_id, NOW - 5 * MINUTE_MS)
    write(rows, Limit(id=7, name="warehouse", at_once=2), Hold(limit_id=7, run_id=1, weight=2))

    look(keeper, NOW)

    assert events(rows) == [("LIMIT_FULL", "warehouse", None, 1)]


def test_pauses_and_outages_are_events(rows: Rows, keeper: BoardKeeper) -> None:
    app_id = rows.app("mail")
    write(rows, Pause(app_id=app_id, since_at=NOW, until_at=None, paused_by="ops", reason="move"))
    for number in range(5):
        job_id = rows.job(f"job-{number}", "mail")
        error = JobError(job_id=job_id, error_key="k", error_text="refused", run_id=1)
        error.since_at, error.last_at, error.due_times = NOW, NOW + MINUTE_MS, 2
        write(rows, error)

    look(keeper, NOW + 2 * MINUTE_MS)

    assert events(rows) == [
        ("OUTAGE", "refused", NOW + MINUTE_MS, 5),
        ("PAUSE", "ops: move", None, 0),
    ]


def job_states_row(rows: Rows, job_id: int, **columns: Any) -> None:
    write(rows, JobState(job_id=job_id, trouble=Trouble.NONE.value, **columns))


def change(rows: Rows, run_id: int, **columns: Any) -> None:
    statement = update(Run).where(Run.id == run_id).values(**columns)
    rows.database.write(lambda session: session.execute(statement))

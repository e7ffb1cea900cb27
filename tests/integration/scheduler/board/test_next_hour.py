"""The outlook is made from schedules, usual durations, slots and limits, and stored by app."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.stored_rows import Rows
from warren.scheduler.board import next_hour
from warren.sql.instants import HOUR_MS, MINUTE_MS
from warren.sql.models import JobState, Limit, Outlook, Pause, Registration

NOW = 1_800_000_000_000 - 1_800_000_000_000 % HOUR_MS
EVERY_QUARTER = {"schedule_kind": "UNIX_CRON", "schedule_value": "*/15 * * * *", "timezone": "UTC"}


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


def executor(rows: Rows, slots: int) -> None:
    rows.app("reports")
    row = Registration(kind="EXECUTOR", app="reports", address="one", boot_id="b", boot_at=1)
    row.beat_at, row.load = NOW, json.dumps({"slots": slots})
    rows.database.write(lambda session: session.add(row))


def job(rows: Rows, name: str, usual_ms: int, **columns: Any) -> int:
    next_at = NOW + 15 * MINUTE_MS
    job_id = rows.job(name, is_enabled=1, next_tick_at=next_at, **EVERY_QUARTER, **columns)
    state = JobState(job_id=job_id, trouble=9, usual_ms=usual_ms)
    rows.database.write(lambda session: session.add(state))
    return job_id


def outlook(rows: Rows, **most: int) -> dict[str, Any]:
    rows.database.write(lambda session: next_hour.make(session, timezone="UTC", now_ms=NOW, **most))
    [text] = rows.database.read(lambda s: s.execute(select(Outlook.content)).scalars().all())
    found: dict[str, Any] = json.loads(text)
    return found


def test_what_fits_is_not_late(rows: Rows) -> None:
    executor(rows, slots=2)
    for name in ("one", "two"):
        job(rows, name, 90_000)

    found = outlook(rows)

    assert (found["slots"], found["due"], found["late_count"]) == (2, 8, 0)
    assert [found["minutes"][minute] for minute in (14, 15, 16, 17)] == [0, 2, 2, 0]
    assert found["waiting"] == [0] * 60
    assert found["quarters"] == [0, 2, 2, 2]


def test_a_minute_shows_the_most_that_run_at_once_and_not_all_that_run_in_it(rows: Rows) -> None:
    executor(rows, slots=2)
    rows.job(
        "often",
        is_enabled=1,
        next_tick_at=NOW + 1_000,
        schedule_kind="FIX_RATE",
        schedule_value="2",
        timezone="UTC",
    )

    found = outlook(rows)

    assert (found["due"], found["late_count"], found["is_cut"]) == (1_800, 0, False)
    assert found["minutes"] == [1] * 60


def test_an_outlook_that_does_not_look_at_everything_says_so(rows: Rows) -> None:
    executor(rows, slots=2)
    job(rows, "one", 90_000)

    assert outlook(rows, most=3)["is_cut"]


def test_what_finds_no_slot_starts_when_one_is_free(rows: Rows) -> None:
    executor(rows, slots=1)
    job(rows, "one", 2 * MINUTE_MS)
    second = job(rows, "two", MINUTE_MS)

    found = outlook(rows)

    first = found["late"][0]
    assert found["late_count"] == 3  # the last one is due at the end of the hour
    assert (found["latest_ms"], found["stays_late"]) == (2 * MINUTE_MS, False)
    assert first == {
        "job_id": second,
        "due_at": NOW + 15 * MINUTE_MS,
        "starts_at": NOW + 17 * MINUTE_MS,
        "waits_for": "slot",
    }
    assert [found["waiting"][minute] for minute in (14, 15, 16, 17)] == [0, 1, 1, 0]


def test_a_limit_holds_back_what_is_due(rows: Rows) -> None:
    executor(rows, slots=9)
    for name in ("one", "two"):
        job(rows, name, MINUTE_MS, limits="warehouse")
    limit = Limit(name="warehouse", at_once=1)
    rows.database.write(lambda session: session.add(limit))

    assert outlook(rows)["late"][0]["waits_for"] == "limit warehouse"


@pytest.mark.parametrize("is_of_all", [False, True], ids=["app", "cluster"])
@pytest.mark.parametrize("has_end", [False, True], ids=["open", "for a while"])
def test_what_a_pause_holds_starts_neither_in_time_nor_late(
    rows: Rows, *, is_of_all: bool, has_end: bool
) -> None:
    executor(rows, slots=9)
    rows.run(job(rows, "one", MINUTE_MS), NOW - MINUTE_MS)
    app_id = 0 if is_of_all else rows.app("reports")
    until_at = NOW + 31 * MINUTE_MS if has_end else None
    pause = Pause(app_id=app_id, since_at=NOW, until_at=until_at, paused_by="ops", reason="")
    rows.database.write(lambda session: session.add(pause))

    found = outlook(rows)

    due = 2 if has_end else 0
    assert (found["due"], found["held"], found["late_count"]) == (due, 5 - due, 0)
    assert found["quarters"] == [0, 0, 0, int(has_end)]


def test_a_pause_does_not_hold_what_was_sent_before(rows: Rows) -> None:
    executor(rows, slots=9)
    rows.run(rows.job("one", is_enabled=0), NOW - MINUTE_MS, status="SENT")
    pause = Pause(app_id=0, since_at=NOW, until_at=None, paused_by="ops", reason="")
    rows.database.write(lambda session: session.add(pause))

    assert (outlook(rows)["due"], outlook(rows)["held"]) == (1, 0)


def test_what_waits_for_an_executor_is_late_without_an_end(rows: Rows) -> None:
    waiting = job(rows, "one", MINUTE_MS)
    rows.run(waiting, NOW - MINUTE_MS)

    found = outlook(rows)

    first = found["late"][0]
    assert (first["due_at"], first["starts_at"]) == (NOW - MINUTE_MS, None)
    assert (found["latest_ms"], found["stays_late"]) == (61 * MINUTE_MS, True)

"""Backfills by the API: made once for a key, previewed, listed with their due times, cancelled."""

import pytest

from tests.support.api import Program
from tests.support.console import Clock
from tests.support.stored_rows import Rows
from warren.sql.jobs.history import SkipFilter, skip_lines

NIGHTLY = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "timezone": "UTC"}
PATH = "/jobs/reports/daily/backfills"
WEEK = {"from": "2026-03-01", "to": "2026-03-07"}
SECOND_MS = 1_772_416_800_000  # 2026-03-02 02:00


@pytest.fixture
def job_id(rows: Rows) -> int:
    return rows.job("daily", **NIGHTLY)


def test_a_backfill_is_made_once_for_a_key(admin: Program, job_id: int) -> None:
    key = {"Idempotency-Key": "march-1"}

    first = admin.post(PATH, WEEK | {"at_once": 3}, headers=key)
    again = admin.post(PATH, WEEK | {"at_once": 3}, headers=key)
    other = admin.post(PATH, WEEK, headers=key)

    made = first.get_json()
    assert first.status_code == 201, first.text
    assert (made["app"], made["job"], made["state"]) == ("reports", "daily", "OPEN")
    assert (made["due_times"], made["to_come"], made["at_once"]) == (7, 7, 3)
    assert len(made["notices"]) == 1
    assert first.headers["Location"].endswith(f"/backfills/{made['id']}")
    assert again.get_json()["id"] == made["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert other.status_code == 422
    assert len(admin.get("/backfills?going=true&job=reports/daily").get_json()["items"]) == 1


def test_its_due_times_come_in_pages(admin: Program, rows: Rows, job_id: int) -> None:
    made = admin.post(PATH, WEEK | {"newest_first": True}).get_json()
    path = f"/backfills/{made['id']}/due_times?limit=4"

    first = admin.get(path).get_json()
    rest = admin.get(f"{path}&cursor={first['next']}").get_json()

    days = [tick["run_date"][-2:] for tick in first["items"] + rest["items"]]
    assert days == ["07", "06", "05", "04", "03", "02", "01"]
    assert rest["next"] is None
    assert first["items"][0] == {
        "number": 1,
        "scheduled_at": "2026-03-07T02:00:00.000+00:00",
        "run_date": "2026-03-07",
        "state": "TO_COME",
        "run_id": None,
    }


def test_a_preview_makes_nothing(admin: Program, rows: Rows, job_id: int) -> None:
    rows.run(job_id, SECOND_MS, status="FAILED")

    answer = admin.post(f"{PATH}:preview", WEEK | {"only": "failed"}).get_json()

    assert [tick["run_date"] for tick in answer["due_times"] if tick["runs"]] == ["2026-03-02"]
    assert admin.get("/backfills").get_json()["items"] == []


def test_skips_are_filled_by_their_ids(
    admin: Program, rows: Rows, clock: Clock, job_id: int
) -> None:
    rows.skip(job_id, SECOND_MS, SECOND_MS + 86_400_000, count=2, reason="misfired")
    rows.skip(rows.job("other"), SECOND_MS, count=1, reason="misfired")
    skips = rows.database.read(lambda session: skip_lines(session, SkipFilter()))
    own, others = (
        [skip.id for skip in skips if (skip.job == "daily") is is_own] for is_own in (True, False)
    )

    made = admin.post(PATH, {"skips": own}).get_json()
    wrong = admin.post(PATH, {"skips": others})

    assert (made["due_times"], made["from_date"]) == (2, None)
    assert wrong.status_code == 422
    assert "expected skips of job daily" in wrong.text


def test_it_is_paused_resumed_and_cancelled(admin: Program, job_id: int) -> None:
    made = admin.post(PATH, WEEK).get_json()
    path = f"/backfills/{made['id']}"

    states = [
        admin.post(f"{path}/{verb}", None).get_json()["state"] for verb in ("pause", "resume")
    ]
    cancelled = admin.post(f"{path}/cancel", {"kill": True}).get_json()

    assert states == ["PAUSED", "OPEN"]
    assert (cancelled["state"], cancelled["left_out"], cancelled["to_come"]) == ("CANCELLED", 7, 0)
    assert cancelled["killed"] == 0
    assert admin.post(f"{path}/resume", None).status_code == 409
    assert admin.get("/backfills/999").status_code == 404


def test_what_is_wrong_is_told_with_its_place(admin: Program, job_id: int) -> None:
    wrong = {
        "/from": WEEK | {"from": "2026-03-09"},
        "/to": {"from": "2026-03-01"},
        "/at_once": WEEK | {"at_once": 0},
        "/only": WEEK | {"only": "some"},
        "/key": WEEK | {"key": "two words"},
    }

    places = {
        place: admin.post(PATH, body).get_json()["errors"][0]["pointer"]
        for place, body in wrong.items()
    }

    assert places == {place: place for place in wrong}


def test_all_that_is_wrong_with_a_backfill_is_told_at_once(admin: Program, job_id: int) -> None:
    unreadable = admin.post(PATH, {"from": "x", "to": "20260307", "at_once": 1_000})
    broken = admin.post(
        PATH, {"from": "2026-03-07", "to": "2026-03-01", "key": "a b", "at_once": 0}
    )

    places = [
        [each["pointer"] for each in said.get_json()["errors"]] for said in (unreadable, broken)
    ]
    assert places == [["/from", "/to", "/at_once"], ["/at_once", "/key", "/from"]]

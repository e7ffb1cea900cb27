"""Clearing by hand: who may clear what, one at a time, in the background, on record."""

import threading
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import func, select

from tests.support.acting import NamedUsers
from tests.support.console import Clock, Visit, signed_in
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren.scheduler.commands.bulk_commands import ClearingCommands
from warren.scheduler.retention.clearing import ClearingCriteria
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.models import AuditEntry, Purge, Run

DAY_MS = 86_400_000
SURE = {"is_sure": "y"}


def fill(rows: Rows, clock: Clock) -> dict[str, int]:
    """Make jobs of two apps, each with a run of each age and an open one."""
    jobs = {name: rows.job(name, app) for name, app in (("mine", "reports"), ("theirs", "mails"))}
    for app, job_id in zip(("reports", "mails"), jobs.values(), strict=True):
        for days in (1, 40, 100, 200, 400):
            rows.run(job_id, clock.now - days * DAY_MS, app, status="SUCCEEDED")
        rows.run(job_id, clock.now - 500 * DAY_MS, app, status="RUNNING")
    return jobs


def left(rows: Rows, job_id: int) -> int:
    counted = select(func.count()).select_from(Run).where(Run.job_id == job_id)
    return int(rows.database.read(lambda session: session.execute(counted).scalar_one()))


def wait_done(visit: Visit) -> str:
    """Return the page once no clearing is at work."""
    return eventually(
        lambda: (page := visit.get("/runs/clear").text) and 'data-live="1"' not in page and page
    )


class Slow:
    """Stands where clearing does: goes on when it is let, step by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, end: Exception | None = None) -> None:
        self.go_on = threading.Semaphore(0)
        self.steps = 0

        def clear(
            _commands: ClearingCommands,
            _wish: ClearingCriteria,
            *,
            on_progress: Callable[[int], None],
        ) -> int:
            while self.go_on.acquire(timeout=60):
                if end is not None:
                    raise end
                self.steps += 1
                on_progress(self.steps * 1_000)
            return 0

        monkeypatch.setattr(ClearingCommands, "clear", clear)


@pytest.mark.parametrize(("choice", "kept"), [(2, 3), (5, 6), (9, 1)], ids=str)
def test_each_choice_clears_what_it_says_and_never_an_open_run(
    admin: Visit, rows: Rows, clock: Clock, choice: int, kept: int
) -> None:
    jobs = fill(rows, clock)

    answer = admin.post("/runs/clear/start", {"choice": str(choice), "job": "mine", **SURE})

    assert answer.location == "/runs/clear"
    wait_done(admin)
    assert left(rows, jobs["mine"]) == kept
    assert left(rows, jobs["theirs"]) == 6


def test_it_is_on_record_who_cleared_and_how_much(app: Flask, rows: Rows, clock: Clock) -> None:
    fill(rows, clock)
    operator = signed_in(app, "operator")

    operator.post("/runs/clear/start", {"choice": "9", "app": "reports", **SURE})

    page = wait_done(operator)
    assert "done" in page
    assert "5 runs" in page
    entry = rows.database.read(
        lambda session: session.execute(
            select(AuditEntry).where(AuditEntry.action == "run.clear")
        ).scalar_one()
    )
    assert entry.who == "operator"
    purged = rows.database.read(lambda session: session.execute(select(Purge)).scalar_one())
    assert (purged.purged_by, purged.count) == ("operator", 5)
    assert "cleared runs" in signed_in(app, "admin").get("/audit").text


def test_an_operator_clears_own_apps_only(app: Flask, rows: Rows, clock: Clock) -> None:
    jobs = fill(rows, clock)
    gone = rows.run(777, clock.now - DAY_MS, "reports", status="SUCCEEDED")
    operator = signed_in(app, "operator")

    for whose, words in (
        ({}, "Choose one of your apps"),
        ({"app": "mails"}, "field-error"),
        ({"job": "theirs"}, "Job not found."),
        ({"job": "mails/theirs"}, "Job not found."),
        ({"job": str(jobs["theirs"])}, "Job not found."),
        ({"job": "777"}, "Job not found."),
    ):
        answer = operator.post("/runs/clear/start", {"choice": "9", **SURE, **whose})

        assert answer.status_code == 422, whose
        assert words in answer.text, whose
    assert [left(rows, job_id) for job_id in jobs.values()] == [6, 6]
    assert left(rows, 777) == 1
    assert gone


def test_what_is_wrong_stands_beside_the_field_and_nothing_is_cleared(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    jobs = fill(rows, clock)

    for form, words in (
        ({"choice": "9"}, "Confirm to continue."),
        (SURE, "Choose what to delete."),
        ({"choice": "10", **SURE}, "field-error"),
        ({"choice": "9", "job": "absent", **SURE}, "Job not found."),
    ):
        answer = admin.post("/runs/clear/start", form)

        assert answer.status_code == 422, form
        assert words in answer.text, form
    assert left(rows, jobs["mine"]) == 6


def test_progress_survives_a_reload_and_a_second_one_waits_its_turn(
    app: Flask, admin: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch)
    admin.post("/runs/clear/start", {"choice": "9", **SURE})
    slow.go_on.release()
    eventually(lambda: "1,000 runs" in admin.get("/runs/clear").text)
    slow.go_on.release()
    eventually(lambda: "2,000 runs" in admin.get("/runs/clear").text)
    operator = signed_in(app, "operator")

    second = operator.post("/runs/clear/start", {"choice": "9", "app": "reports", **SURE})

    assert second.status_code == 409
    assert "Runs are already being deleted" in second.text
    seen = operator.get("/runs/clear").text
    assert "Someone else is deleting runs" in seen
    assert "2,000 runs" not in seen
    admin.post("/runs/clear/stop")
    slow.go_on.release()
    assert "stopped" in wait_done(admin)


def test_nobody_stops_what_is_not_theirs(
    app: Flask, admin: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch)
    admin.post("/runs/clear/start", {"choice": "9", **SURE})

    signed_in(app, "operator").post("/runs/clear/stop")
    slow.go_on.release()

    eventually(lambda: "1,000 runs" in admin.get("/runs/clear").text)
    assert 'data-live="1"' in admin.get("/runs/clear").text
    admin.post("/runs/clear/stop")
    slow.go_on.release()
    wait_done(admin)


def test_one_whose_user_is_disabled_ends_after_the_present_step(
    app: Flask, admin: Visit, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch)
    operator = signed_in(app, "operator")
    operator.post("/runs/clear/start", {"choice": "9", "app": "reports", **SURE})

    NamedUsers(database, who="admin").disable("operator")
    slow.go_on.release()
    page = wait_done(admin)

    assert "permissions have changed" in page
    assert "1,000 runs" in page
    assert slow.steps == 1


@pytest.mark.parametrize("error", [DatabaseUnavailable("gone"), RuntimeError("a fault of ours")])
def test_one_that_breaks_off_says_so_and_the_next_may_begin(
    admin: Visit, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    slow = Slow(monkeypatch, error)
    admin.post("/runs/clear/start", {"choice": "9", **SURE})
    slow.go_on.release()

    assert "failed" in wait_done(admin)
    assert admin.post("/runs/clear/start", {"choice": "9", **SURE}).status_code == 303
    slow.go_on.release()
    wait_done(admin)

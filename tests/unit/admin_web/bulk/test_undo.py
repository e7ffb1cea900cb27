"""A stop of several jobs is undone: those start again, once, that it has stopped."""

import re

import pytest
from flask import Flask
from sqlalchemy import select

from tests.support.console import Clock, Visit, signed_in
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from tests.unit.admin_web.bulk.test_bulk_jobs import CRON, do, states
from warren.admin_web.pages import bulk
from warren.sql.engine import Database
from warren.sql.models import AuditEntry, Job

UNDO = re.compile(r'action="/jobs/bulk/undo">.*?name="key" value="([^"]+)"')
LEFT_ALONE = "Skipped (not stopped by this action, or changed since)"


@pytest.fixture
def night(rows: Rows, admin: Visit) -> dict[str, int]:
    """Three jobs that are started and one that is stopped, by name."""
    made = {name: rows.job(name, **CRON) for name in ("one", "two", "three", "stopped-before")}
    admin.get("/jobs")
    admin.post("/jobs/start", {"id": [made[name] for name in ("one", "two", "three")]})
    return made


def undo(visit: Visit, key: str) -> str:
    path = visit.post("/jobs/bulk/undo", {"key": key}).location
    return str(
        eventually(lambda: (page := visit.get(path).text) and "done</span>" in page and page)
    )


def stop_ticked(visit: Visit, job_ids: list[int]) -> str:
    """Return the page after stopping ticked jobs."""
    visit.get("/jobs")
    return str(visit.post("/jobs/stop", {"id": job_ids}, follow_redirects=True).text)


def key_in(page: str) -> str:
    return UNDO.findall(page)[0]


def starts(database: Database) -> list[str]:
    wanted = select(AuditEntry.name).where(AuditEntry.action == "job.start")
    return sorted(database.read(lambda session: session.execute(wanted).scalars().all()))


def test_ticked_jobs_that_were_stopped_together_start_again(
    admin: Visit, database: Database, night: dict[str, int], clock: Clock
) -> None:
    before = starts(database)
    clock.pass_seconds(60)

    page = undo(admin, key_in(stop_ticked(admin, list(night.values()))))

    assert "Started again: 3" in page
    assert f"{LEFT_ALONE}: 1" in page
    assert states(database) == {"one": 1, "two": 1, "three": 1, "stopped-before": 0}
    assert starts(database) == sorted(before * 2)


def test_the_page_of_a_stop_that_was_undone_says_so_and_has_no_button(
    admin: Visit, night: dict[str, int]
) -> None:
    stopped = do(admin, "stop", "name=o")
    key = key_in(stopped)
    undo(admin, key)

    page = admin.get(f"/jobs/bulk/work?key={key}").text

    assert "This was undone." in page
    assert f'href="/jobs/bulk/work?key={bulk.undo_key(key)}"' in page
    assert not UNDO.findall(page)


def test_all_jobs_of_a_filter_that_were_stopped_start_again(
    admin: Visit, database: Database, night: dict[str, int]
) -> None:
    page = undo(admin, key_in(do(admin, "stop", "name=o")))

    assert "Started again: 2" in page
    assert states(database) == {"one": 1, "two": 1, "three": 1, "stopped-before": 0}


def test_a_second_click_does_nothing_and_says_so(
    admin: Visit, database: Database, night: dict[str, int]
) -> None:
    key = key_in(stop_ticked(admin, list(night.values())))
    undo(admin, key)
    admin.post("/jobs/stop", {"id": night["one"]})

    page = undo(admin, key)

    assert "This was undone already. Nothing was started again." in page
    assert states(database)["one"] == 0


def test_a_job_that_was_stopped_anew_since_stays_stopped(
    admin: Visit, app: Flask, database: Database, night: dict[str, int], clock: Clock
) -> None:
    key = key_in(stop_ticked(admin, list(night.values())))
    other = signed_in(app, "operator")
    other.get("/jobs")
    for action in ("start", "stop"):
        other.post(f"/jobs/{action}", {"id": night["one"]})
    clock.pass_seconds(1)
    for action in ("start", "stop"):
        admin.post(f"/jobs/{action}", {"id": night["two"]})

    page = undo(admin, key)

    assert "Started again: 1" in page
    assert states(database) == {"one": 0, "two": 0, "three": 1, "stopped-before": 0}


def test_nobody_else_undoes_it(
    admin: Visit, app: Flask, database: Database, night: dict[str, int]
) -> None:
    key = key_in(stop_ticked(admin, list(night.values())))
    operator, viewer = signed_in(app, "operator"), signed_in(app, "viewer")
    operator.get("/jobs")
    viewer.get("/jobs")

    lost = operator.post("/jobs/bulk/undo", {"key": key}, follow_redirects=True)
    refused = viewer.post("/jobs/bulk/undo", {"key": key})

    assert lost.status_code == 404
    assert refused.status_code == 403
    assert sum(states(database).values()) == 0


def test_a_job_of_an_app_that_was_taken_away_stays_stopped(
    app: Flask, database: Database, rows: Rows, night: dict[str, int]
) -> None:
    operator = signed_in(app, "operator")
    key = key_in(stop_ticked(operator, list(night.values())))

    def move(name: str, app_of: str) -> None:
        other = select(Job.app_id).where(Job.name == app_of)
        database.write(
            lambda session: setattr(
                session.execute(select(Job).where(Job.name == name)).scalar_one(),
                "app_id",
                session.execute(other).scalar_one(),
            )
        )

    rows.job("theirs", "mails")
    move("one", "theirs")
    page = undo(operator, key)

    assert "Not found, or no permission: 1" in page
    assert states(database)["one"] == 0


def test_one_job_alone_has_its_start_button_instead(admin: Visit, night: dict[str, int]) -> None:
    page = stop_ticked(admin, [night["one"]])

    assert "1 job stopped" in page
    assert not UNDO.findall(page)


def test_a_key_of_no_stop_undoes_nothing(admin: Visit, night: dict[str, int]) -> None:
    admin.get("/jobs")
    unknown = admin.post("/jobs/bulk/undo", {"key": bulk.fresh_key()}, follow_redirects=True)

    assert unknown.status_code == 404
    assert admin.post("/jobs/bulk/undo", {"key": "x"}).status_code == 400

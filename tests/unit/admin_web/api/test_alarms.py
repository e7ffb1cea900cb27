"""Alarms by the API: a test of a target, and those that reached nobody."""

from functools import partial

import pytest

from tests.support.api import Program, make_api, make_token
from tests.support.console import Clock
from tests.support.stored_rows import Rows
from warren.admin_web.services import ApiLimits
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import MAIL, AlarmStatus, NewAlarm
from warren.sql.engine import Database


@pytest.fixture
def quick(database: Database, clock: Clock, rows: Rows) -> Program:
    """A program whose API waits for no outcome, on a cluster whose scheduler sends e-mails."""
    rows.scheduler("s1", clock.now_ms(), mails=True)
    app = make_api(database, clock, limits=ApiLimits(test_seconds=0))
    return Program(app, make_token(database, clock, "operator"))


def test_a_test_goes_to_the_targets_of_a_job_and_is_listed(quick: Program, rows: Rows) -> None:
    job_id = rows.job("nightly", alarm_email="ops@example.com")

    answer = quick.post("/alarms/test", {"job_id": job_id})
    [sent] = answer.get_json()["items"]

    assert (sent["cause"], sent["target"], sent["status"]) == ("test", "ops@example.com", "READY")
    listed = quick.get(f"/alarms?state=waiting&job_id={job_id}").get_json()["items"]
    assert [one["id"] for one in listed] == [sent["id"]]
    assert quick.get("/alarms?state=undelivered").get_json()["items"] == []


def test_what_cannot_be_sent_is_refused_with_its_reason(quick: Program, rows: Rows) -> None:
    app_id, hidden = rows.app("reports"), rows.app("mails")

    bad = quick.post("/alarms/test", {"app_id": app_id, "webhook": "http://169.254.169.254/"})
    foreign = quick.post("/alarms/test", {"app_id": hidden, "emails": ["ops@example.com"]})
    unbound = quick.post("/alarms/test", {"emails": ["ops@example.com"]})

    assert (bad.status_code, foreign.status_code, unbound.status_code) == (422, 404, 403)
    assert "link-local" in bad.get_json()["detail"]


def test_undelivered_alarms_of_a_job_are_sent_again_or_dismissed(
    admin: Program, rows: Rows, database: Database
) -> None:
    job_ids = [rows.job("nightly"), rows.job("hourly")]
    for job_id in job_ids:
        new = NewAlarm(
            subject_key=f"job:{job_id}",
            channel=MAIL,
            target="ops@example.com",
            content="",
            created_at=1,
            job_id=job_id,
            app_id=rows.app(),
            status=AlarmStatus.GIVEN_UP,
        )
        database.write(partial(alarms.add, alarms=[new]))

    given_up = admin.post("/alarms/dismiss", {"job": "nightly"})
    again = admin.post("/alarms/resend", {})
    unknown = admin.post("/alarms/dismiss", {"job": "nihgtly"})

    assert (given_up.get_json(), again.get_json()) == ({"count": 1}, {"count": 1})
    shown = [admin.get(f"/alarms/{number}").get_json()["status"] for number in (1, 2)]
    assert shown == ["DISMISSED", "READY"]
    assert unknown.get_json()["detail"] == "no job named 'nihgtly', did you mean 'nightly'?"
    assert admin.get("/alarms/3").status_code == 404

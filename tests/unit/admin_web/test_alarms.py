"""The page of alarms, the banner of those that reached nobody, and tests from every form."""

import csv
import io
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from tests.support.console import Clock, Visit, signed_in
from tests.support.stored_rows import Rows
from warren.scheduler.alarms.events import Absence, to_text
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import MAIL, AlarmStatus, NewAlarm
from warren.sql.engine import Database
from warren.sql.models import Alarm, App

BANNER = "Alarms that could not be delivered: "


def add(rows: Rows, status: AlarmStatus, app: str = "reports", **more: Any) -> None:
    """Store an alarm of yesterday, as it is after trouble."""
    key = f"tick:{len(stored(rows.database))}"
    new = NewAlarm(
        subject_key=key,
        channel=more.pop("channel", MAIL),
        target=more.pop("target", "ops@example.com"),
        content=to_text(Absence(app=app, seconds=60, jobs=1)),
        created_at=more.pop("created_at", 1),
        app_id=rows.app(app),
        job_id=more.pop("job_id", 0),
        status=status,
    )

    def unit(session: Any) -> None:
        alarms.add(session, [new])
        changed = update(Alarm).where(Alarm.subject_key == key)
        session.execute(changed.values(tries=1, **more))

    rows.database.write(unit)


def stored(database: Database) -> list[Alarm]:
    every = select(Alarm).order_by(Alarm.id)
    return database.read(lambda session: list(session.execute(every).scalars()))


def sent_tests(database: Database) -> list[tuple[str, str]]:
    return [(one.channel, one.target) for one in stored(database)]


class TestList:
    def test_each_is_shown_with_cause_target_state_and_reason(
        self, admin: Visit, rows: Rows
    ) -> None:
        job_id = rows.job("nightly")
        hook = "https://hooks.example.com/hush"
        failed = {"job_id": job_id, "target": hook, "channel": "json"}
        add(rows, AlarmStatus.GIVEN_UP, error="it answered 500", **failed)
        add(rows, AlarmStatus.HELD)
        add(rows, AlarmStatus.SENT, answer="mail answered: 250 kept")

        page = admin.get("/alarms").text

        assert "it answered 500" in page
        assert "https://hooks.example.com/…" in page
        assert "hush" not in page
        assert f'<a href="/jobs/{job_id}"><strong>nightly</strong></a>' in page
        assert "no executor online" in page
        assert "No executor of app reports has been online for 60 s." in page
        assert "held back by the limit" in page
        assert "mail answered: 250 kept" in page

    def test_state_app_and_job_choose_which(self, admin: Visit, rows: Rows) -> None:
        add(rows, AlarmStatus.GIVEN_UP, job_id=rows.job("nightly"), target="lost@example.com")
        add(rows, AlarmStatus.SENT, "mails", target="sent@example.com")

        assert "sent@" not in admin.get("/alarms?state=undelivered").text
        assert "lost@" not in admin.get("/alarms?state=delivered").text
        assert "lost@" not in admin.get("/alarms?app=mails").text
        assert "sent@" not in admin.get("/alarms?job=nightly").text
        assert "lost@" in admin.get("/alarms?job=nightly&app=reports&state=undelivered").text
        assert admin.get("/alarms?state=gone").status_code == 422

    def test_a_long_list_goes_on_below_its_last(self, admin: Visit, rows: Rows) -> None:
        for number in range(51):
            add(rows, AlarmStatus.SENT, target=f"{number}@example.com")

        first = admin.get("/alarms").text

        assert "?before=2" in first
        assert ">0@example.com" not in first
        assert ">0@example.com" in admin.get("/alarms?before=2").text

    def test_it_is_a_file_too_without_secrets(self, admin: Visit, rows: Rows) -> None:
        add(rows, AlarmStatus.SENT, channel="slack", target="https://hooks.slack.com/hush")

        text = admin.get("/alarms?format=csv").text

        [line] = csv.DictReader(io.StringIO(text))
        assert (line["app"], line["cause"], line["status"]) == ("reports", "absence", "SENT")
        assert "hush" not in text

    def test_people_of_other_apps_see_none(self, app: Flask, rows: Rows) -> None:
        add(rows, AlarmStatus.GIVEN_UP)
        stranger = signed_in(app, "stranger")

        assert "ops@example.com" not in stranger.get("/alarms").text
        assert BANNER not in stranger.get("/").text


class TestBanner:
    def test_every_page_counts_what_reached_nobody(self, app: Flask, rows: Rows) -> None:
        viewer = signed_in(app, "viewer")
        assert BANNER not in viewer.get("/jobs").text

        add(rows, AlarmStatus.GIVEN_UP)
        add(rows, AlarmStatus.READY, error="it answered 500")
        page = viewer.get("/jobs").text

        assert f"{BANNER}2." in page
        assert 'href="/alarms?state=undelivered"' in page

    def test_it_is_gone_when_somebody_has_sent_them_again(self, admin: Visit, rows: Rows) -> None:
        add(rows, AlarmStatus.READY, error="it answered 500")

        page = admin.post("/alarms/resend", {"state": "undelivered"}).text
        for one in stored(rows.database):
            rows.database.write(
                lambda session, one=one: alarms.settle(
                    session, one, status=AlarmStatus.SENT, error=None
                )
            )

        assert page is not None
        assert BANNER not in admin.get("/").text

    def test_it_is_gone_when_somebody_has_dismissed_them(self, app: Flask, rows: Rows) -> None:
        add(rows, AlarmStatus.GIVEN_UP)
        add(rows, AlarmStatus.GIVEN_UP, target="other@example.com")
        operator = signed_in(app, "operator")
        [first, _] = stored(rows.database)

        operator.post("/alarms/dismiss", {"id": str(first.id)})
        assert f"{BANNER}1." in operator.get("/").text
        operator.post("/alarms/dismiss", {"state": "", "app": "", "job": ""})

        assert BANNER not in operator.get("/").text

    def test_a_viewer_can_do_neither(self, app: Flask, rows: Rows) -> None:
        add(rows, AlarmStatus.GIVEN_UP)
        viewer = signed_in(app, "viewer")

        assert viewer.post("/alarms/dismiss", {}).status_code == 403
        assert "Send again" not in viewer.get("/alarms").text


class TestSendTest:
    @pytest.fixture(autouse=True)
    def _online(self, rows: Rows, clock: Clock) -> None:
        rows.scheduler("s1", clock.now_ms(), mails=True)

    def test_each_target_on_a_jobs_page_has_a_button(self, app: Flask, rows: Rows) -> None:
        job_id = rows.job(
            "nightly", alarm_email="ops@example.com", webhook_url="https://x.org/hush"
        )
        operator = signed_in(app, "operator")
        page = operator.get(f"/jobs/{job_id}").text
        keys = [part.split('"')[0] for part in page.split('name="key" value="')[1:]]

        for key in keys:
            operator.post(f"/jobs/{job_id}/alarms/test", {"key": key})

        assert sent_tests(rows.database) == [
            (MAIL, "ops@example.com"),
            (alarms.RUN_END, "https://x.org/hush"),
        ]
        assert "See the page Alarms" in operator.get(f"/jobs/{job_id}").text

    def test_the_target_of_an_app_is_tested_but_not_told(self, app: Flask, rows: Rows) -> None:
        job_id = rows.job("nightly")
        of_app = update(App).where(App.name == "reports")
        hooked = of_app.values(alarm_webhook="https://hooks.example.com/hush")
        rows.database.write(lambda session: session.execute(hooked))
        operator = signed_in(app, "operator")
        page = operator.get(f"/jobs/{job_id}").text

        assert "https://hooks.example.com/…" in page
        assert "of the app" in page
        assert "hush" not in page

    def test_what_is_typed_in_a_jobs_form_is_tested_and_not_saved(
        self, app: Flask, rows: Rows
    ) -> None:
        job_id = rows.job("nightly")
        operator = signed_in(app, "operator")
        typed = {"name": "nightly", "handler": "h", "emails": "new@example.com", "test": "emails"}

        page = operator.post(f"/jobs/{job_id}/save", typed)
        fresh = operator.post("/jobs/create", typed | {"app": "reports"})

        assert (page.status_code, fresh.status_code) == (200, 200)
        assert 'value="new@example.com"' in page.text
        assert sent_tests(rows.database) == [(MAIL, "new@example.com")] * 2
        assert "new@example.com" not in operator.get(f"/jobs/{job_id}").text

    def test_a_bad_target_or_none_is_told_beside_its_field(self, app: Flask, rows: Rows) -> None:
        job_id = rows.job("nightly")
        operator = signed_in(app, "operator")
        save = f"/jobs/{job_id}/save"

        bad = operator.post(
            save, {"name": "nightly", "handler": "h", "emails": "a", "test": "emails"}
        )
        none = operator.post(save, {"name": "nightly", "handler": "h", "test": "webhook"})

        assert 'id="emails-error"' in bad.text
        assert "Enter a target first." in none.text
        assert sent_tests(rows.database) == []

    def test_an_apps_targets_are_tested_by_administrators(self, admin: Visit, rows: Rows) -> None:
        path = f"/apps/{rows.app('reports')}/change"

        admin.post(path, {"webhook": "https://x.org/a", "style": "slack", "test": "webhook"})
        admin.post(path, {"webhook_url": "https://x.org/b", "test": "webhook_url"})

        assert sent_tests(rows.database) == [
            ("slack", "https://x.org/a"),
            (alarms.RUN_END, "https://x.org/b"),
        ]

    def test_without_a_mail_server_it_is_refused_in_a_line(self, admin: Visit, rows: Rows) -> None:
        rows.forget_schedulers()
        rows.scheduler("s2", Clock().now_ms(), mails=False)

        path = f"/apps/{rows.app('reports')}/change"
        page = admin.post(path, {"emails": "ops@example.com", "test": "emails"}).text

        assert "no scheduler that is online has WARREN_SMTP_URL" in page
        assert sent_tests(rows.database) == []

"""Apps as pages: who sees which, and what an administrator may do to them."""

import re
from typing import Any

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from warren.sql.accounts import users
from warren.sql.engine import Database
from warren.sql.models import App, Job
from warren.sql.registry import apps, presence


def find(database: Database, name: str) -> App | None:
    ids = database.read(apps.ids_by_name)
    if name not in ids:
        return None
    return database.read(lambda session: apps.find(session, name))


def add_job(database: Database, app: str, name: str) -> None:
    def unit(session: Any) -> None:
        session.add(Job(app_id=apps.find(session, app).id, name=name))

    database.write(unit)


def add_executor(
    database: Database, clock: Clock, app: str, address: str, *, draining: bool = False
) -> None:
    beat = presence.Beat(
        kind=presence.EXECUTOR,
        app=app,
        address=address,
        boot_id="b1",
        beat_at=clock.now_ms(),
        draining=draining,
    )
    database.write(lambda session: presence.hold(session, beat))


def new_app(**fields: Any) -> dict[str, Any]:
    return {"app_name": "fresh-app", "title": "Fresh", "mode": "automatic"} | fields


class TestListing:
    def test_everybody_sees_their_own_apps_only(self, app: Flask, admin: Visit) -> None:
        theirs = signed_in(app, "operator").get("/apps").text
        everything = admin.get("/apps").text

        assert "reports</strong>" in theirs
        assert "mails</strong>" not in theirs
        assert "mails</strong>" in everything

    def test_jobs_and_running_executors_are_counted_also_those_that_drain(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        add_job(database, "reports", "nightly")
        add_executor(database, clock, "reports", "one")

        add_executor(database, clock, "reports", "two", draining=True)

        page = admin.get("/apps").text

        assert "2 online" in page
        jobs = '<td data-label="Jobs" class="number-cell"><a href="/jobs?app=reports">1</a></td>'
        assert jobs in page

    def test_an_app_with_a_dead_executor_is_not_green(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        add_executor(database, clock, "reports", "dead")
        clock.pass_seconds(60)
        add_executor(database, clock, "reports", "alive")

        page = admin.get("/apps").text

        assert re.search('class="badge warn">.*1 of 2 online', page)

    def test_a_long_list_goes_on_by_name(self, admin: Visit, database: Database) -> None:
        for number in range(60):
            database.write(lambda session, n=number: apps.ensure(session, f"zz-{n:03}"))

        first = admin.get("/apps").text

        assert "/apps?after=zz-047" in first
        assert "zz-048</strong>" in admin.get("/apps?after=zz-047").text


class TestAdding:
    def test_app_with_addresses_and_alarms(self, admin: Visit, database: Database) -> None:
        form = new_app(
            mode="listed",
            addresses="one\ntwo, three",
            emails="a@example.com; b@example.com",
            webhook="https://hooks.example.com/x",
            style="slack",
        )

        answer = admin.post("/apps/add", form)

        found = find(database, "fresh-app")
        assert answer.status_code == 303
        assert found is not None
        assert (found.title, found.address_type) == ("Fresh", apps.MANUAL)
        assert apps.split(found.address_list) == ("one", "two", "three")
        assert found.alarm_email == "a@example.com,b@example.com"
        assert (found.alarm_webhook, found.alarm_style) == ("https://hooks.example.com/x", "slack")

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"app_name": ""}, "Required."),
            ({"app_name": "ab"}, "A name has 3 to 64"),
            ({"app_name": "Upper"}, "A name has 3 to 64"),
            ({"app_name": "fresh-app\n"}, "A name has 3 to 64"),
            ({"app_name": "warren.run.x"}, "A name has 3 to 64"),
            ({"app_name": "reports"}, "This app name is taken."),
            ({"title": "x" * 65}, "A title can have up to 64"),
            ({"title": "a\x07b"}, "cannot contain control characters"),
            ({"mode": "listed"}, "List at least one address."),
            ({"mode": "listed", "addresses": "<b>"}, "Not a valid address: &lt;b&gt;"),
            ({"mode": "listed", "addresses": "one one"}, "is listed twice"),
            ({"mode": "other"}, "field-error"),
            ({"emails": "nobody"}, "Not a valid e-mail address: nobody"),
            ({"webhook": "javascript:alert(1)"}, "A webhook must be a URL"),
            ({"style": "slack"}, "A webhook format needs a webhook."),
            ({"style": "smoke", "webhook": "https://example.com"}, "field-error"),
        ],
    )
    def test_bad_input_is_told_beside_its_field_and_makes_nothing(
        self, admin: Visit, database: Database, fields: dict[str, Any], words: str
    ) -> None:
        answer = admin.post("/apps/add", new_app(**fields))

        assert answer.status_code == 422
        assert words in answer.text
        assert set(database.read(apps.ids_by_name)) == {"reports", "mails"}


class TestChanging:
    def test_form_shows_what_is_stored_and_saves_what_is_typed(
        self, admin: Visit, database: Database
    ) -> None:
        app_id = database.read(apps.ids_by_name)["reports"]
        form = {"title": "All reports", "mode": "listed", "addresses": "two\none"}

        admin.post(f"/apps/{app_id}/change", form)

        page = admin.get(f"/apps/{app_id}").text
        assert 'value="All reports"' in page
        assert "two\none</textarea>" in page
        assert "Nothing to save." not in page
        admin.post(f"/apps/{app_id}/change", form)
        assert "Nothing to save." in admin.get(f"/apps/{app_id}").text

    def test_bad_change_is_refused_and_kept_in_the_form(
        self, admin: Visit, database: Database
    ) -> None:
        app_id = database.read(apps.ids_by_name)["reports"]

        answer = admin.post(f"/apps/{app_id}/change", {"title": "T", "emails": "nobody"})

        assert answer.status_code == 422
        assert 'value="nobody"' in answer.text
        found = find(database, "reports")
        assert found is not None
        assert found.title == "reports"

    def test_unknown_app_is_404(self, admin: Visit) -> None:
        assert admin.get("/apps/999").status_code == 404
        assert admin.post("/apps/999/change", {"title": "x"}).status_code == 404


class TestDeleting:
    def test_app_with_jobs_stays_and_its_jobs_are_named(
        self, admin: Visit, database: Database
    ) -> None:
        app_id = database.read(apps.ids_by_name)["reports"]
        for number in range(7):
            add_job(database, "reports", f"job-{number}")

        answer = admin.post(f"/apps/{app_id}/delete")

        assert answer.status_code == 409
        assert "jobs (7): job-0, job-1, job-2, job-3, job-4 …" in answer.text
        assert find(database, "reports") is not None

    def test_app_with_a_living_executor_stays(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        add_executor(database, clock, "mails", "post-1")

        answer = admin.post(f"/apps/{database.read(apps.ids_by_name)['mails']}/delete")

        assert answer.status_code == 409
        assert "post-1" in answer.text

    def test_deleted_app_is_taken_from_its_users_and_ends_their_sign_ins(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        stranger = signed_in(app, "stranger")
        viewer = signed_in(app, "viewer")

        answer = admin.post(f"/apps/{database.read(apps.ids_by_name)['mails']}/delete")

        assert answer.status_code == 303
        assert find(database, "mails") is None
        found = database.read(lambda session: users.by_name(session, "stranger"))
        assert found is not None
        assert users.rights_of(found).app_ids == ()
        assert stranger.get("/").status_code == 303
        assert viewer.get("/").status_code == 200

    def test_who_has_no_app_left_sees_none(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        admin.post(f"/apps/{database.read(apps.ids_by_name)['mails']}/delete")

        assert "You have no apps yet." in signed_in(app, "stranger").get("/apps").text


def test_an_app_keeps_an_installed_route_and_has_no_unknown_one(
    database: Database, clock: Clock
) -> None:
    admin = signed_in(make_app(database, clock, added_routes=("NEAREST",)), "admin")
    app_id = database.read(lambda session: apps.find(session, "reports").id)
    sent = {"title": "reports", "mode": "automatic"}

    wrong = admin.post(f"/apps/{app_id}/change", sent | {"route": "NEARST"})
    admin.post(f"/apps/{app_id}/change", sent | {"route": "NEAREST"})
    page = admin.get(f"/apps/{app_id}").text

    assert wrong.status_code == 422
    assert "did you mean &#39;NEAREST&#39;?" in wrong.text
    assert '<option selected value="NEAREST">NEAREST</option>' in page

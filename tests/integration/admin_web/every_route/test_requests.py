"""Each route that changes something, with what is refused before its view is called.

The routes come from the URL map, so a new one is tried without a line here. Whatever is refused
leaves every row of every table as it was.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask

from tests.integration.admin_web.every_route.test_access import TABLE
from tests.support.console import PASSWORD, Clock, Visit, add_user, signed_in, snapshot
from tests.support.sample_app import SampleApp, add_sample_app
from tests.support.stored_rows import Rows
from warren.sql.accounts import users
from warren.sql.engine import Database
from warren.sql.models import User

#: What a form may say of a user that is the business of others.
RIGHTS = {
    "id": "1",
    "user_id": "1",
    "username": "taken",
    "name": "taken",
    "role": "administrator",
    "permission": "1,2,3",
    "apps": ["mails", "reports"],
    "app_ids": "1,2,3",
    "may_edit_glue": "1",
    "is_disabled": "1",
    "must_change_password": "1",
    "generation": "99",
}
#: Filled in as people do, so that nothing but the right is missing.
FORM = {
    "name": "made",
    "app": "reports",
    "handler": "made",
    "schedule_kind": "NONE",
    "source": "echo made",
    "remark": "made",
    "param": "made",
    "choice": "9",
    "is_sure": "y",
    "language": "",
    "timezone": "",
    "theme": "dark",
}


@dataclass(frozen=True)
class Change:
    """A route that changes something, and where it is found."""

    endpoint: str
    path: str


@pytest.fixture
def made(rows: Rows, clock: Clock) -> SampleApp:
    return add_sample_app(rows, "reports", lambda field: f"some-{field}", clock.now)


def paths(app: Flask, made: SampleApp, method: str) -> list[Change]:
    """Return each route of a method, with the ids of what is there."""
    with app.test_request_context():
        return [
            Change(
                rule.endpoint,
                app.url_for(
                    rule.endpoint,
                    **made.values(set(rule.arguments), script=rule.endpoint.startswith("glue.")),
                ),
            )
            for rule in app.url_map.iter_rules()
            if method in (rule.methods or ())
        ]


@pytest.fixture
def changes(app: Flask, made: SampleApp) -> list[Change]:
    """Return each route that changes something."""
    found = paths(app, made, "POST")
    assert len(found) > 25
    return found


def form_of(made: SampleApp) -> dict[str, Any]:
    return FORM | {
        "id": str(made.ids["job_id"]),
        "version": str(made.ids["version_id"]),
        "based_on": str(made.ids["version_id"]),
    }


class TestForgery:
    """The visitor is an administrator, who may do all of it."""

    def test_without_a_token_nothing_is_changed_by_any_form(
        self, admin: Visit, database: Database, made: SampleApp, changes: list[Change]
    ) -> None:
        before = snapshot(database)

        for change in changes:
            for told in ({}, {"csrf_token": ""}, {"csrf_token": "made-up"}):
                answer = admin.client.post(change.path, data=form_of(made) | told)

                assert answer.status_code == 403, change
        assert snapshot(database) == before

    def test_with_the_token_of_another_sign_in_neither(
        self,
        app: Flask,
        admin: Visit,
        database: Database,
        made: SampleApp,
        changes: list[Change],
    ) -> None:
        others = [signed_in(app, "admin").token, signed_in(app, "viewer").token]
        before = snapshot(database)

        for change in changes:
            for token in others:
                told = form_of(made) | {"csrf_token": token}
                header = {"X-CSRFToken": token}

                assert admin.client.post(change.path, data=told).status_code == 403, change
                assert admin.client.post(change.path, headers=header).status_code == 403, change
        assert snapshot(database) == before

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "http://localhost.evil.example"},
            {"Origin": "http://localhost:81"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
        ids=lambda headers: next(iter(headers.values())),
    )
    def test_with_the_right_token_from_another_site_neither(
        self,
        admin: Visit,
        database: Database,
        made: SampleApp,
        changes: list[Change],
        headers: dict[str, str],
    ) -> None:
        before = snapshot(database)

        for change in changes:
            answer = admin.post(change.path, form_of(made), headers=headers)

            assert answer.status_code == 403, change
        assert snapshot(database) == before


class TestMethods:
    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
    def test_nothing_is_changed_by_a_method_but_post(
        self,
        admin: Visit,
        database: Database,
        made: SampleApp,
        changes: list[Change],
        method: str,
    ) -> None:
        before = snapshot(database)
        form = form_of(made) | {"csrf_token": admin.token}
        sent = {"query_string" if method in ("GET", "HEAD") else "data": form}

        for change in changes:
            if change.endpoint == "sign_in.login" and method in ("GET", "HEAD"):
                continue
            answer = admin.client.open(change.path, method=method, **sent)

            assert answer.status_code == 405, change
        assert snapshot(database) == before

    @pytest.mark.parametrize(
        "name", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method"]
    )
    def test_no_word_makes_a_get_a_post(
        self, admin: Visit, database: Database, made: SampleApp, changes: list[Change], name: str
    ) -> None:
        before = snapshot(database)
        told = form_of(made) | {"csrf_token": admin.token, name: "POST"}

        for change in changes:
            for method in ("GET", "HEAD"):
                answer = admin.client.open(
                    change.path, method=method, query_string=told, headers={name: "POST"}
                )

                is_page = change.endpoint == "sign_in.login"
                assert answer.status_code == (200 if is_page else 405), change
        assert snapshot(database) == before

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
    def test_nobody_signs_in_by_a_method_but_post(
        self, visit: Visit, database: Database, method: str
    ) -> None:
        """Tokens of forms are asked for with a POST only, so nothing else may sign in."""
        before = snapshot(database)
        form = {"username": "admin", "password": PASSWORD}

        for place in ("query_string", "data"):
            answer = visit.client.open("/login", method=method, **{place: form})

            assert answer.status_code == 200
        assert snapshot(database) == before

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_no_page_changes_anything_by_being_opened(
        self, app: Flask, admin: Visit, database: Database, made: SampleApp, method: str
    ) -> None:
        before = snapshot(database)

        for page in paths(app, made, method):
            answer = admin.client.open(page.path, method=method)

            assert answer.status_code in (200, 303, 403, 404, 503), page
        assert snapshot(database) == before


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/xml"])
def test_no_route_reads_a_body_that_is_no_form(
    admin: Visit, database: Database, made: SampleApp, changes: list[Change], kind: str
) -> None:
    """There is no JSON to send either: what a program would send is refused as such."""
    before = snapshot(database)

    for change in changes:
        answer = admin.client.post(
            change.path,
            data='{"theme": "dark"}',
            content_type=kind,
            headers={"X-CSRFToken": admin.token},
        )

        assert answer.status_code == 415, change
    assert snapshot(database) == before


class TestRights:
    def test_a_viewer_changes_nothing_of_the_own_app(
        self,
        app: Flask,
        database: Database,
        made: SampleApp,
        changes: list[Change],
    ) -> None:
        viewer = signed_in(app, "viewer")
        before = snapshot(database)

        refused = [one for one in changes if "viewer" not in TABLE[one.endpoint].roles]
        for change in refused:
            assert viewer.post(change.path, form_of(made)).status_code == 403, change

        assert {
            "job_actions.trigger",
            "job_actions.trigger_one",
            "runs.kill",
            "runs.again",
            "glue.save",
            "glue.restore",
            "glue.try_out",
        } <= {one.endpoint for one in refused}
        assert snapshot(database) == before

    @pytest.mark.parametrize("name", ["viewer", "operator", "scripter"])
    def test_nobody_gives_themselves_a_right_with_any_form(
        self, app: Flask, database: Database, changes: list[Change], name: str
    ) -> None:
        def rights() -> list[Any]:
            user = database.read(lambda session: users.by_name(session, name))
            assert user is not None
            return [user.id, user.name, users.rights_of(user), user.is_disabled]

        before = rights()
        told = FORM | RIGHTS
        for change in changes:
            visit = signed_in(app, name)
            # Of two users' pages: somebody else's, and the own one.
            for path in {change.path, re.sub(r"^/users/\d+", f"/users/{before[0]}", change.path)}:
                visit.post(path, told)

            assert rights() == before, change

    def test_a_password_form_changes_the_password_and_nothing_else(
        self, app: Flask, database: Database
    ) -> None:
        visit = signed_in(app, "viewer")
        before = database.read(lambda session: users.by_name(session, "viewer"))
        fresh = {"present": PASSWORD, "fresh": "another one", "again": "another one"}

        answer = visit.post("/account/password", RIGHTS | fresh)

        after = database.read(lambda session: users.by_name(session, "viewer"))
        assert answer.status_code == 303
        assert before is not None
        assert after is not None
        columns = set(User.__mapper__.columns.keys()) - {"password", "generation"}
        assert [getattr(after, one) for one in columns] == [getattr(before, one) for one in columns]
        assert after.generation == before.generation + 1

    def test_put_makes_nobody_an_administrator(self, app: Flask, database: Database) -> None:
        viewer = signed_in(app, "viewer")
        found = database.read(lambda session: users.by_name(session, "viewer"))
        assert found is not None

        for path in (f"/users/{found.id}", f"/users/{found.id}/rights", "/account", "/users/add"):
            sent = RIGHTS | {"csrf_token": viewer.token}
            assert viewer.client.put(path, data=sent).status_code == 405
        answer = viewer.post(f"/users/{found.id}/rights", RIGHTS)

        assert answer.status_code == 403

    def test_a_new_user_gets_nothing_that_the_form_does_not_ask_for(
        self, admin: Visit, database: Database
    ) -> None:
        asked = {"username": "fresh", "password": "a wholly new password", "role": "viewer"}

        answer = admin.post("/users/add", RIGHTS | asked | {"may_edit_glue": ""})

        found = database.read(lambda session: users.by_name(session, "fresh"))
        assert answer.status_code == 303
        assert found is not None
        assert (found.generation, found.must_change_password, found.is_disabled) == (0, 1, 0)
        assert found.id != 1


def test_whoever_must_choose_a_password_can_do_nothing_else(
    app: Flask, database: Database, made: SampleApp
) -> None:
    add_user(database, "newcomer", users.Role.ADMINISTRATOR)
    found = database.read(lambda session: users.by_name(session, "newcomer"))
    assert found is not None
    database.write(lambda session: users.require_new_password(session, found.id))
    visit = signed_in(app, "newcomer")
    before = snapshot(database)

    for method in ("GET", "POST"):
        for one in paths(app, made, method):
            if TABLE[one.endpoint].anonymous or one.endpoint.startswith(("account.", "health.")):
                continue
            if one.endpoint == "sign_in.logout":
                continue
            answer = visit.get(one.path) if method == "GET" else visit.post(one.path, FORM)

            assert answer.headers["Location"].partition("?")[0] == "/account", one
    assert snapshot(database) == before

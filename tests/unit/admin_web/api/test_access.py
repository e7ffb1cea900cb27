"""Every route with every scope, and for an app that is not the token's: from the routes alone."""

import re
from typing import Any

import pytest
from flask import Flask

from tests.support.api import Program, make_token
from tests.support.console import Clock, snapshot
from tests.support.sample_app import add_sample_app, dump
from tests.support.stored_rows import Rows
from warren.admin_web.api.application import create_api
from warren.admin_web.api.endpoint import Mounted, endpoint, mounted
from warren.resources.operation import OpenAccess, Scope
from warren.sql.engine import Database

#: What the routes need besides their scope, so that nothing but the scope is at fault.
QUERIES = {"ledger": {}, "runs.index": {"job": "reports/job"}}
HEADERS = {"If-Match": "*"}


def views(api: Flask) -> list[Mounted]:
    found: list[Mounted] = api.extensions["warren_views"]
    return found


def call(
    program: Program, one: Mounted, values: dict[str, Any], body: dict[str, Any] | None = None
) -> Any:
    path = re.sub(r"<(?:\w+:)?(\w+)>", lambda name: str(values[name[1]]), one.endpoint.rule)
    options: dict[str, Any] = {"headers": HEADERS}
    if one.endpoint.body is not None:
        options["json"] = body or {}
    return program.call(one.endpoint.method, path, **options)


VALUES = {
    "app": "reports",
    "name": "job",
    "job": "job",
    "address": "executor",
    "limit": "none",
}


def test_every_scope_opens_its_own_routes_and_no_other(
    api: Flask, database: Database, clock: Clock, rows: Rows
) -> None:
    made = add_sample_app(rows, "reports", lambda name: name, clock.now)
    values = VALUES | made.ids
    programs = {scope: Program(api, make_token(database, clock, scopes=[scope])) for scope in Scope}

    for one in views(api):
        if one.endpoint.method != "GET":
            continue
        for scope, program in programs.items():
            answer = call(program, one, values)
            opens = one.endpoint.access in (scope, *OpenAccess)
            assert (answer.status_code != 403) == opens, (one.name, scope, answer.text)
            assert answer.status_code < 500, (one.name, answer.text)


def test_what_changes_anything_is_shut_to_every_other_scope(
    api: Flask, database: Database, clock: Clock, rows: Rows
) -> None:
    made = add_sample_app(rows, "reports", lambda name: name, clock.now)
    programs = {scope: Program(api, make_token(database, clock, scopes=[scope])) for scope in Scope}
    for program in programs.values():
        program.get("/whoami")
    before = snapshot(database)
    changes = [one for one in views(api) if one.endpoint.method != "GET"]
    open_ones = {one.name for one in changes if isinstance(one.endpoint.access, OpenAccess)}

    # A login is how a command gets its token, which may end itself.
    assert open_ones == {"logins.ask", "logins.give", "meta.revoke"}
    for one in changes:
        for scope, program in programs.items():
            if one.endpoint.access != scope and one.name not in open_ones:
                answer = call(program, one, VALUES | made.ids)
                assert answer.status_code == 403, (one.name, scope, answer.text)

    assert snapshot(database) == before


def test_a_foreign_app_does_not_exist_on_any_route(
    api: Flask, database: Database, clock: Clock, rows: Rows
) -> None:
    # Schedulers, and who paused them, are everybody's.
    shown = {"job", "executor", "scheduler", "failing-role", "paused-by", "pause-reason"}

    def text(name: str) -> str:
        return name if name in shown else f"hidden-{name}"

    made = add_sample_app(rows, "mails", text, clock.now)
    stranger = Program(api, make_token(database, clock, "scripter"))
    stranger.get("/whoami")
    before = dump(rows)
    values = VALUES | made.ids | {"app": "mails"}

    for one in views(api):
        answer = call(stranger, one, values)
        is_about_an_app = "<" in one.endpoint.rule
        if is_about_an_app and one.endpoint.access is not Scope.ADMIN:
            # A condition on what is not there cannot hold; all else is not found.
            assert answer.status_code in (404, 412, 422), (one.name, answer.text)
        assert "hidden" not in answer.text, one.name

    assert dump(rows) == before


def test_a_view_without_a_scope_makes_the_start_fail() -> None:
    class Shut:
        name = "shut"

        @endpoint("GET", "/shut", None, None)  # type: ignore[arg-type]
        def view(self, _call: Any) -> None:
            """Show nothing."""

    with pytest.raises(LookupError, match=r"views without a scope: shut\.view"):
        mounted([Shut()])


def test_every_route_is_a_view(api: Flask) -> None:
    rules = {rule.endpoint for rule in api.url_map.iter_rules()}

    assert rules == {one.name for one in views(api)} | {"health"}
    assert callable(create_api)

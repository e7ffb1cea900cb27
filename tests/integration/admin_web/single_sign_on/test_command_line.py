"""`warren login` of people who sign in at the provider: out of the group, their commands stop."""

from typing import Any

import pytest

from tests.support.api import Program, make_api
from tests.support.console import Clock, Visit
from tests.support.sso import SsoConsole
from warren.scheduler.commands.command_logins import challenge_of
from warren.sql.accounts.users import Role
from warren.sql.engine import Database

VERIFIER = "v" * 43


@pytest.fixture
def program(database: Database, clock: Clock) -> Program:
    """A command without a token."""
    return Program(make_api(database, clock, console_url="http://localhost"), "")


def log_in(program: Program, console: SsoConsole, visit: Visit, name: str) -> str:
    """Return the token of a login by somebody who signs in at the provider on the way."""
    wish: dict[str, Any] = {"challenge": challenge_of(VERIFIER), "machine": "laptop"}
    login = program.post("/logins", wish | {"port": 40_000, "state": "s"}).get_json()
    path = login["page"].removeprefix("http://localhost")
    there = visit.get(path).headers["Location"]
    start = there.replace("/login?", "/sso/start?")
    page = console.sign_in(visit, name, start).headers["Location"]
    assert page == path
    visit.get(page)
    answer = visit.post("/cli/allow", {"key": path.partition("=")[2], "scopes": "read"})
    code = answer.headers["Location"].partition("code=")[2]
    given = program.post("/logins/token", {"verifier": VERIFIER, "code": code}).get_json()
    token: str = given["token"]
    return token


def test_out_of_the_group_the_token_stops_within_fifteen_minutes(
    console: SsoConsole, visit: Visit, program: Program, clock: Clock
) -> None:
    console.rule("data", Role.VIEWER, "reports")
    person = console.provider.add("olga", "data")
    program.token = log_in(program, console, visit, "olga")
    assert program.get("/whoami").get_json()["owner"] == "olga"

    clock.pass_seconds(301)
    console.reader.run_round()
    assert program.get("/whoami").status_code == 200
    person.groups = []
    clock.pass_seconds(301)
    console.reader.run_round()

    refused = program.get("/whoami")
    assert refused.status_code == 401
    assert "olga has to sign in at the console again" in refused.get_json()["detail"]


def test_without_a_refresh_token_it_works_until_twelve_hours_after_the_sign_in(
    console: SsoConsole, visit: Visit, program: Program, clock: Clock
) -> None:
    console.rule("data", Role.VIEWER, "reports")
    console.provider.add("olga", "data")
    console.provider.faults.gives_refresh_tokens = False
    program.token = log_in(program, console, visit, "olga")

    clock.pass_seconds(12 * 3_600 - 1)
    assert program.get("/whoami").status_code == 200
    clock.pass_seconds(1)

    assert program.get("/whoami").status_code == 401

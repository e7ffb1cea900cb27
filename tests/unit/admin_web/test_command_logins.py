"""`warren login` as the API and the console see it: asked, decided by a user, given once."""

import re
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from tests.support.acting import NamedUsers
from tests.support.api import Program, make_api
from tests.support.console import Clock, Visit, signed_in
from warren.scheduler.commands.command_logins import CODE_LIMIT, LIFE_SECONDS, challenge_of
from warren.sql.engine import Database
from warren.sql.models import ApiToken, AuditEntry, CommandLogin

VERIFIER = "verifier-of-the-tests-" + "v" * 43
STATE = "state-of-the-tests"
CONSOLE = "https://warren.example.com"


@pytest.fixture
def program(database: Database, clock: Clock) -> Program:
    """A command without a token."""
    return Program(make_api(database, clock, console_url=CONSOLE), "")


@pytest.fixture
def operator(app: Flask) -> Visit:
    return signed_in(app, "operator")


def wish(verifier: str = VERIFIER, **fields: Any) -> dict[str, Any]:
    return {"challenge": challenge_of(verifier), "machine": "laptop"} | fields


def asked(program: Program, **fields: Any) -> dict[str, Any]:
    answer = program.post("/logins", wish(**fields))
    assert answer.status_code == 201, answer.text
    known: dict[str, Any] = answer.get_json()
    return known


def token(program: Program, code: str = "", verifier: str = VERIFIER) -> dict[str, Any]:
    answer = program.post("/logins/token", {"verifier": verifier, "code": code})
    known: dict[str, Any] = answer.get_json()
    return known | {"status": answer.status_code}


def allow(visit: Visit, key: str, *scopes: str) -> str:
    answer = visit.post("/cli/allow", {"key": key, "scopes": [*scopes] or ["read", "trigger"]})
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"]


def linked(program: Program, port: int = 40_000) -> str:
    page = asked(program, port=port, state=STATE)["page"]
    assert page.startswith(f"{CONSOLE}/cli?request=")
    return str(page.partition("=")[2])


def entries(database: Database, kind: str) -> list[tuple[str, str, str]]:
    statement = select(AuditEntry.action, AuditEntry.who, AuditEntry.name).where(
        AuditEntry.kind == kind
    )
    return [tuple(row) for row in database.read(lambda session: session.execute(statement).all())]


class TestByCode:
    def test_the_user_types_the_code_and_the_command_gets_a_token_of_that_user(
        self, program: Program, operator: Visit, database: Database, clock: Clock
    ) -> None:
        login = asked(program, days=3)
        assert login["page"] == f"{CONSOLE}/cli"
        assert re.fullmatch("[B-Z]{4}-[B-Z]{4}", login["code"])
        assert token(program) == {
            "state": "waiting",
            "token": None,
            "name": None,
            "owner": None,
            "expires_at": None,
            "status": 200,
        }

        page = operator.post("/cli/code", {"code": login["code"].lower().replace("-", " ")})
        assert "Let the command line on laptop act for you?" in page.text
        assert login["code"] in page.text
        assert "127.0.0.1" in page.text
        assert "valid for 3 days" in page.text
        assert allow(operator, login["code"]) == "/cli/done?outcome=allowed"
        given = token(program)

        program.token = given["token"]
        who = program.get("/whoami").get_json()
        assert (who["owner"], who["scopes"], who["apps"]) == (
            "operator",
            ["read", "trigger"],
            ["reports"],
        )
        assert re.fullmatch("login-laptop-[0-9a-f]{8}", given["name"])
        assert entries(database, "login") == [("login.allow", "operator", "laptop")]
        assert entries(database, "token") == [("token.add", "operator", given["name"])]
        clock.pass_seconds(3 * 86_400)
        assert program.get("/whoami").status_code == 401

    def test_a_token_is_given_once(self, program: Program, operator: Visit) -> None:
        code = asked(program)["code"]
        operator.post("/cli/code", {"code": code})
        allow(operator, code)

        assert token(program)["state"] == "allowed"
        assert token(program)["status"] == 410

    def test_only_who_asked_gets_it(self, program: Program, operator: Visit) -> None:
        code = asked(program)["code"]
        operator.post("/cli/code", {"code": code})
        allow(operator, code)

        assert token(program, verifier="another-" + "x" * 43)["status"] == 410
        assert token(program)["state"] == "allowed"

    def test_a_link_with_a_code_shows_nothing(self, program: Program, operator: Visit) -> None:
        code = asked(program)["code"]

        page = operator.get(f"/cli?request={code}")

        assert page.status_code == 404
        assert "This login has already been answered" in page.text

    def test_a_code_that_was_not_typed_cannot_be_allowed(
        self, app: Flask, program: Program, operator: Visit
    ) -> None:
        code = asked(program)["code"]
        refused = operator.post("/cli/allow", {"key": code, "scopes": "read"})
        signed_in(app, "viewer").post("/cli/code", {"code": code})
        stolen = operator.post("/cli/code", {"code": code})

        assert (refused.status_code, stolen.status_code) == (404, 422)
        assert token(program)["state"] == "waiting"

    def test_codes_cannot_be_guessed(self, operator: Visit, clock: Clock) -> None:
        answers = [
            operator.post("/cli/code", {"code": f"BBBB-BBB{letter}"}) for letter in "BCDFGHJKLMN"
        ]

        assert [answer.status_code for answer in answers[: CODE_LIMIT[0]]] == [422] * CODE_LIMIT[0]
        assert "No command is waiting with this code." in answers[0].text
        assert answers[-1].status_code == 429
        assert answers[-1].headers["Retry-After"] == "30"
        clock.pass_seconds(30)
        assert operator.post("/cli/code", {"code": "BBBB-BBBB"}).status_code == 422

    @pytest.mark.parametrize("typed", ["", "x" * 101])
    def test_what_is_no_code_is_named(self, operator: Visit, typed: str) -> None:
        assert operator.post("/cli/code", {"code": typed}).status_code == 422

    def test_it_ends_after_ten_minutes(
        self, program: Program, operator: Visit, clock: Clock
    ) -> None:
        code = asked(program)["code"]
        clock.pass_seconds(LIFE_SECONDS)

        assert operator.post("/cli/code", {"code": code}).status_code == 422
        assert token(program)["status"] == 410


class TestByBrowser:
    def test_the_browser_takes_a_code_to_the_command(
        self, program: Program, operator: Visit
    ) -> None:
        key = linked(program)

        page = operator.get(f"/cli?request={key}")
        back = allow(operator, key)

        assert (
            "form-action 'self' http://127.0.0.1:40000;" in page.headers["Content-Security-Policy"]
        )
        found = re.fullmatch(rf"http://127\.0\.0\.1:40000/\?state={STATE}&code=([\w-]{{43}})", back)
        assert found is not None
        assert token(program)["status"] == 410  # without what the browser brings
        assert token(program, code=found[1])["owner"] == "operator"

    def test_refused_it_gives_nothing(
        self, program: Program, operator: Visit, database: Database
    ) -> None:
        key = linked(program)

        answer = operator.post("/cli/refuse", {"key": key})

        assert answer.headers["Location"] == (
            f"http://127.0.0.1:40000/?state={STATE}&error=refused"
        )
        assert token(program)["state"] == "refused"
        assert token(program)["status"] == 410
        assert entries(database, "login") == [("login.refuse", "operator", "laptop")]

    def test_it_is_decided_once(self, program: Program, operator: Visit) -> None:
        key = linked(program)
        allow(operator, key)

        again = operator.post("/cli/allow", {"key": key, "scopes": "read"})

        assert again.status_code == 404
        assert "This login has already been answered" in again.text

    def test_who_has_not_signed_in_does_so_first(self, program: Program, visit: Visit) -> None:
        key = linked(program)

        to_login = visit.get(f"/cli?request={key}").headers["Location"]
        there = visit.sign_in("operator", path=to_login).headers["Location"]

        assert there == f"/cli?request={key}"
        assert visit.get(there).status_code == 200


class TestRights:
    def test_scopes_are_those_that_the_user_has(self, program: Program, app: Flask) -> None:
        viewer, key = signed_in(app, "viewer"), linked(program)

        page = viewer.get(f"/cli?request={key}").text
        wrong = viewer.post("/cli/allow", {"key": key, "scopes": ["read", "admin"]})

        assert re.findall(r'name="scopes" value="(\w+)" checked', page) == ["read", "logs"]
        assert wrong.headers["Location"] == f"/cli?request={key}"
        assert token(program)["state"] == "waiting"

    def test_nothing_is_given_after_the_user_has_changed(
        self, program: Program, operator: Visit, database: Database
    ) -> None:
        code = asked(program)["code"]
        operator.post("/cli/code", {"code": code})
        allow(operator, code)
        users = NamedUsers(database, who="cli:tests")

        users.disable("operator")

        assert token(program)["state"] == "refused"
        assert database.read(lambda s: s.scalars(select(ApiToken)).all()) == []


class TestAsking:
    @pytest.mark.parametrize(
        "fields",
        [
            {"challenge": "short"},
            {"machine": ""},
            {"machine": "a b"},
            {"machine": "<b>"},
            {"port": 80},
            {"port": 70_000},
            {"state": "a b"},
            {"days": 0},
            {"days": 367},
        ],
    )
    def test_what_is_wrong_is_named(self, program: Program, fields: dict[str, Any]) -> None:
        answer = program.post("/logins", wish() | fields)

        [name] = fields
        assert answer.status_code == 422
        assert name in answer.text

    def test_a_question_that_was_sent_twice_is_one(
        self, program: Program, database: Database
    ) -> None:
        asked(program)
        second = asked(program)

        rows = database.read(lambda session: session.scalars(select(CommandLogin)).all())
        assert len(rows) == 1
        assert second["code"] not in str(vars(rows[0]))

    def test_an_address_may_not_ask_without_end(self, program: Program) -> None:
        statuses = [
            program.post("/logins", wish(f"{VERIFIER}{count}")).status_code for count in range(21)
        ]

        assert statuses == [201] * 20 + [429]

    def test_an_api_that_knows_no_console_says_so(self, database: Database, clock: Clock) -> None:
        answer = Program(make_api(database, clock), "").post("/logins", wish())

        assert answer.status_code == 409
        assert "set WARREN_CONSOLE_URL" in answer.text


def test_a_token_can_revoke_itself(program: Program, operator: Visit, database: Database) -> None:
    code = asked(program)["code"]
    operator.post("/cli/code", {"code": code})
    allow(operator, code)
    given = token(program)
    program.token = given["token"]

    assert program.call("DELETE", "/whoami/token").status_code == 204

    assert program.get("/whoami").status_code == 401
    assert entries(database, "token")[-1] == (
        "token.revoke",
        f"token:{given['name']}",
        given["name"],
    )

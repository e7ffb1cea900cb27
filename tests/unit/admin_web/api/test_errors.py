"""What bad input gets: one problem that names it, and nothing half-done."""

import json
import secrets
from typing import Any

import pytest
from flask import Flask
from structlog.testing import capture_logs

from tests.support.acting import NamedUsers, acting
from tests.support.api import BASE, Program, make_api, make_token
from tests.support.console import Clock
from tests.support.stored_rows import Rows
from warren.admin_web.api.authentication import RateLimits
from warren.admin_web.services import ApiLimits
from warren.resources.operation import Scope
from warren.scheduler.commands.token_text import new_token
from warren.sql.accounts import tokens
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

#: As a token looks, and nobody's.
UNKNOWN = "wrn_QDHumgX_UiBhtCY_CdKWVXpfOyWd3F0ZE7_OJsXGub40oR70O"


def problem_of(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.content_type == "application/problem+json"
    found: dict[str, Any] = answer.get_json()
    assert set(found) == {"type", "title", "status", "detail", "instance", "errors"}
    assert found["status"] == status
    return found


class TestTokens:
    @pytest.mark.parametrize(
        "header",
        [
            "",
            "Bearer",
            "Bearer  ",
            "Basic YTpi",
            "Bearer nonsense",
            f"Bearer {UNKNOWN}",
            f"Bearer {UNKNOWN[:-1]}",
            "Bearer ä",
        ],
    )
    def test_without_a_token_that_counts_nobody_gets_in(self, api: Flask, header: str) -> None:
        answer = Program(api, "").get("/jobs", headers={"Authorization": header})

        problem_of(answer, 401)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")

    def test_a_revoked_token_counts_no_more(self, admin: Program, rows: Rows) -> None:
        [listed] = rows.database.read(tokens.listing)
        assert admin.get("/jobs").status_code == 200

        acting(rows.database).tokens.revoke(listed.token.id)

        assert "revoked" in problem_of(admin.get("/jobs"), 401)["detail"]

    def test_an_expired_token_counts_no_more(
        self, api: Flask, database: Database, clock: Clock
    ) -> None:
        program = Program(api, make_token(database, clock, days=1))
        assert program.get("/jobs").status_code == 200

        clock.pass_seconds(86_400)

        assert "expired" in problem_of(program.get("/jobs"), 401)["detail"]

    def test_the_token_of_a_disabled_owner_counts_no_more(
        self, program: Any, database: Database
    ) -> None:
        caller = program("operator")
        assert caller.get("/jobs").status_code == 200

        NamedUsers(database, who="cli").disable("operator")

        assert "disabled" in problem_of(caller.get("/jobs"), 401)["detail"]

    def test_a_token_without_the_scope_is_told_which(self, program: Any) -> None:
        answer = program(scopes=[Scope.READ]).call("POST", "/cluster/pause")

        assert "no scope admin" in problem_of(answer, 403)["detail"]

    def test_unknown_tokens_are_charged_like_wrong_passwords(self, api: Flask) -> None:
        guesser = Program(api, "", address="10.9.8.7")

        answers = [
            guesser.get("/jobs", headers={"Authorization": f"Bearer {new_token()}"})
            for _ in range(16)
        ]

        assert [answer.status_code for answer in answers] == [401] * 15 + [429]
        assert int(answers[-1].headers["Retry-After"]) > 0

    def test_a_right_token_is_let_in_where_others_guess(self, api: Flask, admin: Program) -> None:
        guesser = Program(api, new_token())
        for _ in range(16):
            guesser.get("/jobs")

        assert admin.get("/jobs").status_code == 200

    def test_a_token_that_calls_too_often_has_to_wait(
        self, database: Database, clock: Clock
    ) -> None:
        limits = ApiLimits(requests=0.1, requests_at_once=2)
        app = make_api(database, clock, limits=limits)
        eager = Program(app, make_token(database, clock))
        other = Program(app, make_token(database, clock))

        answers = [eager.get("/jobs") for _ in range(3)]

        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert 0 < int(answers[2].headers["Retry-After"]) <= 11
        assert other.get("/jobs").status_code == 200

    def test_a_burst_is_one_call_at_least(self) -> None:
        now = 0.0
        limits = RateLimits(0.1, 0.5, lambda: now)

        waits = [limits.take(1), limits.take(1)]
        now += waits[1]

        assert waits == [0, 10]
        assert limits.take(1) == 0

    def test_triggers_have_a_limit_of_their_own(
        self, database: Database, clock: Clock, rows: Rows
    ) -> None:
        rows.job("nightly")
        app = make_api(database, clock, limits=ApiLimits(triggers=0.1, triggers_at_once=1))
        eager = Program(app, make_token(database, clock))

        answers = [eager.post("/jobs/reports/nightly/runs") for _ in range(2)]

        assert [answer.status_code for answer in answers] == [202, 429]
        assert eager.get("/jobs").status_code == 200

    def test_what_a_token_may_is_told(self, program: Any) -> None:
        caller = program("operator", scopes=[Scope.READ, Scope.TRIGGER], name="deploy")

        assert caller.get("/whoami").get_json() == {
            "token": "deploy",
            "owner": "operator",
            "scopes": ["read", "trigger"],
            "apps": ["reports"],
            "jobs": None,
        }

    def test_what_its_owner_may_no_longer_is_not_what_a_token_may(
        self, program: Any, database: Database, rows: Rows
    ) -> None:
        mine = rows.job("nightly")
        caller = program("operator", scopes=[Scope.READ, Scope.TRIGGER], job_ids=[mine])

        NamedUsers(database, who="cli").set_rights(
            "operator", role=Role.VIEWER, app_names=["mails"]
        )

        may = caller.get("/whoami").get_json()
        assert (may["scopes"], may["apps"], may["jobs"]) == (["read"], [], [])


class TestRequests:
    def test_what_is_no_json_is_told(self, admin: Program) -> None:
        for data in (b"{", b"\xff", b'{"a":NaN}', b"[" * 100_000):
            answer = admin.put(
                "/apps/reports", None, data=data, headers={"Content-Type": "application/json"}
            )
            problem_of(answer, 400)

    @pytest.mark.parametrize("body", [[], "x", 1, None, True])
    def test_what_is_no_object_is_told(self, admin: Program, body: Any) -> None:
        answer = admin.call(
            "PUT",
            "/apps/reports",
            data=json.dumps(body),
            headers={"Content-Type": "application/json"},
        )

        problem_of(answer, 422)

    def test_another_type_is_told_with_the_right_one(self, admin: Program) -> None:
        answer = admin.call("PUT", "/apps/reports", data="a: 1", content_type="application/yaml")

        assert "application/json" in problem_of(answer, 415)["detail"]

    def test_a_body_that_is_too_large_is_not_read(self, admin: Program) -> None:
        answer = admin.put("/apps/reports", {"title": "x" * 1_000_001})

        problem_of(answer, 413)

    def test_a_path_that_is_none_is_told(self, admin: Program) -> None:
        problem_of(admin.get("/nothing"), 404)
        problem_of(admin.get("/runs/99999999999999999999"), 404)

    def test_a_parameter_that_is_no_choice_is_told_all_of_them(self, admin: Program) -> None:
        told = problem_of(admin.get("/runs?status=NOPE"), 422)["errors"]

        assert told[0]["detail"].startswith("Expected one of CANCELLED, FAILED, KILLED, ")
        assert told[0]["detail"].endswith(", UNDELIVERED, got: 'NOPE'")

    def test_another_method_is_told_with_the_right_ones(self, admin: Program) -> None:
        answer = admin.call("DELETE", "/jobs")

        told = problem_of(answer, 405)
        assert told["detail"] == "/api/v1/jobs takes no DELETE, only GET, HEAD, OPTIONS"
        assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"

    def test_methods_of_a_path_are_told(self, admin: Program) -> None:
        answer = admin.call("OPTIONS", "/jobs/demo/nightly")

        assert (answer.status_code, answer.data) == (204, b"")
        assert answer.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"
        problem_of(admin.call("OPTIONS", "/nothing"), 404)

    def test_a_text_of_null_is_no_value_that_is_missing(self, admin: Program) -> None:
        problem_of(admin.get("/jobs?enabled=null"), 422)
        assert admin.get("/jobs?q=null").status_code == 200

    def test_very_many_parameters_are_refused(self, admin: Program) -> None:
        problem_of(admin.get("/jobs?" + "&".join(f"a{n}=1" for n in range(200))), 400)

    def test_what_stands_against_it_is_a_conflict(self, admin: Program, rows: Rows) -> None:
        rows.job("nightly")

        answer = admin.call("DELETE", "/apps/reports")

        assert problem_of(answer, 409)["errors"][0]["code"] == "app_in_use"

    def test_a_lost_database_is_told_with_when_to_come_again(
        self, admin: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(*_: Any) -> None:
            raise DatabaseUnavailable("cannot reach mysql://host: refused")

        monkeypatch.setattr(Database, "read", lost)
        answer = admin.get("/jobs")

        found = problem_of(answer, 503)
        assert answer.headers["Retry-After"]
        assert "mysql" not in answer.text
        assert "urn:warren:error:" in found["instance"]

    def test_an_error_of_ours_is_a_number_and_never_a_trace(
        self, admin: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = secrets.token_hex()

        def broken(*_: Any) -> None:
            raise RuntimeError(words)

        monkeypatch.setattr(Database, "read", broken)
        with capture_logs() as logs:
            answer = admin.get("/jobs")

        found = problem_of(answer, 500)
        assert words not in answer.text
        [entry] = [one for one in logs if one["event"] == "api_call_failed"]
        assert entry["number"] in found["detail"]

    def test_answers_are_kept_by_nobody_and_run_nowhere(self, admin: Program) -> None:
        headers = admin.get("/jobs").headers

        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Set-Cookie" not in headers

    def test_health_is_told_to_anybody(self, api: Flask) -> None:
        answer = api.test_client().get("/healthz")

        assert answer.get_json() == {"status": "ok", "broker": True}
        for path in (BASE, f"{BASE}/"):
            assert api.test_client().get(path).get_json()["name"] == "warren"


def test_an_answer_names_a_hundred_problems_at_most(admin: Program) -> None:
    answer = admin.post("/apply", {"jobs": [0] * 5_000})

    assert len(problem_of(answer, answer.status_code)["errors"]) == 100


@pytest.mark.parametrize("days", ["until=0001-01-01", "since=9999-12-31&until=9999-12-31"])
def test_the_first_and_the_last_day_of_all_are_days(admin: Program, days: str) -> None:
    assert admin.get(f"/reports/days?{days}").status_code == 200


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"enabled": True}, "schedule"),
        ({"enabled": True, "schedule": {"at": "2001-01-01T00:00:00Z"}}, "schedule"),
        ({"children": ["nobody"]}, "children"),
        ({"children": ["b"]}, "children"),
    ],
)
def test_a_problem_of_a_job_file_leads_to_the_job(
    admin: Program, rows: Rows, job: dict[str, Any], field: str
) -> None:
    jobs = [{"name": name, "app": "reports", "handler": "h"} for name in ("a", "b")]

    answer = admin.post("/apply", {"jobs": [jobs[0], jobs[1] | job]})

    [error] = problem_of(answer, 422)["errors"]
    assert error["pointer"] == f"/jobs/1/{field}"


def test_a_problem_of_a_yaml_file_has_its_line_and_its_rule(admin: Program, rows: Rows) -> None:
    file = "jobs:\n- name: a\n  app: reports\n  handler: h\n  retries: -1\n  colour: red\n"

    answer = admin.post("/apply", data=file, content_type="application/yaml")

    told = problem_of(answer, 422)
    assert told["detail"] == "the job file has 2 problems"
    assert [(one["line"], one.get("code")) for one in told["errors"]] == [
        (5, "integer"),
        (6, None),
    ]


def test_a_yaml_file_with_many_problems_tells_the_first_50(admin: Program) -> None:
    many = "\n".join(f"field{number}: 1" for number in range(60))

    answer = admin.post("/apply", data=many, content_type="application/yaml")

    told = problem_of(answer, 422)
    assert told["detail"] == "the job file has 60 problems; these are the first 50"
    assert [one["line"] for one in told["errors"]] == list(range(1, 51))


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"PATH_INFO": f"{BASE}/jobs/reports/\xc8\xd5\xb1\xa8"}, "expected the path in UTF-8"),
        ({"QUERY_STRING": "name=%C8%D5%B1%A8"}, "expected the query in UTF-8"),
    ],
)
def test_names_in_another_encoding_are_not_taken_for_others(
    admin: Program, rows: Rows, environ: dict[str, str], words: str
) -> None:
    answer = admin.put(
        "/jobs/reports/x",
        {"handler": "report.daily"},
        headers={"If-None-Match": "*"},
        environ_overrides=environ,
    )

    assert problem_of(answer, 400)["detail"] == words
    assert admin.get("/jobs").get_json()["items"] == []


def test_no_app_takes_the_name_of_a_path(admin: Program, rows: Rows) -> None:
    made = admin.put("/apps/by-id", {"title": "Shadows"})
    applied = admin.post("/apply", {"apps": [{"name": "by-id"}]})
    rows.app("by-id")
    changed = admin.put("/apps/by-id", {"title": "Older than the rule"})

    for refused in (made, applied):
        [error] = problem_of(refused, 422)["errors"]
        assert error["code"] == "app_name_reserved"
        assert "'by-id': that is a path of the HTTP API" in error["detail"]
    assert changed.status_code == 200


def test_an_app_has_the_name_of_its_path(admin: Program) -> None:
    refused = admin.put("/apps/letters", {"name": "mails"})
    made = admin.put("/apps/letters", {"name": "letters"})

    [error] = problem_of(refused, 422)["errors"]
    assert error == {"pointer": "/name", "detail": "expected 'letters' as in the path"}
    assert made.status_code == 201


def test_a_page_of_the_ledger_may_have_fewer_jobs_than_its_limit(
    admin: Program, rows: Rows
) -> None:
    rows.jobs(25)

    page = admin.get("/ledger?limit=200").get_json()
    rest = admin.get(f"/ledger?limit=200&cursor={page['next']}").get_json()

    assert [len(part["items"]) for part in (page, rest)] == [20, 5]
    assert rest["next"] is None


def test_a_ledger_until_the_beginning_of_time_is_not_one_until_now(
    admin: Program, rows: Rows
) -> None:
    rows.job("nightly")

    answer = admin.get("/ledger/reports/nightly?until=1970-01-01T00:00:00Z").get_json()

    assert answer["until"] == "1970-01-01T00:00:00.000+00:00"


@pytest.mark.parametrize("path", ["/jobs", "/runs", "/executors", "/ledger", "/export"])
def test_a_list_of_an_app_that_does_not_exist_is_not_found(admin: Program, path: str) -> None:
    problem = problem_of(admin.get(f"{path}?app=nowhere"), 404)

    assert problem["detail"] == "no app named 'nowhere'"
    assert problem["type"] == "urn:warren:problem:no_app_named"
    assert [error["code"] for error in problem["errors"]] == ["no_app_named"]

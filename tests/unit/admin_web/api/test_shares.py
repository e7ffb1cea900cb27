"""What one token may take and see: its share of the places, and no more than its own jobs."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from flask import Flask

from tests.support.acting import NamedUsers
from tests.support.api import Program, make_api, make_token
from tests.support.console import PASSWORD, Clock, Visit, make_app
from tests.support.stored_rows import Rows
from warren.admin_web.api.authentication import ConcurrencyLimits
from warren.admin_web.api.endpoints import activity
from warren.admin_web.services import ApiLimits
from warren.sql.accounts.users import Role
from warren.sql.engine import Database

NEW = {"If-None-Match": "*"}


class TestPlaces:
    def test_one_key_takes_its_part_and_leaves_the_rest(self) -> None:
        places = ConcurrencyLimits(3, per_key=2)

        with ExitStack() as stack:
            taken = [stack.enter_context(places.taken(key)) for key in (1, 1, 1, 2, 3)]

        assert taken == [True, True, False, True, False]

    def test_a_place_is_free_again_even_after_a_failure(self) -> None:
        places = ConcurrencyLimits(1, per_key=1)

        with pytest.raises(RuntimeError), places.taken(1):
            raise RuntimeError

        with places.taken(2) as is_taken:
            assert is_taken


def test_what_takes_long_goes_a_few_at_a_time_for_each_user(
    database: Database, clock: Clock, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.job("nightly")
    app = make_api(database, clock, limits=ApiLimits(heavy=2, heavy_of_user=1))
    eager = Program(app, make_token(database, clock))
    other = Program(app, make_token(database, clock, "operator"))
    begun, may_end = threading.Event(), threading.Event()
    audit_job = activity.audit_job

    def slow(*args: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return audit_job(*args)

    monkeypatch.setattr(activity, "audit_job", slow)
    answers: list[Any] = []
    first = threading.Thread(target=lambda: answers.append(eager.get("/ledger")))
    first.start()
    assert begun.wait(60)
    second = eager.get("/export")
    of_another = other.get("/export")
    light = eager.get("/jobs")
    may_end.set()
    first.join(60)

    assert (second.status_code, second.headers["Retry-After"]) == (429, "1")
    assert (of_another.status_code, light.status_code) == (200, 200)
    assert answers[0].status_code == 200
    assert eager.get("/export").status_code == 200


def test_guessed_tokens_leave_people_from_the_same_address_alone(
    api: Flask, database: Database, clock: Clock
) -> None:
    guesser = Program(api, "wrn_none")
    answers = [guesser.get("/jobs") for _ in range(16)]

    person = Visit(make_app(database, clock))
    person.sign_in("viewer", PASSWORD)

    assert answers[-1].status_code == 429
    assert person.get("/jobs").status_code == 200


class TestTokenOfSomeJobs:
    @pytest.fixture
    def mine(self, rows: Rows, clock: Clock, admin: Program) -> int:
        """Make a job with a child that is not the token's, and another app."""
        rows.job("hidden-child")
        mine = rows.job("mine")
        rows.job("hidden-mail", app="mails")
        body = {"handler": "h", "children": ["hidden-child"]}
        answer = admin.put("/jobs/reports/mine", body, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text
        rows.run(mine, clock.now)
        return mine

    def test_it_sees_nothing_of_other_jobs_and_apps(
        self, api: Flask, program: Callable[..., Program], mine: int
    ) -> None:
        caller = program(job_ids=[mine])

        assert caller.get("/jobs/reports/mine").get_json()["children"] == []
        assert [app["name"] for app in caller.get("/apps").get_json()["items"]] == ["reports"]
        assert caller.get("/whoami").get_json()["apps"] == ["reports"]
        for one in api.extensions["warren_views"]:
            if one.endpoint.method == "GET" and "<" not in one.endpoint.rule:
                answer = caller.get(one.endpoint.rule)
                assert answer.status_code in (200, 403, 422), (one.name, answer.text)
                assert "hidden-" not in answer.text, one.name

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/executors"),
            ("GET", "/reports/days"),
            ("POST", "/executors/reports/one/drain"),
        ],
    )
    def test_what_is_about_whole_apps_is_shut(
        self, program: Callable[..., Program], mine: int, method: str, path: str
    ) -> None:
        answer = program(job_ids=[mine]).call(method, path)

        assert answer.status_code == 403
        assert "limited to some jobs" in answer.get_json()["detail"]

    def test_an_app_that_its_owner_lost_is_no_app_of_it(
        self, program: Callable[..., Program], database: Database, mine: int
    ) -> None:
        caller = program("operator", job_ids=[mine])
        NamedUsers(database, who="cli").set_rights(
            "operator", role=Role.OPERATOR, app_names=["mails"]
        )

        assert caller.get("/apps").get_json()["items"] == []
        assert caller.get("/jobs").get_json()["items"] == []
        assert caller.get("/jobs/reports/mine").status_code == 404


class TestVersions:
    PATH = "/jobs/reports/nightly"

    def made(self, admin: Program) -> str:
        body = {"handler": "h", "schedule": {"cron": "0 0 2 * * ?"}}
        tag: str = admin.put(self.PATH, body, headers=NEW).headers["ETag"]
        return tag

    def test_a_job_that_was_started_is_told_again(self, admin: Program) -> None:
        tag = self.made(admin)
        admin.post(f"{self.PATH}/start")

        answer = admin.get(self.PATH, headers={"If-None-Match": tag})

        assert (answer.status_code, answer.get_json()["enabled"]) == (200, True)
        again = admin.get(self.PATH, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304

    def test_a_job_that_ran_is_told_again(self, admin: Program, rows: Rows, clock: Clock) -> None:
        tag = self.made(admin)
        job_id = admin.get(self.PATH).get_json()["state"]["id"]
        rows.run(job_id, clock.now, status="FAILED")

        answer = admin.get(self.PATH, headers={"If-None-Match": tag})

        assert (answer.status_code, answer.get_json()["state"]["last_status"]) == (200, "FAILED")

    def test_a_job_that_was_started_meanwhile_can_be_changed(self, admin: Program) -> None:
        tag = self.made(admin)
        admin.post(f"{self.PATH}/start")

        answer = admin.call("PATCH", self.PATH, json={"retries": 1}, headers={"If-Match": tag})

        assert answer.status_code == 200, answer.text


class TestSecrets:
    HOOK = "https://hooks.example.com/secret"

    @pytest.fixture(autouse=True)
    def _app_with_webhook(self, admin: Program) -> None:
        body = {"alarm": {"webhook": self.HOOK}}
        assert admin.put("/apps/reports", body).status_code == 200
        job = {"handler": "h", "alarm": {"webhook": f"{self.HOOK}-of-the-job"}}
        assert admin.put("/jobs/reports/nightly", job, headers=NEW).status_code == 201

    @pytest.mark.parametrize("media", ["application/json", "application/yaml"])
    def test_an_export_shows_an_apps_webhook_to_who_may_change_apps_only(
        self, admin: Program, program: Callable[..., Program], media: str
    ) -> None:
        accept = {"Accept": media}

        whole = admin.get("/export", headers=accept).text
        part = program("operator").get("/export", headers=accept).text

        assert f"{self.HOOK}\n" in whole or f'"{self.HOOK}"' in whole
        assert "nightly" in part
        assert f"{self.HOOK}-of-the-job" in part
        assert f"{self.HOOK}\n" not in part
        assert f'"{self.HOOK}"' not in part

    def test_what_was_exported_changes_nothing_when_it_is_applied(
        self, program: Callable[..., Program]
    ) -> None:
        deployer = program("operator")

        answer = deployer.post("/apply", deployer.get("/export").get_json())

        told = answer.get_json()
        assert (told["changes"], told["unchanged"], told["dry_run"]) == ([], 1, False)

    def test_a_token_whose_owner_may_only_look_sees_hosts_only(
        self, program: Callable[..., Program], database: Database
    ) -> None:
        caller = program("operator")
        assert "secret" in caller.get("/jobs/reports/nightly").text

        NamedUsers(database, who="cli").set_rights(
            "operator", role=Role.VIEWER, app_names=["reports"]
        )

        assert caller.get("/jobs/reports/nightly").status_code == 200
        assert "secret" not in caller.get("/jobs/reports/nightly").text
        assert "secret" not in caller.get("/jobs").text


class TestOwners:
    def test_a_reset_password_ends_the_tokens(
        self, program: Callable[..., Program], database: Database
    ) -> None:
        caller, other = program("operator"), program("viewer")

        NamedUsers(database, who="cli").set_password("operator", "another long password")

        assert "revoked" in caller.get("/jobs").get_json()["detail"]
        assert other.get("/jobs").status_code == 200

    def test_a_user_who_is_enabled_again_needs_new_tokens(
        self, program: Callable[..., Program], database: Database
    ) -> None:
        caller, users = program("operator"), NamedUsers(database, who="cli")

        users.disable("operator")
        assert "disabled" in caller.get("/jobs").get_json()["detail"]
        users.enable("operator")

        assert "revoked" in caller.get("/jobs").get_json()["detail"]

    def test_who_changes_their_own_password_keeps_their_tokens(
        self, program: Callable[..., Program], database: Database
    ) -> None:
        caller = program("operator")

        NamedUsers(database, who="operator").set_password("operator", "another long password")

        assert caller.get("/jobs").status_code == 200


def test_each_token_that_ends_is_in_the_audit_log(
    admin: Program, program: Callable[..., Program], database: Database
) -> None:
    program("operator", name="deploy")

    NamedUsers(database, who="cli:tests").disable("operator")

    [entry] = admin.get("/trail?action=token.revoke").get_json()["items"]
    assert (entry["name"], entry["who"]) == ("deploy", "cli:tests")

"""Runs by the API: triggered once for a key, listed, waited for, killed, and their logs."""

from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from tests.support.api import MANY, Program, make_api, make_token
from tests.support.console import Clock
from tests.support.fixed_logs import FixedLogs
from tests.support.sql_rows import side_by_side
from tests.support.stored_rows import Rows
from warren.resources.operation import Scope
from warren.scheduler.completion.end import TickEnd, tick_end
from warren.sql.engine import Database
from warren.sql.run_status import Kind
from warren.sql.runs import ticks
from warren.sql.runs.ticks import Tick


@pytest.fixture
def job_id(rows: Rows) -> int:
    return rows.job("nightly", param="usual")


RUNS = "/jobs/reports/nightly/runs"


def tick(
    run_ids: list[int], status: str | None = None, deciding_id: int | None = None
) -> dict[str, Any]:
    end = {"is_over": status is not None, "status": status, "deciding_id": deciding_id}
    return end | {"run_ids": run_ids}


def test_a_run_tells_who_called_it_and_whom_it_called(
    admin: Program, rows: Rows, clock: Clock, job_id: int
) -> None:
    caller = rows.run(job_id, clock.now - 9_000, status="SUCCEEDED", started_at=clock.now - 8_000)
    called = rows.run(rows.job("mail"), clock.now - 5_000, status="RUNNING")
    rows.call(caller, called)

    first, second = (admin.get(f"/runs/{each}").get_json() for each in (caller, called))

    assert (first["called_by"], first["calls"]) == (None, [called])
    assert (second["called_by"], second["calls"]) == (caller, [])


def test_runs_of_a_tick_are_listed_with_other_filters(
    admin: Program, rows: Rows, clock: Clock, job_id: int
) -> None:
    shards = [
        rows.run(job_id, clock.now, shard_index=n, shard_total=2, status=status)
        for n, status in enumerate(["FAILED", "SUCCEEDED"])
    ]
    rows.run(job_id, clock.now + 1_000)

    def ids(more: str = "") -> list[int]:
        listed = admin.get(f"/runs?tick_of={shards[0]}{more}").get_json()["items"]
        return [run["id"] for run in listed]

    assert sorted(ids()) == shards
    assert ids("&status=FAILED") == shards[:1]
    assert admin.get("/runs?tick_of=999").status_code == 404


def test_skips_are_listed_page_by_page(
    admin: Program, rows: Rows, clock: Clock, job_id: int
) -> None:
    other = rows.job("other")
    for number in range(3):
        rows.skip(job_id, clock.now - number * 60_000, count=number + 1, reason="late")
    rows.skip(other, clock.now, count=9, reason="paused")

    first = admin.get("/skips?job=reports/nightly&limit=2").get_json()
    rest = admin.get(f"/skips?job=reports/nightly&limit=2&cursor={first['next']}").get_json()
    skips = first["items"] + rest["items"]

    assert [(skip["job"], skip["count"]) for skip in skips] == [
        ("nightly", 1),
        ("nightly", 2),
        ("nightly", 3),
    ]
    assert rest["next"] is None
    assert len(admin.get("/skips").get_json()["items"]) == 4


def test_a_person_may_trigger_a_run_with_a_program(admin: Program, job_id: int) -> None:
    answers = [admin.post(RUNS, body) for body in ({"manual": True}, {})]

    assert [answer.get_json()["kind"] for answer in answers] == ["MANUAL", "API"]


class TestClearing:
    @pytest.fixture
    def ended(self, rows: Rows, clock: Clock, job_id: int) -> list[int]:
        return [rows.run(job_id, clock.now - n * 1_000, status="SUCCEEDED") for n in range(3)]

    def test_ended_runs_of_a_job_are_counted_and_deleted(
        self, admin: Program, ended: list[int]
    ) -> None:
        asked = {"job": "reports/nightly", "keep": 1}

        counted = admin.post("/runs:clear", asked | {"dry_run": True}).get_json()
        cleared = admin.post("/runs:clear", asked).get_json()

        assert counted == cleared == {"count": 2, "is_over": True}
        left = admin.get("/runs").get_json()["items"]
        assert [run["id"] for run in left] == ended[:1]

    @pytest.mark.usefixtures("ended")
    def test_what_takes_too_long_is_left_for_another_call(
        self, database: Database, clock: Clock
    ) -> None:
        api = make_api(database, clock, limits=replace(MANY, clear_seconds=0))
        hurried = Program(api, make_token(database, clock))

        counted = hurried.post("/runs:clear", {"all": True, "dry_run": True})
        cleared = hurried.post("/runs:clear", {"all": True}).get_json()

        assert counted.status_code == 422
        assert "count those of a job or an app" in counted.text
        assert cleared == {"count": 3, "is_over": False}
        assert hurried.post("/runs:clear", {"all": True}).get_json()["is_over"] is True

    @pytest.mark.parametrize("body", [{}, {"all": True, "keep": 1}])
    def test_all_runs_are_deleted_only_if_that_is_said(
        self, admin: Program, ended: list[int], body: dict[str, Any]
    ) -> None:
        answer = admin.post("/runs:clear", body)

        assert answer.status_code == 422
        assert "expected one of before, keep and all" in answer.text
        assert len(admin.get("/runs").get_json()["items"]) == len(ended)


class TestRerun:
    def test_several_runs_are_repeated_together_or_none_is(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        failed = [rows.run(job_id, clock.now - n * 1_000, status="FAILED") for n in (2, 1)]
        key = {"Idempotency-Key": "again-all"}

        refused = admin.post("/runs:rerun", {"run_ids": [*failed, 999]})
        planned = admin.post("/runs:rerun", {"run_ids": failed}, headers=key)
        again = admin.post("/runs:rerun", {"run_ids": failed}, headers=key)

        assert refused.status_code == 404
        assert planned.status_code == 202, planned.text
        repeated = [admin.get(f"/runs/{each}").get_json() for each in planned.get_json()["run_ids"]]
        assert [run["rerun_of"] for run in repeated] == failed
        assert again.headers["Idempotent-Replayed"] == "true"

    def test_of_several_runs_the_newest_due_time_of_each_job_is_repeated_if_asked_for(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        other = rows.job("other")
        failed = [rows.run(job_id, clock.now - n * 1_000, status="FAILED") for n in (3, 1, 2)]
        failed.append(rows.run(other, clock.now - 5_000, status="FAILED"))

        planned = admin.post("/runs:rerun", {"run_ids": failed, "newest": True})

        assert planned.status_code == 202, planned.text
        repeated = [admin.get(f"/runs/{each}").get_json() for each in planned.get_json()["run_ids"]]
        assert [run["rerun_of"] for run in repeated] == [failed[3], failed[1]]

    def test_a_filter_finds_the_failures_to_repeat_and_counts_those_it_leaves_out(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        other = rows.job("other")
        failed = [rows.run(job_id, clock.now - n * 1_000, status="FAILED") for n in (5, 4)]
        failed += [rows.run(other, clock.now - 3_000, status="LOST")]
        rows.run(other, clock.now - 2_000, status="SUCCEEDED")
        gone = rows.run(999, clock.now - 1_000, status="FAILED")
        asked = {"app": "reports", "since": "2020-01-01T00:00:00Z"}

        ahead = admin.post("/runs:rerun", asked | {"dry_run": True}).get_json()
        of_newest = admin.post("/runs:rerun", asked | {"newest": True, "dry_run": True}).get_json()
        planned = admin.post("/runs:rerun", asked | {"job": "reports/nightly"})
        rest = admin.post("/runs:rerun", asked | {"dry_run": True}).get_json()

        assert ahead == {"run_ids": failed, "left_out": {"JOB_GONE": 1}}
        assert of_newest["run_ids"] == failed[1:]
        repeated = [admin.get(f"/runs/{each}").get_json() for each in planned.get_json()["run_ids"]]
        assert [run["rerun_of"] for run in repeated] == failed[:2]
        assert rest["run_ids"] == failed[2:]
        assert gone not in ahead["run_ids"]

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ({}, "expected run_ids or a filter, got: neither"),
            ({"run_ids": [1], "app": "reports"}, "expected run_ids or a filter, got: both"),
            ({"status": ["RUNNING"]}, "expected states of ended runs, got: RUNNING"),
            ({"unresolved": True, "status": ["SUCCEEDED"]}, "expected one of FAILED, LOST"),
            ({"app": "reports"}, "no run that can be repeated matches"),
            ({"app": "reports", "since": "yesterday"}, "since"),
        ],
    )
    @pytest.mark.usefixtures("job_id")
    def test_a_filter_that_says_nothing_is_refused(
        self, admin: Program, body: dict[str, Any], why: str
    ) -> None:
        refused = admin.post("/runs:rerun", body)

        assert refused.status_code == 422
        assert why in refused.text

    def test_a_filter_with_a_key_repeats_once_although_it_finds_other_runs_later(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        rows.run(job_id, clock.now, status="FAILED")
        key = {"Idempotency-Key": "again-all"}

        first = admin.post("/runs:rerun", {"app": "reports"}, headers=key)
        rows.run(job_id, clock.now + 1, status="FAILED")
        again = admin.post("/runs:rerun", {"app": "reports"}, headers=key)
        other = admin.post("/runs:rerun", {"job": "reports/nightly"}, headers=key)

        assert first.status_code == again.status_code == 202
        assert again.get_json()["run_ids"] == first.get_json()["run_ids"]
        assert again.headers["Idempotent-Replayed"] == "true"
        assert other.status_code == 422
        assert len(admin.get("/runs?kind=RERUN").get_json()["items"]) == 1

    def test_children_that_ran_are_named_to_whoever_asks_about_them(
        self, admin: Program, rows: Rows, clock: Clock
    ) -> None:
        child = rows.job("mails")
        parent = rows.job("parent", child_ids=str(child))
        run_id = rows.run(parent, clock.now, status="SUCCEEDED")
        rows.run(child, clock.now, status="SUCCEEDED", kind=Kind.PARENT, origin_id=run_id)

        [why] = admin.post(f"/runs/{run_id}/rerun", {}).get_json()["errors"]

        assert why["code"] == "rerun_children"
        assert why["facts"] == {"id": str(run_id), "children": "reports/mails"}

    def test_a_run_is_repeated_for_its_due_time_once_for_a_key(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        at_ms = clock.now - 3_600_000
        failed = rows.run(job_id, at_ms, status="FAILED", param="that night's")
        key = {"Idempotency-Key": "again-1"}

        first = admin.post(f"/runs/{failed}/rerun", {}, headers=key)
        again = admin.post(f"/runs/{failed}/rerun", {}, headers=key)

        run = first.get_json()
        assert first.status_code == 202, first.text
        assert (run["kind"], run["rerun_of"], run["param"]) == ("RERUN", failed, "that night's")
        assert run["scheduled_at"] == admin.get(f"/runs/{failed}").get_json()["scheduled_at"]
        assert run["tick"] == tick([failed, run["id"]])
        assert again.get_json()["id"] == run["id"]
        assert again.headers["Idempotent-Replayed"] == "true"

    def test_what_stands_against_it_is_told(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        running = rows.run(job_id, clock.now, status="RUNNING")

        answer = admin.post(f"/runs/{running}/rerun", {})

        assert answer.status_code == 409
        assert "is still RUNNING; wait for its end, or kill it" in answer.text

    def test_only_what_is_failed_now_is_listed(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        mended = rows.run(job_id, clock.now - 1_000, status="FAILED")
        rows.run(job_id, clock.now - 1_000, status="SUCCEEDED", origin_id=10**9, rerun_of=mended)
        failed = rows.run(job_id, clock.now - 2_000, status="LOST")

        found = admin.get("/runs?unresolved=true").get_json()["items"]

        assert [run["id"] for run in found] == [failed]
        assert admin.get("/runs?unresolved=true&status=RUNNING").status_code == 422


@pytest.mark.usefixtures("job_id")
class TestTrigger:
    def test_a_job_runs_now(self, admin: Program) -> None:
        answer = admin.post(RUNS, {"param": "x"})

        run = answer.get_json()
        assert answer.status_code == 202, answer.text
        assert answer.headers["Location"] == f"/api/v1/runs/{run['id']}"
        assert (run["status"], run["kind"], run["param"]) == ("PLANNED", "API", "x")
        assert run["tick"] == tick([run["id"]])
        shown = admin.get(f"/runs/{run['id']}").get_json()
        assert run == shown | {"warnings": run["warnings"]}

    def test_without_a_body_it_runs_with_its_own_param(self, admin: Program) -> None:
        assert admin.call("POST", RUNS).get_json()["param"] == "usual"

    def test_an_unknown_executor_is_refused_at_its_place(self, admin: Program) -> None:
        answer = admin.post(RUNS, {"addresses": ["nobody"]})

        assert answer.status_code == 422
        assert answer.get_json()["errors"][0]["pointer"] == "/addresses"

    def test_a_key_makes_one_run(self, admin: Program) -> None:
        key = {"Idempotency-Key": "deploy-1"}

        first = admin.post(RUNS, {"param": "x"}, headers=key)
        again = admin.post(RUNS, {"param": "x"}, headers=key)
        other = admin.post(RUNS, {"param": "y"}, headers=key)

        assert again.get_json()["id"] == first.get_json()["id"]
        assert "Idempotent-Replayed" not in first.headers
        assert again.headers["Idempotent-Replayed"] == "true"
        assert other.status_code == 422
        assert other.get_json()["errors"][0]["code"] == "key_reused"
        assert len(admin.get("/runs?job=reports/nightly").get_json()["items"]) == 1

    def test_a_key_is_its_owners(self, admin: Program, program: Any) -> None:
        key = {"Idempotency-Key": "deploy-1"}

        first = admin.post(RUNS, headers=key).get_json()
        same_owner = program().post(RUNS, headers=key).get_json()
        another = program("operator").post(RUNS, headers=key).get_json()

        assert same_owner["id"] == first["id"]
        assert another["id"] != first["id"]

    def test_a_key_counts_for_a_day(self, admin: Program, clock: Clock) -> None:
        key = {"Idempotency-Key": "deploy-1"}
        first = admin.post(RUNS, headers=key).get_json()

        clock.pass_seconds(86_401)

        assert admin.post(RUNS, headers=key).get_json()["id"] != first["id"]

    @pytest.mark.parametrize("key", ["", "a b", "x" * 129, "ä"])
    def test_a_key_that_is_none_is_refused(self, admin: Program, key: str) -> None:
        answer = admin.post(RUNS, headers={"Idempotency-Key": key})

        assert answer.status_code == 422
        assert answer.get_json()["errors"][0]["parameter"] == "Idempotency-Key"

    def test_many_at_once_with_one_key_make_one_run(
        self, api: Flask, database: Database, clock: Clock, rows: Rows
    ) -> None:
        other = make_api(rows.database, clock)
        token = make_token(database, clock)
        programs = [Program(app, token) for app in (api, other) for _ in range(6)]
        key = {"Idempotency-Key": "once"}

        answers = side_by_side(*[lambda one=one: one.post(RUNS, headers=key) for one in programs])

        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.get_json()["id"] for answer in answers}) == 1
        assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
        listed = Program(api, token).get("/runs?job=reports/nightly").get_json()["items"]
        assert len(listed) == 1


@pytest.mark.usefixtures("job_id")
class TestTimes:
    """Runs at times of their own."""

    IN_AN_HOUR = "2027-01-15T09:00:00Z"

    def test_a_run_is_planned_for_its_time(self, admin: Program) -> None:
        at = admin.post(RUNS, {"param": "4711", "at": "2027-01-15T10:00:00+01:00"}).get_json()
        later = admin.post(RUNS, {"in": "2d12h"}).get_json()
        furthest = admin.post(RUNS, {"in": "520w"}).get_json()

        assert (at["status"], at["kind"], at["param"]) == ("PLANNED", "API", "4711")
        assert at["scheduled_at"] == at["due_at"] == "2027-01-15T09:00:00.000+00:00"
        assert later["scheduled_at"] == later["due_at"] == "2027-01-17T20:00:00.000+00:00"
        assert furthest["due_at"] == "2037-01-02T08:00:00.000+00:00"

    @pytest.mark.parametrize(
        ("body", "pointer", "words"),
        [
            ({"at": "2027-01-15T07:59:59Z"}, "/at", "expected at to be in the future"),
            ({"at": "2037-01-16T08:00:00Z"}, "/at", "expected at to be within ten years"),
            ({"at": "2027-01-15T09:00:00"}, "/at", "expected an instant with its offset"),
            ({"at": "soon"}, "/at", "expected an ISO 8601 instant, got: 'soon'"),
            ({"in": "soon"}, "/in", "expected in to be a duration such as 90s, 5m, 2h or 1d"),
            ({"in": "0s"}, "/in", "expected in to be a duration such as 90s, 5m, 2h or 1d"),
            ({"in": "1.5s"}, "/in", "expected in to be a duration such as 90s, 5m, 2h or 1d"),
            ({"in": "3654d"}, "/in", "expected in to be within ten years, got: 3654d"),
            ({"in": "999999999w"}, "/in", "expected in to be within ten years"),
            ({"at": IN_AN_HOUR, "in": "1h"}, "/in", "expected either at or in, got: both"),
        ],
    )
    def test_a_time_that_cannot_be_is_refused_at_its_place(
        self, admin: Program, body: dict[str, str], pointer: str, words: str
    ) -> None:
        answer = admin.post(RUNS, body)

        [error] = answer.get_json()["errors"]
        assert answer.status_code == 422
        assert error["pointer"] == pointer
        assert words in error["detail"]
        assert admin.get("/runs?status=PLANNED").get_json()["items"] == []

    def test_with_late_a_time_that_has_passed_means_now(self, admin: Program) -> None:
        run = admin.post(RUNS, {"at": "2027-01-15T07:00:00Z", "late": True}).get_json()

        assert run["scheduled_at"] == "2027-01-15T08:00:00.000+00:00"

    def test_a_key_finds_its_run_even_after_its_time(self, admin: Program, clock: Clock) -> None:
        body, key = {"at": self.IN_AN_HOUR}, {"Idempotency-Key": "remind-1"}
        first = admin.post(RUNS, body, headers=key).get_json()

        clock.pass_seconds(7_200)

        again = admin.post(RUNS, body, headers=key)
        assert again.get_json()["id"] == first["id"]
        assert admin.post(RUNS, {"in": "1h"}, headers=key).status_code == 422

    def test_what_is_planned_for_later_is_listed_where_it_is_asked_for(
        self, admin: Program
    ) -> None:
        soon = admin.post(RUNS, {"in": "10m"}).get_json()["id"]
        later = admin.post(RUNS, {"in": "3h"}).get_json()["id"]

        def listed(query: str) -> list[int]:
            return [run["id"] for run in admin.get(f"/runs{query}").get_json()["items"]]

        assert listed("") == listed("?job=reports/nightly") == [soon]
        assert listed("?status=PLANNED") == listed("?until=2027-01-16T00:00:00Z") == [later, soon]

    def test_a_planned_run_is_moved_and_cancelled(self, admin: Program) -> None:
        run_id = admin.post(RUNS, {"in": "1h"}).get_json()["id"]

        moved = admin.call("PATCH", f"/runs/{run_id}", json={"at": "2027-01-15T08:30:00Z"})
        gone = [admin.call("DELETE", f"/runs/{run_id}").status_code for _ in range(2)]

        assert moved.status_code == 200, moved.text
        assert moved.get_json()["scheduled_at"] == "2027-01-15T08:30:00.000+00:00"
        assert moved.get_json()["due_at"] == "2027-01-15T08:30:00.000+00:00"
        assert gone == [204, 204]
        assert admin.get(f"/runs/{run_id}").get_json()["status"] == "CANCELLED"
        assert admin.call("PATCH", f"/runs/{run_id}", json={"in": "1h"}).status_code == 409

    def test_only_planned_runs_that_were_triggered_are_moved_or_cancelled(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        running = admin.post(RUNS).get_json()["id"]
        rows.set_run(running, status="RUNNING")
        ticks = [rows.run(job_id, clock.now + 1_000), running]

        for run_id, code in zip(ticks, ["run_not_triggered", "run_over"], strict=True):
            for method, body in (("PATCH", {"in": "1h"}), ("DELETE", None)):
                answer = admin.call(method, f"/runs/{run_id}", json=body)
                assert answer.status_code == 409, answer.text
                assert answer.get_json()["errors"][0]["code"] == code
        assert admin.call("PATCH", f"/runs/{running}", json={}).status_code == 422
        assert admin.call("DELETE", "/runs/999").status_code == 404

    def test_edits_leave_it_alone_and_its_jobs_deletion_cancels_it(self, admin: Program) -> None:
        job = "/jobs/reports/nightly"
        run_id = admin.post(RUNS, {"in": "1h"}).get_json()["id"]
        any_state = {"If-Match": "*"}

        edit = {"param": "another", "schedule": {"every": 60}, "enabled": True}
        edited = admin.call("PATCH", job, json=edit, headers=any_state)
        admin.post(f"{job}/stop")

        assert edited.status_code == 200, edited.text
        run = admin.get(f"/runs/{run_id}").get_json()
        assert (run["status"], run["param"]) == ("PLANNED", "usual")
        assert admin.call("DELETE", job, headers=any_state).status_code == 204
        assert admin.get(f"/runs/{run_id}").get_json()["status"] == "CANCELLED"


@pytest.mark.usefixtures("job_id")
class TestBatch:
    BATCH = f"{RUNS}:batch"

    def test_all_are_planned_in_their_order_once_for_a_key(self, admin: Program) -> None:
        wanted = [{"param": str(number), "in": "3h"} for number in range(600)]
        key = {"Idempotency-Key": "reminders-1"}

        first = admin.post(self.BATCH, {"runs": wanted}, headers=key)
        again = admin.post(self.BATCH, {"runs": wanted}, headers=key)

        run_ids = first.get_json()["run_ids"]
        assert first.status_code == 202, first.text
        assert again.get_json()["run_ids"] == run_ids
        assert again.headers["Idempotent-Replayed"] == "true"
        params = [admin.get(f"/runs/{run_id}").get_json()["param"] for run_id in run_ids[::100]]
        assert params == ["0", "100", "200", "300", "400", "500"]
        assert run_ids == list(range(run_ids[0], run_ids[0] + 600))

    def test_if_some_are_wrong_none_is_planned_and_all_problems_are_told(
        self, admin: Program
    ) -> None:
        wanted = [{}, {"at": "2020-01-01T00:00:00Z"}, {"param": "x" * 70_000}, {"in": "-1"}]

        answer = admin.post(self.BATCH, {"runs": wanted})

        pointers = [one["pointer"] for one in answer.get_json()["errors"]]
        assert answer.status_code == 422
        assert pointers == ["/runs/1/at", "/runs/2/param", "/runs/3/in"]
        unknown = admin.post(self.BATCH, {"runs": [{}, {"addresses": ["nobody"]}]})
        assert unknown.get_json()["errors"][0]["pointer"] == "/runs/1/addresses"
        assert admin.get("/runs?status=PLANNED").get_json()["items"] == []

    @pytest.mark.parametrize("number", [0, 5_001])
    def test_a_batch_has_a_size(self, admin: Program, number: int) -> None:
        answer = admin.post(self.BATCH, {"runs": [{}] * number})

        assert answer.status_code == 422
        assert answer.get_json()["errors"][0]["pointer"] == "/runs"


def _ends(database: Database, tick: Tick) -> list[TickEnd]:
    """Return how the scheduler says that a tick ended."""
    found = database.read(lambda session: ticks.attempts(session, [tick]))
    return [end for key, rows in found.items() if (end := tick_end(key, rows))]


class TestLists:
    def test_runs_are_found_and_listed_page_by_page(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        ids = [
            rows.run(job_id, clock.now - age * 1_000, status=status)
            for age, status in enumerate(["FAILED", "SUCCEEDED", "FAILED", "LOST"])
        ]

        def found(query: str) -> list[int]:
            answer = admin.get(f"/runs?{query}")
            assert answer.status_code == 200, answer.text
            return [run["id"] for run in answer.get_json()["items"]]

        assert found("") == ids
        assert found("status=FAILED,LOST") == [ids[0], ids[2], ids[3]]
        assert found("status=FAILED&status=LOST&job=nightly&app=reports") == [
            ids[0],
            ids[2],
            ids[3],
        ]
        assert found("kind=API") == []
        assert found("since=2027-01-15T07:59:59Z") == ids[:2]
        page = admin.get("/runs?limit=3").get_json()
        assert found(f"limit=3&cursor={page['next']}") == ids[3:]

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            ("status=GONE", 422),
            ("limit=0", 422),
            ("limit=201", 422),
            ("limit=x", 422),
            ("since=yesterday", 422),
            ("since=2027-01-15T08:00:00", 422),
            ("since=9999-12-31T23:59:59-12:00", 422),
            ("cursor=%00", 422),
            ("job=nightly", 422),
            ("jobb=x", 400),
            ("limit=1&limit=2", 422),
            ("app=nobodys", 404),
            ("job=reports/nobody", 404),
        ],
    )
    def test_a_wrong_query_names_its_parameter(
        self, admin: Program, query: str, status: int
    ) -> None:
        answer = admin.get(f"/runs?{query}")

        assert answer.status_code == status, answer.text
        if status != 404:
            assert answer.get_json()["errors"][0]["parameter"] == query.partition("=")[0]

    def test_a_token_for_some_jobs_asks_for_one_of_them(
        self, rows: Rows, program: Any, job_id: int, clock: Clock
    ) -> None:
        other = rows.run(rows.job("other"), clock.now)
        mine = rows.run(job_id, clock.now)

        caller = program(job_ids=[job_id])

        assert caller.get("/runs").status_code == 422
        assert caller.get("/runs?job=reports/other").status_code == 404
        listed = caller.get("/runs?job=reports/nightly").get_json()["items"]
        assert [run["id"] for run in listed] == [mine]
        for path in ("", "/tick", "/log"):
            assert caller.get(f"/runs/{other}{path}").status_code == 404
            assert caller.get(f"/runs/{mine}{path}").status_code == 200
        assert caller.post(f"/runs/{other}/kill").status_code == 404


class TestOne:
    def test_a_tick_has_every_attempt(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        first = rows.run(job_id, clock.now, status="RUNNING")
        rows.end_and_retry(first)
        second = rows.newest_run(job_id)
        rows.set_run(second, status="SUCCEEDED")

        answer = admin.get(f"/runs/{first}/tick").get_json()

        end = tick([first, second], "SUCCEEDED", second)
        assert answer["tick"] == end
        assert [(run["attempt"], run["status"]) for run in answer["items"]] == [
            (0, "FAILED"),
            (1, "SUCCEEDED"),
        ]

    def test_of_a_large_tick_the_last_attempts_are_shown_and_all_are_named(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        ids = [
            rows.run(job_id, clock.now, attempt=number, param="x" * 60_000, status="FAILED")
            for number in range(80)
        ]

        answer = admin.get(f"/runs/{ids[0]}/tick")

        told = answer.get_json()
        assert len(answer.data) < 4_200_000
        assert [run["id"] for run in told["items"]] == ids[-66:]
        assert told["items"][0]["param"] == "x" * 60_000
        assert told["tick"] == tick(ids, "FAILED", ids[-1])

    @pytest.mark.parametrize("path", ["", "/tick"])
    def test_a_tick_that_lacks_a_shard_ended_as_it_did_for_its_children(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock, path: str
    ) -> None:
        shard = rows.run(job_id, clock.now, status="SUCCEEDED", shard_index=0, shard_total=2)

        told = admin.get(f"/runs/{shard}{path}").get_json()["tick"]

        [end] = _ends(rows.database, Tick(job_id, clock.now, 0))
        assert not end.succeeded
        assert told == tick([shard], "LOST", shard)

    def test_a_large_tick_is_judged_by_all_its_shards(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        shards = [
            rows.run(
                job_id,
                clock.now,
                shard_index=index,
                shard_total=70,
                param="x" * 60_000,
                status="SUCCEEDED",
            )
            for index in range(70)
        ]

        told = admin.get(f"/runs/{shards[0]}/tick").get_json()

        assert len(told["items"]) < len(shards)
        assert told["tick"] == tick(shards, "SUCCEEDED", shards[0])

    def test_an_open_retry_tells_of_the_attempt_before_it(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        first = rows.run(job_id, clock.now, status="RUNNING")
        rows.end_and_retry(first)
        second = rows.newest_run(job_id)

        ticks = [admin.get(f"/runs/{run_id}").get_json()["tick"] for run_id in (first, second)]

        assert ticks == [tick([first, second])] * 2

    def test_an_open_shard_tells_of_the_others(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        shards = [
            rows.run(job_id, clock.now, status="RUNNING", shard_index=index, shard_total=2)
            for index in range(2)
        ]

        ticks = [admin.get(f"/runs/{run_id}").get_json()["tick"] for run_id in shards]

        assert ticks == [tick(shards)] * 2

    def test_a_run_is_killed_once(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        run = rows.run(job_id, clock.now)

        first, second = admin.post(f"/runs/{run}/kill"), admin.post(f"/runs/{run}/kill")

        assert first.get_json() == {"result": "cancelled before it was sent"}
        assert (second.status_code, second.get_json()["errors"][0]["code"]) == (409, "run_over")

    def test_a_log_whose_executor_is_gone_is_what_the_run_kept(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        run = rows.run(job_id, clock.now, status="FAILED", address="gone", log_tail="one\ntwo\n")

        as_json = admin.get(f"/runs/{run}/log").get_json()
        as_text = admin.get(f"/runs/{run}/log", headers={"Accept": "text/plain"})

        assert as_json == {
            "from_line": 1,
            "next_line": 3,
            "text": "one\ntwo\n",
            "is_end": True,
            "source": "kept",
        }
        assert as_text.text == "one\ntwo\n"
        assert as_text.headers["Warren-Is-End"] == "true"

    def test_a_kept_end_comes_whole_and_only_to_who_begins_with_it(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        run = rows.run(job_id, clock.now, status="FAILED", address="gone", log_tail="one\ntwo\n")

        first = admin.get(f"/runs/{run}/log?limit=1").get_json()
        later = admin.get(f"/runs/{run}/log?from_line=2").get_json()

        assert (first["source"], first["text"], first["is_end"]) == ("kept", "one\ntwo\n", True)
        assert (later["source"], later["text"]) == ("none", "")

    def test_the_kept_end_of_a_log_is_read_without_its_executor(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        rows.executor("exec-1", clock.now, "{}")
        run = rows.run(job_id, clock.now, status="FAILED", address="exec-1", log_tail="last\n")

        kept = admin.get(f"/runs/{run}/log?kept=true").get_json()

        assert (kept["source"], kept["text"]) == ("kept", "last\n")

    def test_a_log_whose_executor_is_online_but_silent_is_not_over(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        rows.executor("exec-1", clock.now, "{}")
        run = rows.run(job_id, clock.now, status="FAILED", address="exec-1", log_tail="last\n")

        def read() -> tuple[str, str, bool]:
            log = admin.get(f"/runs/{run}/log").get_json()
            return log["source"], log["text"], log["is_end"]

        while_online = read()
        clock.pass_seconds(16)

        assert while_online == ("none", "", False)
        assert read() == ("kept", "last\n", True)

    def test_a_log_that_its_executor_has_no_longer_is_what_the_run_kept(
        self, database: Database, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        api = make_api(database, clock, requester=FixedLogs("", is_missing=True))
        rows.executor("exec-1", clock.now, "{}")
        run = rows.run(job_id, clock.now, status="FAILED", address="exec-1", log_tail="last\n")

        log = Program(api, make_token(database, clock)).get(f"/runs/{run}/log").get_json()

        assert (log["source"], log["text"], log["is_end"]) == ("kept", "last\n", True)

    def test_logs_need_a_scope_of_their_own(
        self, program: Any, rows: Rows, job_id: int, clock: Clock
    ) -> None:
        run = rows.run(job_id, clock.now, log_tail="secret")

        assert program(scopes=[Scope.READ]).get(f"/runs/{run}/log").status_code == 403


class TestWaiting:
    def test_a_server_that_cannot_hold_requests_answers_at_once(
        self, admin: Program, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        run = rows.run(job_id, clock.now)

        answer = admin.get(f"/runs/{run}", headers={"Prefer": "respond-async, wait=60"})

        assert answer.status_code == 200
        assert "Preference-Applied" not in answer.headers

    @pytest.mark.parametrize(
        "text", ["wait=61", "wait=-1", "wait=x", "wait", "wait=999999999", "wait=0000000999"]
    )
    def test_a_wish_to_wait_that_is_none_is_refused(
        self, admin: Program, rows: Rows, job_id: int, clock: Clock, text: str
    ) -> None:
        run = rows.run(job_id, clock.now)

        answer = admin.get(f"/runs/{run}", headers={"Prefer": text})

        assert answer.status_code == 422


def test_a_run_has_what_its_handler_returned(
    admin: Program, rows: Rows, clock: Clock, job_id: int
) -> None:
    stored = {None: None, '{"rows":[3]}': {"rows": [3]}, '"3"': "3", "no json": "no json"}
    ids = [
        rows.run(job_id, clock.now - number, status="SUCCEEDED", message="3", result=result)
        for number, result in enumerate(stored)
    ]

    shown = [admin.get(f"/runs/{run_id}").get_json()["result"] for run_id in ids]

    assert shown == [*stored.values()]
    listed = {run["id"]: run["result"] for run in admin.get("/runs").get_json()["items"]}
    assert [listed[run_id] for run_id in ids] == shown


def test_a_run_names_the_version_of_the_code_that_ran_it(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    run_id = rows.run(rows.job("coded"), clock.now, code_version="v1.4-7-gabc")

    [listed] = admin.get("/runs").get_json()["items"]

    assert listed["code_version"] == "v1.4-7-gabc"
    assert admin.get(f"/runs/{run_id}").get_json()["code_version"] == "v1.4-7-gabc"


def test_all_that_is_wrong_with_a_batch_is_told_at_once(admin: Program, rows: Rows) -> None:
    rows.job("daily")
    runs = [{"at": "soon", "run_date": "x"}, {}, {"at": "2026-12-01T08:00"}]

    answer = admin.post("/jobs/reports/daily/runs:batch", {"runs": runs})

    places = [error["pointer"] for error in answer.get_json()["errors"]]
    assert places == ["/runs/0/at", "/runs/0/run_date", "/runs/2/at"]

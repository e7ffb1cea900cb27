"""Params of typed handlers by the API: what does not fit is refused before a row exists."""

import json
from typing import Any

import pytest

from tests.support.api import Program
from tests.support.console import Clock
from tests.support.sql_rows import all_runs, statements
from tests.support.stored_rows import Rows
from warren.sql.engine import Database

RUNS = "/jobs/reports/nightly/runs"
NEW = {"If-None-Match": "*"}
OF_A_DAY = {
    "$ref": "#/$defs/Load",
    "$defs": {
        "Load": {
            "type": "object",
            "properties": {
                "day": {"type": "string", "format": "date"},
                "parts": {"type": "integer", "minimum": 1, "default": 1},
            },
            "required": ["day"],
        }
    },
}
OF_A_MONTH = {"type": "object", "properties": {"month": {"type": "integer"}}, "required": ["month"]}


def told(schema: Any) -> str:
    """What an executor has registered that has handler `load`; None = without params."""
    return json.dumps({"handlers": {"load": schema}})


@pytest.fixture
def job_id(rows: Rows) -> int:
    return rows.job("nightly", handler="load", param='{"day":"2026-12-01"}')


def refused(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    return [(one["pointer"], one["detail"]) for one in answer.get_json()["errors"]]


def count_runs(rows: Rows) -> int:
    return len(all_runs(rows.database))


@pytest.mark.usefixtures("job_id")
def test_a_trigger_whose_param_does_not_fit_plans_nothing(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.executor("one", clock.now, told(OF_A_DAY))

    found = refused(admin.post(RUNS, {"param": '{"day":"soon","parts":0}'}))
    planned = count_runs(rows)
    fits = [admin.post(RUNS, body) for body in ({"param": '{"day":"2026-12-02"}'}, {})]

    assert found == [
        ("/param/day", 'expected day to be date, got: "soon"'),
        ("/param/parts", "expected parts to satisfy minimum 1, got: 0"),
    ]
    assert planned == 0
    assert [one.status_code for one in fits] == [202, 202]


def test_a_job_without_schedule_leaves_its_param_to_its_triggers(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.executor("one", clock.now, told(OF_A_DAY))
    path = "/jobs/reports/nightly"
    every = {"handler": "load", "schedule": {"every": 60}}

    made = admin.put(path, {"handler": "load"}, headers=NEW)
    triggered = refused(admin.post(RUNS, {}))
    planned = count_runs(rows)
    with_param = admin.post(RUNS, {"param": '{"day":"2026-12-01"}'})
    scheduled = refused(admin.put(path, every, headers={"If-Match": "*"}))
    new = refused(admin.put("/jobs/reports/other", every, headers=NEW))

    assert made.status_code == 201, made.text
    words = "expected a param, because the job has none and its handler takes"
    assert triggered == [("/param", f"{words} day: date, parts: integer = 1")]
    assert (planned, with_param.status_code) == (0, 202)
    assert scheduled == new == [("/param/day", "expected param to have 'day'")]


def test_a_trigger_of_a_typed_handler_reads_only_who_is_online(
    admin: Program, rows: Rows, database: Database, clock: Clock
) -> None:
    rows.executor("one", clock.now, told(OF_A_DAY))
    rows.job("typed", handler="load", param='{"day":"2026-12-01"}')
    rows.job("script", handler="")
    counts = {}
    for name in ("typed", "script", "typed", "script"):
        with statements(database) as sent:
            assert admin.post(f"/jobs/reports/{name}/runs", {}).status_code == 202
        counts[name] = len(sent)

    assert counts["typed"] == counts["script"] + 1


def test_what_a_new_catalogue_says_counts_at_once(admin: Program, rows: Rows, clock: Clock) -> None:
    rows.job("nightly", handler="load")
    rows.executor("one", clock.now, told(OF_A_DAY))

    before = admin.post(RUNS, {"param": '{"month":12}'})
    rows.executor("two", clock.now, told(OF_A_MONTH))
    after = admin.post(RUNS, {"param": '{"month":12}'})

    assert [answer.status_code for answer in (before, after)] == [422, 202]


def test_a_jobs_own_param_has_to_fit_too(admin: Program, rows: Rows, clock: Clock) -> None:
    rows.executor("one", clock.now, told(OF_A_DAY))
    rows.job("nightly", handler="load", param="2026")

    missing = ("/param/day", "expected param to have 'day'")
    every = {"handler": "load", "schedule": {"every": 60}}
    wrong = refused(admin.put("/jobs/reports/new", every, headers=NEW))
    file = {
        "jobs": [
            {"name": "a", "app": "reports", "handler": "load", "param": '{"day":"2026-12-01"}'}
        ]
    }
    file["jobs"].append({"name": "b", "app": "reports"} | every)  # type: ignore[arg-type]

    assert wrong == [missing]
    assert refused(admin.post("/apply", file)) == [("/jobs/1/param/day", missing[1])]
    assert refused(admin.post("/apply?dry_run=true", file))
    assert [name for name, _ in refused(admin.post(RUNS, {}))] == ["/param"]


def test_a_job_whose_param_stays_may_be_changed_otherwise(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.job("nightly", handler="load", param="2026")
    rows.executor("one", clock.now, told(OF_A_DAY))
    path = "/jobs/reports/nightly"

    def patch(change: dict[str, Any]) -> Any:
        tag = admin.get(path).headers["ETag"]
        return admin.call("PATCH", path, json=change, headers={"If-Match": tag})

    assert patch({"retries": 3}).status_code == 200
    assert [name for name, _ in refused(patch({"param": "x"}))] == ["/param"]
    assert patch({"param": '{"day":"2026-12-01"}'}).status_code == 200


@pytest.mark.usefixtures("job_id")
def test_while_code_is_deployed_what_either_version_accepts_fits(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.executor("old", clock.now, told(OF_A_DAY))
    rows.executor("new", clock.now, told(OF_A_MONTH))

    answers = [
        admin.post(RUNS, {"param": param}).status_code
        for param in ('{"day":"2026-12-01"}', '{"month":12}', "{}")
    ]

    assert answers == [202, 202, 422]


UNCHECKED = "the param was not checked: "


@pytest.mark.usefixtures("job_id")
@pytest.mark.parametrize(
    ("load", "said"),
    [
        (told(None), []),
        ("{}", ["an executor of app reports does not report all its handlers"]),
        ("", ["no executor of app reports is online"]),
    ],
    ids=["without params", "not told", "offline"],
)
def test_what_nobody_tells_is_not_checked_and_the_answer_says_so(
    admin: Program, rows: Rows, clock: Clock, load: str, said: list[str]
) -> None:
    if load:
        rows.executor("other", clock.now, load)
    rows.executor("typed", clock.now if load else clock.now - 60_000, told(OF_A_MONTH))

    own = admin.post(RUNS, {})
    given = admin.post(RUNS, {"param": "x"}, headers={"Idempotency-Key": "1"})
    again = admin.post(RUNS, {"param": "x"}, headers={"Idempotency-Key": "1"})
    batch = admin.post(f"{RUNS}:batch", {"runs": [{}, {"param": "x"}]})

    warnings = [UNCHECKED + why for why in said]
    assert [answer.status_code for answer in (own, given, again, batch)] == [202] * 4
    assert [answer.get_json()["warnings"] for answer in (given, again, batch)] == [warnings] * 3
    assert own.get_json()["warnings"] == []


@pytest.mark.usefixtures("job_id")
def test_a_time_that_is_wrong_does_not_hide_a_param_that_is(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.executor("one", clock.now, told(OF_A_DAY))
    past = {"at": "2001-01-01T00:00:00Z", "param": '{"day":"soon"}'}

    one = refused(admin.post(RUNS, past))
    batch = refused(admin.post(f"{RUNS}:batch", {"runs": [{}, past]}))

    assert [pointer for pointer, _ in one] == ["/at", "/param/day"]
    assert [pointer for pointer, _ in batch] == ["/runs/1/at", "/runs/1/param/day"]
    assert count_runs(rows) == 0

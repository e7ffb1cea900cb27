"""Flows by the API: saved and read as they are, refused with the place, repeated in part."""

from typing import Any

import pytest

from tests.support.api import Program
from tests.support.stored_rows import Rows

FLOW: dict[str, Any] = {
    "extract": {"job": "extract"},
    "load": {"job": "extract", "after": "extract", "retries": 2},
    "report": {"job": "extract", "after": {"load": "failure"}, "if": "{{ load.reason != '' }}"},
}
NEW = {"If-None-Match": "*"}


@pytest.fixture
def nightly(admin: Program) -> str:
    admin.put("/jobs/reports/extract", {"handler": "h"}, headers=NEW)
    path = "/jobs/reports/nightly"
    answer = admin.put(path, {"flow": FLOW}, headers=NEW)
    assert answer.status_code == 201, answer.text
    assert answer.get_json()["warnings"] == []
    return path


def test_a_flow_is_read_as_it_was_sent_and_sent_as_it_was_read(
    admin: Program, nightly: str
) -> None:
    read = admin.get(nightly)

    assert (read.get_json()["flow"], read.get_json()["handler"]) == (FLOW, "")
    again = admin.put(nightly, read.get_json(), headers={"If-Match": read.headers["ETag"]})
    assert (again.status_code, again.headers["ETag"]) == (200, read.headers["ETag"])


def test_one_node_is_changed_by_a_patch(admin: Program, nightly: str) -> None:
    answer = admin.call(
        "PATCH",
        nightly,
        json={"flow": {"load": {"retries": 3}, "report": None}},
        headers={"If-Match": admin.get(nightly).headers["ETag"]},
    )

    assert answer.status_code == 200, answer.text
    assert answer.get_json()["flow"] == {
        "extract": FLOW["extract"],
        "load": FLOW["load"] | {"retries": 3},
    }


@pytest.mark.parametrize(
    ("flow", "pointer", "words"),
    [
        ({"a": {"job": "extract", "after": "a"}}, "/flow/a/after", "cycle: a -> a"),
        ({"a": {"job": "gone"}}, "/flow/a/job", "unknown job 'gone'"),
        ({"a": {"job": "extract", "if": "1 *"}}, "/flow/a/if", "if of node a cannot be read"),
        ({"a": {"job": "extract", "retries": 1.5}}, "/flow/a/retries", "got: 1.5"),
        ({}, "/flow", "expected a flow of 1 to 1000 nodes, got: 0"),
    ],
)
def test_what_is_wrong_with_a_flow_is_said_with_its_place(
    admin: Program, nightly: str, flow: dict[str, Any], pointer: str, words: str
) -> None:
    answer = admin.put(nightly + "-too", {"flow": flow}, headers=NEW)

    assert answer.status_code in (409, 422), answer.text
    [error] = answer.get_json()["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]


def test_a_part_of_something_that_is_no_flow_is_not_repeated(admin: Program, rows: Rows) -> None:
    run_id = rows.run(rows.job("nightly"), 1_795_183_200_000, status="FAILED")

    answer = admin.post(f"/runs/{run_id}/rerun", {"failed": True})

    assert answer.status_code == 422
    assert "is not a run of a flow" in answer.text

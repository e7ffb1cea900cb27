"""Pauses by the API: their reason and end, changed where something is paused already."""

import pytest

from tests.support.api import Program

UPGRADE = {"reason": "upgrade", "until": "2030-12-01T08:00:00+00:00"}


def test_what_a_second_pause_leaves_out_stays_and_null_removes_the_end(admin: Program) -> None:
    admin.post("/apps/reports/pause", UPGRADE)

    told = []
    for body in ({"reason": "new disk"}, {"until": None}, {"until": None}):
        changed = admin.post("/apps/reports/pause", body).get_json()["changed"]
        pause = admin.get("/apps/reports").get_json()["pause"]
        told.append((changed, pause["paused_reason"], pause["paused_until"]))

    assert told[0][:2] == (True, "new disk")
    assert told[0][2].startswith("2030-12-01T08:00:00")
    assert told[1:] == [(True, "new disk", None), (False, "new disk", None)]


def test_an_end_that_is_no_time_is_refused_at_its_place(admin: Program) -> None:
    answer = admin.post("/cluster/pause", {"until": ""})

    assert answer.status_code == 422
    assert answer.get_json()["errors"][0]["pointer"] == "/until"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"])
def test_an_end_at_the_beginning_of_time_is_refused_as_past(admin: Program, text: str) -> None:
    admin.post("/apps/reports/pause", UPGRADE)

    answer = admin.post("/apps/reports/pause", {"until": text})

    assert answer.status_code == 422
    assert "got: 1970-01-01T00:00:00.000+00:00" in answer.text
    pause = admin.get("/apps/reports").get_json()["pause"]
    assert pause["paused_until"].startswith("2030-12-01T08:00:00")

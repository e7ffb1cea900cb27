"""Pauses by the API: their reason and end, changed where something is paused already."""

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

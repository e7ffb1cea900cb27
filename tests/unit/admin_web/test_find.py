"""One box finds what exists for whoever looks, and leads to what they may do with it."""

import re

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, signed_in
from tests.support.stored_rows import Rows


@pytest.fixture
def rows(rows: Rows, clock: Clock) -> Rows:
    rows.executor("worker-7", clock.now, "{}")
    return rows


def found(visit: Visit, text: str) -> list[str]:
    """Return where the choices lead."""
    answer = visit.get("/find", query_string={"part": "1", "q": text})
    assert answer.status_code == 200
    return re.findall(r'<li><a href="([^"]+)"', answer.text)


def test_a_job_comes_with_what_can_be_done_with_it(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("nightly-report")

    assert found(admin, "NIGHT") == [
        f"/jobs/{job_id}",
        f"/jobs/{job_id}/trigger",
        "/runs?job=reports/nightly-report",
        f"/jobs/{job_id}/history",
        f"/jobs/{job_id}/edit",
        f"/jobs/{job_id}/copy",
        f"/jobs/ask-delete?id={job_id}",
    ]


def test_a_script_can_be_read_by_all_and_copied_by_who_may_edit_it(
    app: Flask, admin: Visit, rows: Rows
) -> None:
    job_id = rows.job("pack", handler="", script_type="GLUE_SHELL")

    assert f"/glue/{job_id}" in found(admin, "pack")
    assert f"/jobs/{job_id}/copy" in found(admin, "pack")
    operator = found(signed_in(app, "operator"), "pack")
    assert f"/glue/{job_id}" in operator
    assert f"/jobs/{job_id}/copy" not in operator


def test_a_run_is_found_by_its_id(admin: Visit, rows: Rows, clock: Clock) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now, status="FAILED")

    for text in (str(run_id), f"#{run_id}"):
        assert found(admin, text)[:2] == [f"/runs/{run_id}", f"/runs/{run_id}/log"]
    assert found(admin, "9" * 30) == []


def test_pages_apps_and_executors_are_found(admin: Visit, rows: Rows) -> None:
    assert "/audit" in found(admin, "audit")
    assert "/jobs?app=reports" in found(admin, "report")
    [executor, runs, drain] = found(admin, "WORKER")
    page = admin.get(executor).text
    assert "<title>worker-7" in page
    assert runs == "/runs?app=reports&amp;address=worker-7"
    assert drain == f"{executor}#drain"
    assert 'id="drain"' in page
    assert "Nothing found." in admin.get("/find?q=zzz").text


def test_what_can_be_done_with_a_run_depends_on_its_state(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    over = rows.run(job_id, clock.now, status="FAILED")
    going = rows.run(job_id, clock.now - 1_000, status="RUNNING")
    again, kill = "/runs/bulk/ask?id={}&amp;action=again", "/runs/bulk/ask?id={}&amp;action=kill"

    assert found(admin, str(over))[2:] == [again.format(over)]
    assert found(admin, str(going))[2:] == [kill.format(going)]
    question = admin.get(kill.format(going).replace("&amp;", "&")).text
    assert f"Kill run {going}?" in question


def test_an_app_comes_with_its_runs_its_executors_and_a_pause(
    app: Flask, admin: Visit, rows: Rows
) -> None:
    app_id = rows.app("reports")

    paths = found(admin, "reports")

    assert paths == [
        "/jobs?app=reports",
        "/runs?app=reports",
        "/executors?app=reports",
        f"/apps/{app_id}/pause/ask",
        f"/apps/{app_id}",
    ]
    assert found(signed_in(app, "viewer"), "reports") == paths[:3]


def test_a_paused_app_can_be_resumed(admin: Visit, rows: Rows) -> None:
    app_id = rows.app("reports")
    admin.post(f"/apps/{app_id}/pause", {"reason": "a move"})

    page = admin.get("/find", query_string={"part": "1", "q": "reports"}).text

    assert "Resume app reports" in page
    assert f'action="/apps/{app_id}/resume"' in admin.get(f"/apps/{app_id}/pause/ask").text


def test_nothing_is_typed_so_favourites_come_first(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("nightly")
    admin.get("/jobs")
    admin.post(f"/jobs/{job_id}/favourite", {"on": "1"})

    assert found(admin, "")[:2] == [f"/jobs/{job_id}", "/"]


def test_what_is_not_ones_own_is_not_found(app: Flask, rows: Rows, clock: Clock) -> None:
    theirs = rows.job("secret", "mails")
    run_id = rows.run(theirs, clock.now, app="mails", status="FAILED")
    rows.job("nightly")
    operator, viewer = signed_in(app, "operator"), signed_in(app, "viewer")

    for text in ("secret", "mails", str(run_id), "audit", "users"):
        assert found(operator, text) == [], text
    assert not [path for path in found(viewer, "nightly") if re.search("edit|trigger", path)]
    own = rows.run(rows.job("other"), clock.now, status="RUNNING")
    assert found(viewer, str(own)) == [f"/runs/{own}", f"/runs/{own}/log"]
    assert "/schedulers/pause/ask" not in found(operator, "pause")
    assert "/jobs/new" not in found(viewer, "new job")


def test_names_are_no_markup(admin: Visit, rows: Rows) -> None:
    rows.job("<script>x")

    assert "<script>x" not in admin.get("/find?q=script").text


def test_a_job_is_stopped_and_started_after_a_question(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("nightly", is_enabled=1, schedule_kind="FIX_RATE", schedule_value="60")
    [stop] = [path for path in found(admin, "nightly") if "ask-stop" in path]

    question = admin.get(stop).text
    page = admin.post("/jobs/stop", {"id": str(job_id)}, follow_redirects=True).text

    assert "Stop nightly?" in question
    assert "1 job stopped" in page
    assert f"/jobs/{job_id}/ask-start" in found(admin, "nightly")


def test_the_newest_runs_of_a_job_come_with_it_and_open_ones_can_be_killed(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    older, newer = (rows.run(job_id, clock.now - n, status="FAILED") for n in (9_000, 8_000))
    going = rows.run(job_id, clock.now - 1_000, status="RUNNING")

    paths = found(admin, "nightly")

    assert [path for path in paths if re.fullmatch(r"/runs/\d+", path)] == [
        f"/runs/{going}",
        f"/runs/{newer}",
    ]
    assert f"/runs/bulk/ask?id={going}&amp;action=kill" in paths
    assert older


def test_errors_users_and_tokens_are_found(
    app: Flask, admin: Visit, rows: Rows, clock: Clock
) -> None:
    theirs, own = rows.job("secret", "mails"), rows.job("nightly")
    rows.run(theirs, clock.now - 9, app="mails", status="FAILED", message="disk full, theirs")
    for n in (2_000, 1_000):
        run_id = rows.run(own, clock.now - n, status="FAILED", message=f"disk full at {n}")
    admin.post("/tokens/add", {"token_name": "disk-bot", "scopes": "read", "days": "9"})
    viewer = signed_in(app, "viewer")

    assert found(viewer, "disk full") == [f"/runs/{run_id}", "/runs/errors?text=disk+full"]
    assert len(found(admin, "disk full")) == 3
    assert found(admin, "disk-bot") == ["/tokens#token-1"]
    assert found(viewer, "disk-bot") == []
    assert [path for path in found(admin, "viewer") if path.startswith("/users/")]
    assert found(viewer, "viewer") == []

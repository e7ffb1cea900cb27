"""The preview of a trigger says what would be sent and what would become of it."""

import json
import re

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, signed_in, snapshot
from tests.support.sql_rows import all_runs
from tests.support.stored_rows import Rows
from warren.sql.engine import Database


def preview(visit: Visit, job_id: int, param: str = "", **form: object) -> str:
    """Return the facts of the preview, or the whole page without one."""
    visit.get(f"/jobs/{job_id}/trigger")
    page = visit.post(f"/jobs/{job_id}/trigger/preview", {"param": param} | form).text
    text = page.partition("<h2>Preview</h2>")[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", text or page).split())


def test_nothing_runs_and_nothing_is_stored(admin: Visit, database: Database, rows: Rows) -> None:
    job_id = rows.job("a")
    admin.get("/jobs")
    before = snapshot(database)

    shown = preview(admin, job_id, "one\r\ntwo <b>")

    assert "Parameter one two &lt;b&gt;" in shown
    assert all_runs(database) == []
    after = snapshot(database)
    assert {table: after[table] for table in after if "session" not in table} == {
        table: before[table] for table in before if "session" not in table
    }


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("SERIAL_EXECUTION", "Queued behind the open runs (1)."),
        ("DISCARD_LATER", "Skipped, because of the open runs (1)."),
        ("COVER_EARLY", "Replaces open runs (1 now)."),
    ],
)
def test_a_busy_executor_does_what_the_job_says(
    admin: Visit, rows: Rows, clock: Clock, block: str, words: str
) -> None:
    job_id = rows.job("a", block=block)
    for address in ("busy", "free"):
        rows.executor(address, clock.now, "")
    rows.run(job_id, clock.now, status="RUNNING", address="busy")
    rows.run(job_id, clock.now + 1, status="SUCCEEDED", address="free")
    rows.run(rows.job("other"), clock.now, status="RUNNING", address="free")

    shown = preview(admin, job_id)

    assert f"busy {words}" in shown
    assert "free Starts as soon as a slot is free." in shown
    assert "The route chooses one of these executors." in shown


def test_a_job_with_room_for_two_starts_beside_its_own_run(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("a", concurrency=2)
    rows.executor("busy", clock.now, "")
    rows.run(job_id, clock.now, status="SENT", address="busy")

    assert "busy Starts as soon as a slot is free." in preview(admin, job_id)


def test_only_executors_that_are_online_and_well_are_candidates(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("a", route="SHARDING_BROADCAST")
    rows.executor("silent-1", clock.now - 60_000, "")
    rows.executor("sick-1", clock.now, json.dumps({"ailments": ["DISK"]}))

    alone = preview(admin, job_id)
    for address in ("well-1", "well-2"):
        rows.executor(address, clock.now, "")
    rows.executor("foreign-1", clock.now, "", app="mails")
    both = preview(admin, job_id)
    wanted = preview(admin, job_id, addresses=["well-2"])

    assert "sick-1 Starts" in alone
    assert re.findall(r"(\S+-1|\S+-2) Starts", both) == ["well-1", "well-2"]
    assert "It runs on each of these executors." in both
    assert re.findall(r"(\S+-1|\S+-2) Starts", wanted) == ["well-2"]


def test_without_an_executor_the_run_would_wait(admin: Visit, rows: Rows) -> None:
    assert "None is online. The run waits until one is." in preview(admin, rows.job("a"))


@pytest.mark.parametrize(
    ("own", "param", "words"),
    [
        ("", '{"day": 1}', "JSON Valid JSON."),
        ("", '{"day": 1', "JSON Not valid JSON: line 1, column 10."),
        ('{"day": 1}', "day=1", "JSON Not valid JSON: line 1, column 1."),
        ("", "[NaN]", "JSON Not valid JSON."),
        ("", "[" * 60_000, "JSON Not valid JSON"),
    ],
)
def test_json_is_looked_at_where_the_job_expects_it(
    admin: Visit, rows: Rows, own: str, param: str, words: str
) -> None:
    assert words in preview(admin, rows.job("a", param=own), param)


def test_plain_text_is_not_taken_for_json(admin: Visit, rows: Rows) -> None:
    assert "JSON" not in preview(admin, rows.job("a", param="day=1"), "day=2")


def test_what_cannot_be_triggered_is_refused_beside_its_field(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("a")

    assert "65536" in preview(admin, job_id, "x" * 65_537).replace(",", "")
    assert "nowhere" in preview(admin, job_id, addresses=["nowhere"])


def test_a_foreign_job_has_no_preview(app: Flask, rows: Rows) -> None:
    theirs = rows.job("theirs", "mails")
    operator = signed_in(app, "operator")
    operator.get("/jobs")

    assert operator.post(f"/jobs/{theirs}/trigger/preview", {"param": ""}).status_code == 404

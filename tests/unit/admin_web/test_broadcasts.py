"""The page of a broadcast: its shards, and killing all of them."""

import re

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.fixed_logs import TimedLogs
from tests.support.stored_rows import Rows
from warren.sql.engine import Database
from warren.sql.listings import recent
from warren.sql.run_status import RunStatus
from warren.sql.runs.transitions import ENTERED


@pytest.fixture
def shards(rows: Rows, clock: Clock) -> list[int]:
    """The runs of a broadcast to three executors: one has succeeded."""
    job_id = rows.job("nightly")
    return [
        rows.run(
            job_id,
            clock.now,
            status=status,
            shard_index=index,
            shard_total=3,
            address=f"worker-{index + 1}",
            boot_id="b00t",
            started_at=clock.now - 9_000,
            finished_at=clock.now if status == "SUCCEEDED" else None,
        )
        for index, status in enumerate(("RUNNING", "SUCCEEDED", "RUNNING"))
    ]


def words(page: str) -> str:
    """Return the text of a page, in one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_all_shards_of_a_due_time_are_one_page_whichever_leads_there(
    admin: Visit, shards: list[int]
) -> None:
    for run_id in shards:
        page = admin.get(f"/runs/{run_id}/shards").text
        table = words(page[page.index("<tbody>") : page.index("</tbody>")])

        places = ("1 of 3", "2 of 3", "3 of 3", "worker-1", "worker-2", "worker-3", "9 s")
        assert [place for place in places if place not in table] == []
        assert "Broadcast of nightly" in page
        assert re.search("2 running 1 succeeded", words(page))
        assert f'href="/runs/{run_id}/shards">shard' in admin.get(f"/runs/{run_id}").text


def test_killing_all_shards_leaves_those_that_are_over_alone(
    database: Database, admin: Visit, shards: list[int]
) -> None:
    assert "Kill all 2 …" in admin.get(f"/runs/{shards[1]}/shards").text

    page = admin.post(f"/runs/{shards[1]}/shards/kill", follow_redirects=True).text

    runs = database.read(lambda session: recent.by_ids(session, shards))
    assert [run.kill_requested_at is not None for run in runs] == [True, False, True]
    assert "Kill requested. Shards: 2." in page


def test_shards_that_are_still_to_end_are_not_called_over_when_killed_again(
    admin: Visit, rows: Rows, shards: list[int], clock: Clock
) -> None:
    path = f"/runs/{shards[1]}/shards/kill"
    admin.post(path, follow_redirects=True)

    assert "Kill requested. Shards: 2." in admin.post(path, follow_redirects=True).text
    for run_id in (shards[0], shards[2]):
        rows.set_run(run_id, finished_at=clock.now, **ENTERED[RunStatus.KILLED])
    assert "All shards have already ended." in admin.post(path, follow_redirects=True).text


def test_a_shard_shows_its_newest_attempt_and_leads_to_those_before(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    first, second = (
        rows.run(
            job_id,
            clock.now,
            status=status,
            shard_total=2,
            attempt=attempt,
            starts=attempt,
            address="worker-1",
        )
        for attempt, status in enumerate(("FAILED", "RUNNING"))
    )

    page = admin.get(f"/runs/{first}/shards").text

    assert f'data-run="{second}"' in page
    assert f'data-run="{first}"' not in page
    assert f'<a href="/runs/{first}">failed</a>' in page


def test_shards_that_failed_run_again_together_once_all_are_over(
    admin: Visit, rows: Rows, shards: list[int], clock: Clock
) -> None:
    for run_id in (shards[0], shards[2]):
        rows.set_run(run_id, finished_at=clock.now, **ENTERED[RunStatus.FAILED])

    page = admin.get(f"/runs/{shards[0]}/shards").text

    query = f"/runs/bulk/ask?action=again&amp;id={shards[0]}&amp;id={shards[2]}"
    assert f'href="{query}">Run the 2 that failed again …' in page
    assert "data-live" not in page


def test_a_run_that_is_no_shard_has_its_own_page(admin: Visit, rows: Rows, clock: Clock) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now, status="RUNNING")

    assert admin.get(f"/runs/{run_id}/shards").location == f"/runs/{run_id}"
    assert f"/runs/{run_id}/shards" not in admin.get(f"/runs/{run_id}").text


def test_only_operators_of_its_app_kill_a_broadcast(app: Flask, shards: list[int]) -> None:
    stranger, viewer = signed_in(app, "stranger"), signed_in(app, "viewer")
    path = f"/runs/{shards[0]}/shards"

    assert stranger.get(path).status_code == 404
    assert stranger.post(f"{path}/kill").status_code == 404
    assert viewer.post(f"{path}/kill").status_code == 403
    assert "Kill all" not in viewer.get(path).text


def test_the_logs_of_shards_begin_at_their_ends_with_times_to_sort_them_by(
    database: Database, clock: Clock, shards: list[int]
) -> None:
    logs = TimedLogs()
    logs.of_run[shards[0]] = [(clock.now + number, f"line {number}") for number in range(1, 301)]
    admin = signed_in(make_app(database, clock, requester=logs), "admin")

    found = admin.get(f"/runs/{shards[0]}/log/lines?end=1").json

    assert found is not None
    assert (found["first"], found["next"], found["lines"][0]) == (101, 301, "line 101")
    assert found["stamps"][:2] == [clock.now + 101, clock.now + 102]

"""The page of the queue: which due runs are not sent, what they wait for, and since when."""

import re

from flask import Flask

from tests.support.acting import acting
from tests.support.console import Clock, Visit, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web.pages.limits import LINES
from warren.scheduler.limits import LimitSpec
from warren.sql.engine import Database
from warren.sql.models import Hold


def test_it_tells_what_waits_for_what_and_since_when(
    admin: Visit, rows: Rows, database: Database, clock: Clock
) -> None:
    acting(database).limits.apply(LimitSpec(name="warehouse", at_once=1))
    job_id = rows.job("load", limits="warehouse")
    holder = rows.run(job_id, clock.now - 9_000, status="RUNNING", holds=1, routed_at=clock.now)
    waiting = rows.run(job_id, clock.now - 4_020_000)
    later = rows.run(job_id, clock.now + 60_000)
    database.write(lambda session: session.add(Hold(limit_id=1, run_id=holder, weight=1)))

    page = admin.get("/queue").text

    assert f"/runs/{waiting}" in page
    assert f"/runs/{later}" not in page
    assert f"warehouse (1 of 1: load #{holder})" in page
    assert "67 min ago" in page


def test_without_a_full_limit_it_tells_why_the_app_gets_none(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    rows.run(rows.job("load"), clock.now - 9_000)

    assert "no executor of app reports is online" in admin.get("/queue").text


def test_everybody_sees_the_queue_of_their_own_apps(
    app: Flask, admin: Visit, rows: Rows, clock: Clock
) -> None:
    hidden = rows.run(rows.job("other", app="secrets"), clock.now - 9_000, app="secrets")
    shown = rows.run(rows.job("own"), clock.now - 9_000)

    assert re.findall(r'run-link" href="/runs/(\d+)', admin.get("/queue").text) == [
        str(hidden),
        str(shown),
    ]
    viewer = signed_in(app, "viewer")
    for path in ("/queue", "/queue?app=secrets"):
        assert f"/runs/{hidden}" not in viewer.get(path).text
    assert f"/runs/{shown}" in viewer.get("/queue?app=reports").text


def test_a_long_queue_is_read_page_by_page(admin: Visit, rows: Rows, clock: Clock) -> None:
    rows.runs(rows.job("load"), range(clock.now - LINES - 10, clock.now - 9))

    first = admin.get("/queue").text
    [further] = re.findall(r'href="(/queue\?after=[^"]+)" rel="next"', first)

    assert first.count("run-link") == LINES
    assert admin.get(further).text.count("run-link") == 1

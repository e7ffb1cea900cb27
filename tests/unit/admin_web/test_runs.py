"""Runs as pages: found and paged, looked at, killed, run again; to whom they are shown."""

import re
from collections.abc import Iterator

import pytest
from flask import Flask

from sql.engine import Database
from sql.models import TrailEntry
from sql.run_status import Kind, RunStatus
from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.ledger_rows import Rows

NASTY = '"><img src=x onerror=alert(1)>{{7*7}}'
HOUR_MS = 3_600_000


@pytest.fixture
def rows(database: Database) -> Iterator[Rows]:
    rows = Rows(database.url.render_as_string(hide_password=False))
    yield rows
    rows.database.close()


def shown(page: str) -> list[int]:
    """Return the ids of the runs of a list, in order."""
    return [int(found) for found in re.findall(r'class="run-link" href="/runs/(\d+)"', page)]


def older(page: str) -> str:
    """Return the address of the next page, empty on the last one."""
    found = re.search(r'href="([^"]+)" rel="next"', page)
    return found[1].replace("&amp;", "&") if found else ""


class TestList:
    def test_without_a_run_it_says_how_one_comes_to_be(self, admin: Visit) -> None:
        assert "Nothing has run yet." in admin.get("/runs").text

    def test_a_line_tells_all_that_is_worth_knowing(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        rows.run(
            job_id,
            clock.now - 9_000,
            status="FAILED",
            kind=Kind.RETRY,
            started_at=clock.now - 8_000,
            finished_at=clock.now - 6_500,
            executor_address="worker-7",
            shard_index=2,
            shard_total=5,
            attempt=1,
            handle_msg="disk full\nsecond line",
        )

        page = admin.get("/runs").text
        line = re.sub(r"<[^>]+>", " ", re.findall(r"<tr>.*?</tr>", page, re.DOTALL)[-1])

        for fact in ("failed", "nightly", "retry", "1.5 s", "worker-7", "2/5", " 2 ", "disk full"):
            assert fact in line, fact
        assert "second line" not in line

    def test_newest_first_and_each_once_however_many_pages(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        # Several within a second, in which the time alone does not tell them apart.
        ids = [rows.run(job_id, clock.now - n * 300, status="SUCCEEDED") for n in range(120)]
        found: list[int] = []
        path = "/runs"

        while path:
            page = admin.get(path).text
            found += shown(page)
            path = older(page)

        assert sorted(found) == sorted(ids)

    @pytest.mark.parametrize(
        "query",
        [
            "",
            "status=SUCCEEDED",
            "status=open",
            "job=nightly",
            "job=reports/nightly&status=SUCCEEDED",
            "kind=MANUAL",
            "address=one",
            "app=reports&kind=MANUAL&address=one",
            "app=reports&status=failures",
            "job=nightly&kind=MANUAL",
        ],
    )
    def test_pages_of_a_filter_have_each_run_that_fits_once_newest_first(
        self, admin: Visit, rows: Rows, clock: Clock, query: str
    ) -> None:
        fits = {}
        for number in range(140):
            name, app = (("nightly", "reports"), ("hourly", "mails"))[number % 2]
            status = ("SUCCEEDED", "FAILED", "RUNNING", "LOST")[number // 2 % 4]
            kind = (Kind.CRON, Kind.MANUAL)[number % 3 % 2]
            address = ("one", "two")[number % 5 % 2]
            job_id = _job(rows, name, app)
            due = clock.now - number * 1_000
            run_id = rows.run(job_id, due, app, status=status, kind=kind, executor_address=address)
            group = {"RUNNING": "open", "FAILED": "failures", "LOST": "failures"}.get(status)
            facts = {
                "app": {app},
                "status": {status, group},
                "job": {name, f"{app}/{name}"},
                "kind": {kind.value},
                "address": {address},
            }
            asked = dict(part.split("=") for part in query.split("&") if part)
            if all(value in facts[field] for field, value in asked.items()):
                fits[run_id] = due
        found: list[int] = []
        path = f"/runs?{query}"

        while path:
            page = admin.get(path).text
            found += shown(page)
            path = older(page)

        assert found == sorted(fits, key=fits.__getitem__, reverse=True)
        assert found


def _job(rows: Rows, name: str, app: str) -> int:
    """Make a job unless it is there."""
    known = rows.__dict__.setdefault("jobs", {})
    if (name, app) not in known:
        known[name, app] = rows.job(name, app)
    return int(known[name, app])

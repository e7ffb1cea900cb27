"""The page of a log: colours, times, searching, killing, and who triggered its run."""

import re

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.fixed_logs import FixedLogs, TimedLogs
from tests.support.stored_rows import Rows
from warren.sql.engine import Database

TEXT = "\x1b[31mbad <b>\x1b[0m\nsecond"


@pytest.fixture
def app(database: Database, clock: Clock) -> Flask:
    return make_app(database, clock, requester=FixedLogs(TEXT))


def run(rows: Rows, clock: Clock, **columns: object) -> int:
    at_ms = clock.now - 5_000
    facts = {"address": "exec-1", "boot_id": "b00t", "started_at": at_ms}
    return rows.run(rows.job("talker"), at_ms, **facts | columns)


class TestPage:
    def test_colours_are_looks_and_text_stays_text(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = run(rows, clock, status="RUNNING")

        page = admin.get(f"/runs/{run_id}/log").text
        lines = admin.get(f"/runs/{run_id}/log/lines?from=1").json

        assert '<span class="ansi-red">bad &lt;b&gt;</span>' in page
        assert lines is not None
        assert lines["lines"] == [[["ansi-red", "bad <b>"]], "second"]
        assert lines["times"] == ["", ""]

    def test_the_lines_of_a_short_run_have_the_time_of_its_end(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = run(rows, clock, status="SUCCEEDED", finished_at=clock.now - 4_800)

        assert 'data-time="07:59:55"' in admin.get(f"/runs/{run_id}/log").text

    def test_past_the_end_of_a_log_that_is_over_no_line_is_promised(
        self, database: Database, rows: Rows, clock: Clock
    ) -> None:
        admin = signed_in(make_app(database, clock, requester=FixedLogs("")), "admin")
        over = run(rows, clock, status="SUCCEEDED", finished_at=clock.now)
        facts = {"status": "RUNNING", "address": "exec-1", "boot_id": "b00t"}
        going_on = rows.run(rows.job("later"), clock.now, **facts)

        page = admin.get(f"/runs/{over}/log?line=999").text

        assert "The log ends before this line." in page
        assert '<p class="log-jump"><a' in page
        assert "This line does not exist yet." in admin.get(f"/runs/{going_on}/log?line=999").text

    @pytest.mark.parametrize(
        ("status", "is_at_end"), [("FAILED", True), ("KILLED", True), ("SUCCEEDED", False)]
    )
    def test_what_did_not_succeed_opens_where_it_ended(
        self, admin: Visit, rows: Rows, clock: Clock, status: str, *, is_at_end: bool
    ) -> None:
        run_id = run(rows, clock, status=status, finished_at=clock.now)

        assert (" data-ended" in admin.get(f"/runs/{run_id}/log").text) is is_at_end
        assert " data-ended" in admin.get(f"/runs/{run_id}/log?end=1").text
        assert " data-ended" not in admin.get(f"/runs/{run_id}/log?line=1").text

    def test_an_open_run_can_be_killed_from_its_log(
        self, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        run_id = run(rows, clock, status="RUNNING")
        operator, viewer = signed_in(app, "operator"), signed_in(app, "viewer")

        answer = operator.post(f"/runs/{run_id}/kill", {"log": "1"})

        assert f'action="/runs/{run_id}/kill"' in operator.get(f"/runs/{run_id}/log").text
        assert answer.location == f"/runs/{run_id}/log"
        assert "/kill" not in viewer.get(f"/runs/{run_id}/log").text

    def test_a_search_that_an_executor_cannot_answer_says_so(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = run(rows, clock, status="RUNNING")

        answer = admin.get(f"/runs/{run_id}/log/search?q=bad")
        nothing = admin.get(f"/runs/{run_id}/log/search?q=")

        assert answer.json is not None
        assert answer.json["answer"] == "MISSING"
        assert nothing.json == {"answer": "LINES", "lines": [], "looked_to": 0, "is_end": True}


class TestWho:
    def test_a_run_by_hand_leads_to_its_log_and_tells_who_triggered_it(
        self, app: Flask, rows: Rows
    ) -> None:
        job_id = rows.job("talker")
        operator = signed_in(app, "operator")

        answer = operator.post(f"/jobs/{job_id}/trigger/run", {"param": '{"run": 1}'})

        found = re.fullmatch(r"/runs/(\d+)/log", answer.location)
        assert found is not None
        page = signed_in(app, "viewer").get(f"/runs/{found[1]}").text
        assert "<dt>Triggered by user</dt><dd>operator</dd>" in page

    def test_a_run_that_nobody_triggered_names_nobody(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = run(rows, clock)

        assert "Triggered by user</dt>" not in admin.get(f"/runs/{run_id}").text


class TestDifference:
    @pytest.fixture
    def logs(self) -> TimedLogs:
        return TimedLogs()

    @pytest.fixture
    def admin(self, database: Database, clock: Clock, logs: TimedLogs) -> Visit:
        return signed_in(make_app(database, clock, requester=logs), "admin")

    @pytest.fixture
    def runs(self, rows: Rows, clock: Clock) -> tuple[int, int]:
        """A success, and a later failure of the same job."""
        job_id = rows.job("talker")
        facts = {"address": "exec-1", "boot_id": "b00t"}
        good = rows.run(job_id, clock.now - 9_000, status="SUCCEEDED", **facts)
        tail = "10:00:02 what is kept"
        return good, rows.run(job_id, clock.now, status="FAILED", log_tail=tail, **facts)

    def test_what_differs_from_the_last_success_is_told_apart_without_the_times(
        self, admin: Visit, logs: TimedLogs, runs: tuple[int, int]
    ) -> None:
        good, bad = runs
        logs.of_run[good] = [(1, "10:00:00 connecting"), (2, "10:00:01 wrote 3 rows")]
        logs.of_run[bad] = [(1, "11:00:00 connecting"), (2, "11:00:01 no <answer>")]

        page = admin.get(f"/runs/{bad}/log/difference").text

        lines = re.findall(r'<tr class="(\w+)">.*?<td class="text">([^<]*)</td>', page)
        assert lines == [
            ("same", "connecting"),
            ("out", "wrote 3 rows"),
            ("in", "no &lt;answer&gt;"),
        ]
        assert f'href="/runs/{bad}/log/difference"' in admin.get(f"/runs/{bad}").text

    def test_a_log_that_is_gone_is_compared_by_its_end_that_was_saved_and_the_page_says_so(
        self, admin: Visit, logs: TimedLogs, runs: tuple[int, int]
    ) -> None:
        good, bad = runs
        logs.of_run[good] = [(1, "10:00:00 connecting")]

        page = admin.get(f"/runs/{bad}/log/difference").text

        assert f"Only the end of the log of run {bad} is left" in page
        assert '<td class="text">what is kept</td>' in page

    def test_no_executor_to_ask_is_not_called_an_empty_log(
        self, app: Flask, runs: tuple[int, int], rows: Rows
    ) -> None:
        good, bad = runs
        rows.set_run(good, address=None)

        page = signed_in(app, "viewer").get(f"/runs/{bad}/log/difference").text

        assert f"The log of run {good} cannot be read now" in page

    def test_logs_that_cannot_be_read_are_not_said_to_match(
        self, app: Flask, runs: tuple[int, int], rows: Rows
    ) -> None:
        for run_id in runs:
            rows.set_run(run_id, address=None, log_tail=None)

        page = signed_in(app, "viewer").get(f"/runs/{runs[1]}/log/difference").text

        assert page.count("cannot be read now") == len(runs)
        assert "The two logs match." not in page

    def test_a_run_without_a_success_before_it_leads_to_its_log(
        self, admin: Visit, runs: tuple[int, int]
    ) -> None:
        good, _ = runs

        assert admin.get(f"/runs/{good}/log/difference").location == f"/runs/{good}/log"

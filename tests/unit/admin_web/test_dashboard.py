"""The dashboard's figures, charts and timeline: what they show, to whom, of how much."""

import re
from datetime import date, timedelta
from typing import Any

import msgspec
import pytest
from flask import Flask
from sqlalchemy.orm import Session

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web.cached_counts import FRESH_SECONDS, CachedCounts
from warren.admin_web.pages.dashboard import Lateness, spread
from warren.broker.messages import Load
from warren.sql.engine import Database
from warren.sql.instants import at
from warren.sql.listings import dashboard, timeline
from warren.sql.registry import apps, presence
from warren.sql.registry.presence import Beat
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Cleared, Counts

#: The day of the tests' clock.
TODAY = date(2027, 1, 15)


def report(database: Database, day: date, *counts: int, app: str = "reports") -> None:
    """Write what was counted of a day, when nothing was of any other app."""

    def unit(session: Session) -> None:
        by_app = {apps.find(session, app).id: Counts(*counts)}
        assert day_reports.store(session, day, by_app, already_cleared=Cleared(), at=at(0))

    database.write(unit)


def days(page: str) -> list[str]:
    return re.findall(r'<th scope="row">(\S+)</th>', page)


class TestDays:
    def test_the_last_seven_days_are_there_whether_they_have_runs_or_not(
        self, admin: Visit, database: Database
    ) -> None:
        report(database, TODAY - timedelta(days=2), 1, 20, 3)

        page = admin.get("/overview").text

        assert days(page) == [str(TODAY - timedelta(days=n)) for n in range(7)]
        assert re.findall(r'data-value="(\d+)"', page)[6:9] == ["20", "3", "1"]

    @pytest.mark.parametrize(
        ("asked", "first", "count"),
        [
            ("range=1", "2027-01-15", 1),
            ("range=30", "2026-12-17", 30),
            ("range=custom&since=2026-12-30&until=2027-01-02", "2026-12-30", 4),
            ("range=custom&since=2027-01-10", "2027-01-10", 6),
            ("range=custom&until=2027-01-03", "2027-01-03", 1),
        ],
    )
    def test_another_range_may_be_chosen(
        self, admin: Visit, database: Database, asked: str, first: str, count: int
    ) -> None:
        report(database, date.fromisoformat(first), 0, 5, 0)

        page = admin.get(f"/overview?{asked}").text

        assert len(days(page)) == count
        assert days(page)[-1] == first

    @pytest.mark.parametrize(
        ("since", "words"),
        [
            ("2027-01-02", "is after the end date"),
            ("2020-01-01", "at most 366 days"),
            ("yesterday", "Enter a date like 2026-01-31."),
        ],
    )
    def test_no_range_is_told_beside_the_day_and_kept(
        self, admin: Visit, since: str, words: str
    ) -> None:
        answer = admin.get(f"/overview?range=custom&since={since}&until=2027-01-01")

        assert answer.status_code == 422
        assert words in answer.text
        assert f'value="{since}"' in answer.text

    def test_a_range_that_is_none_of_ours_is_no_error_of_the_console(self, admin: Visit) -> None:
        assert admin.get("/overview?range=9999999").status_code == 422

    def test_shares_make_a_whole_ring(self, admin: Visit, database: Database) -> None:
        report(database, TODAY, 1, 6, 3)

        page = admin.get("/overview").text

        parts = re.findall(r'class="(\w+)" cx=.*?stroke-dasharray="([\d.]+)', page)
        assert parts == [("good", "60.0"), ("bad", "30.0"), ("busy", "10.0")]
        assert "60 %" in page

    def test_skipped_runs_have_a_column_where_there_are_some(
        self, admin: Visit, database: Database
    ) -> None:
        report(database, TODAY, 0, 6, 2)
        assert 'data-tone="skip"' not in admin.get("/overview").text

        report(database, TODAY, 0, 6, 2, 2)
        page = admin.get("/overview").text

        parts = re.findall(r'class="(\w+)" cx=.*?stroke-dasharray="([\d.]+)', page)
        assert parts == [("good", "60.0"), ("bad", "20.0"), ("skip", "20.0")]
        assert 'data-tone="skip"' in page
        assert "2 skipped" in page

    def test_everyone_sees_the_days_of_their_own_apps(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        report(database, TODAY, 1, 6, 3)
        report(database, TODAY - timedelta(days=1), 0, 40, 2, app="mails")

        def numbers(visit: Visit) -> tuple[list[str], list[str]]:
            page = visit.get("/overview").text
            values = re.findall(r'data-value="(\d+)"', page)
            return values[:6], re.findall(r"(\d+) (?:succeeded|failed|unfinished)", page)[:3]

        assert numbers(admin) == (["6", "3", "1", "40", "2", "0"], ["6", "3", "1"])
        for name in ("operator", "viewer"):
            assert numbers(signed_in(app, name)) == (
                ["6", "3", "1", "0", "0", "0"],
                ["6", "3", "1"],
            )
        assert numbers(signed_in(app, "stranger"))[0] == ["0", "0", "0", "40", "2", "0"]

    def test_days_carry_their_zone_whatever_that_of_the_viewer(
        self, database: Database, clock: Clock
    ) -> None:
        report(database, TODAY, 1, 6, 3)
        visit = signed_in(make_app(database, clock, cluster_zone=lambda: "Asia/Shanghai"), "viewer")
        visit.client.set_cookie("warren_zone", "America/New_York")

        page = visit.get("/overview").text

        label = '<span class="quiet">Asia/Shanghai</span>'
        assert re.findall(rf"(Runs today|Runs per day|Day) {label}", page) == [
            "Runs today",
            "Runs per day",
            "Day",
        ]

    def test_a_range_that_is_none_is_told_to_everyone(self, app: Flask) -> None:
        answer = signed_in(app, "operator").get("/overview?range=custom&since=bad")

        assert answer.status_code == 422
        assert "Enter a date like 2026-01-31." in answer.text


class TestLateness:
    def test_it_is_from_due_to_started_of_ones_own_apps(
        self, app: Flask, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        for number, (name, late) in enumerate([("reports", 20), ("reports", 40), ("mails", 9_000)]):
            due = clock.now - 60_000 * (number + 1)
            job_id = rows.job(f"job-{number}", app=name)
            rows.run(job_id, due, name, status="SUCCEEDED", started_at=due + late)

        assert "p95 9 s, max 9 s" in admin.get("/overview").text
        assert "p95 40 ms, max 40 ms" in signed_in(app, "operator").get("/overview").text

    def test_without_a_run_within_the_hour_there_is_none(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        due = clock.now - dashboard.LATENESS_MS - 2_000
        rows.run(rows.job("old"), due, status="SUCCEEDED", started_at=due + 5)

        assert "No runs in the past hour" in admin.get("/overview").text

    def test_the_spread_of_a_hundred(self) -> None:
        assert spread(range(1, 101)) == Lateness(100, 50, 95, 100)

    def test_only_so_many_runs_are_looked_at(self, rows: Rows, clock: Clock) -> None:
        job_id = rows.job("often")
        for number in range(4):
            due = clock.now - 1_000 * number
            rows.run(job_id, due, status="SUCCEEDED", started_at=due + number)

        late = rows.database.read(
            lambda s: dashboard.lateness(s, None, now_ms=clock.now, looked_at=2)
        )

        assert late == [0, 1]


class TestFailures:
    def test_failures_of_one_job_are_one_line(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        for name, count in (("flaky", 3), ("unlucky", 1)):
            job_id = rows.job(name)
            for number in range(count):
                rows.run(job_id, clock.now - 60_000 - number, status="FAILED")

        page = admin.get("/overview").text

        assert page.count(">flaky</strong>") == 1
        assert "3 times" in page
        assert "1 times" not in page
        assert "job=flaky&amp;app=reports&amp;status=unresolved" in page

    def test_a_failure_that_a_retry_made_good_is_none(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("flaky")
        rows.run(job_id, clock.now - 60_000, status="FAILED")
        rows.run(job_id, clock.now - 60_000, status="SUCCEEDED", attempt=1)

        assert "No failures in the last 7 days." in admin.get("/overview").text


class TestOutlook:
    def jobs(self, rows: Rows, clock: Clock, *minutes: float, app: str = "reports") -> None:
        for minute in minutes:
            due = clock.now + int(minute * 60_000)
            rows.job(f"in-{minute}", app=app, is_enabled=1, next_tick_at=due)

    def test_each_minute_has_a_column_as_high_as_its_jobs(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        self.jobs(rows, clock, 2, 2.5, 30, 61)

        page = admin.get("/overview").text

        columns = re.findall(r'<rect x="(\d+)".*?height="([\d.]+)".*?· (\d+)</title>', page)
        assert columns == [("21", "44.0", "2"), ("301", "25.0", "1")]
        assert "in-61" not in page

    def test_every_tick_of_the_hour_is_counted_and_not_every_job(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        for name, kind, value in (
            ("often", "FIX_RATE", "10"),
            ("quarterly", "CRON", "0 0/15 * * * ?"),
            ("broken", "CRON", "no cron"),
            ("once", "FIX_DELAY", "10"),
        ):
            rows.job(
                name,
                schedule_kind=kind,
                schedule_value=value,
                is_enabled=1,
                next_tick_at=clock.now,
            )

        page = admin.get("/overview").text

        counts = [int(count) for count in re.findall(r"· (\d+)</title>", page)]
        assert sum(counts) == 360 + 4 + 1 + 1
        assert "366 runs of 4 jobs due in the next hour" in page

    def test_a_schedule_is_told_in_words(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        rows.job(
            "daily",
            schedule_kind="CRON",
            schedule_value="0 0 8 * * ?",
            is_enabled=1,
            next_tick_at=clock.now + 60_000,
        )

        assert '<td title="0 0 8 * * ?">At 08:00, every day' in admin.get("/overview").text

    def test_more_than_a_list_holds_is_counted(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        self.jobs(rows, clock, *range(1, 13))

        assert "4 more" in admin.get("/overview").text

    def test_of_very_many_it_says_until_when_it_looked(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        due = clock.now + 120_000
        rows.jobs(timeline.MAX_JOBS, is_enabled=1, next_tick_at=due)
        self.jobs(rows, clock, 3)

        page = admin.get("/overview").text

        assert "these are due until 2027-01-15 08:02:00" in page

    def test_jobs_of_other_apps_have_no_part_in_it(
        self, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        self.jobs(rows, clock, 1, app="mails")

        assert 'class="hour"' not in signed_in(app, "operator").get("/overview").text


class TestProcesses:
    def beat(self, database: Database, clock: Clock, load: bytes) -> None:
        one = Beat(
            kind=presence.EXECUTOR,
            app="reports",
            address="reports-1",
            boot_id="b",
            beat_at=clock.now,
            load=load.decode(),
        )
        database.write(lambda session: presence.hold(session, one))

    def test_an_executor_shows_slots_cpu_and_memory(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        load = Load(cpu_percent=95.4, memory_percent=40, slots=8, running=2)
        self.beat(database, clock, msgspec.json.encode(load))

        page = admin.get("/overview").text

        assert [words in page for words in ("2/8", "95 %", "40 %")] == [True] * 3
        assert 'width="95.4" height="4" class="high"' in page

    @pytest.mark.parametrize("load", [b"", b"{", b"[1]", b"{}"])
    def test_a_load_that_tells_nothing_harms_nothing(
        self, admin: Visit, database: Database, clock: Clock, load: bytes
    ) -> None:
        self.beat(database, clock, load)

        page = admin.get("/overview")

        assert page.status_code == 200
        assert "reports-1" in page.text

    def test_the_broker_is_said_to_answer(self, admin: Visit) -> None:
        assert "connected" in admin.get("/overview").text


class TestToday:
    """The clock stands at 2027-01-15 08:00 UTC."""

    def test_it_comes_from_the_day_report_and_waits_for_it(
        self, app: Flask, admin: Visit, database: Database
    ) -> None:
        viewer, stranger = signed_in(app, "viewer"), signed_in(app, "stranger")
        before = [visit.get("/overview").text for visit in (admin, viewer)]
        report(database, TODAY, 2, 2_000, 3)

        assert not any("Runs today" in page for page in before)
        for visit in (admin, viewer):
            page = visit.get("/overview").text
            assert "2,000 succeeded" in page
            assert "3 failed" in page
            assert "2 unfinished" in page
            assert re.search(r'<a href="/runs[^"]*">2,005</a>', page)
        assert "0 succeeded" in stranger.get("/overview").text

    def test_the_administrator_sees_the_report(self, admin: Visit, database: Database) -> None:
        report(database, TODAY, 1, 20_000, 3)

        page = admin.get("/overview").text

        assert "20,000 succeeded" in page
        assert '<a href="/runs">20,004</a>' in page


class TestSeldomCounter:
    def test_jobs_are_counted_once_in_a_while_for_each_set_of_apps(self, rows: Rows) -> None:
        asked: list[Any] = []

        def count(session: Session, apps: frozenset[int] | None) -> tuple[int, int]:
            asked.append(apps)
            return dashboard.job_counts(session, apps)

        now = [100.0]
        counter = CachedCounts(count, lambda: now[0])
        mine = frozenset({rows.app("reports")})
        rows.job("one", is_enabled=1)

        def look(apps: frozenset[int] | None) -> tuple[int, int]:
            return rows.database.read(lambda session: counter.of(session, apps))

        assert [look(None), look(mine), look(None), look(mine)] == [(1, 1)] * 4
        rows.job("two")
        now[0] += FRESH_SECONDS

        assert look(None) == (2, 1)
        assert asked == [None, mine, None]

"""The timeline: which rows come first, what their bars tell, and what is left out."""

import re
from collections import Counter

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, signed_in
from tests.support.flow_rows import night
from tests.support.stored_rows import Rows
from tests.support.trigger_rows import run_facts
from warren.admin_web.pages import timeline
from warren.admin_web.pages.timeline import (
    ROWS,
    WIDTH,
    Grouping,
    Row,
    RunLimits,
    TimelineReader,
    Window,
)
from warren.scheduler.board.folding import rebuild
from warren.sql.board import quarters
from warren.sql.run_status import RunStatus
from warren.sql.runs.run_rows import RunFacts
from warren.sql.unfolded import Outcomes, QuarterKey, quarter_of

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW_MS = 1_800_000_000_000
WINDOW = Window(NOW_MS - HOUR_MS, NOW_MS + HOUR_MS, NOW_MS)


def names(page: str) -> list[str]:
    """Return the jobs of the rows, from above."""
    table = page[page.index("data-spans") : page.index("data-span-told")]
    return re.findall(r'<span class="row-name"><a href="[^"]+">([^<]+)', table)


def told(page: str) -> list[str]:
    """Return what the bars say, from above."""
    return re.findall(r'aria-label="(2027-[^"]+)"', page)


def ended(rows: Rows, job_id: int, due_ms: int, seconds: int = 60, **columns: object) -> int:
    start_ms = due_ms + int(str(columns.pop("wait_ms", 10)))
    return rows.run(
        job_id,
        due_ms,
        **{
            "status": RunStatus.SUCCEEDED,
            "started_at": start_ms,
            "finished_at": start_ms + seconds * 1000,
        }
        | columns,
    )


def by_app(rows: Rows, limits: RunLimits) -> dict[str, Row]:
    """Return the rows of apps by name."""
    found = rows.database.read(
        lambda session: TimelineReader(session, WINDOW, "UTC", limits).read(None, Grouping.APP)
    )
    return {row.name: row for row in found.rows}


class TestRows:
    def test_late_rows_come_before_failed_ones_and_these_before_busy_ones(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        for name, columns in (
            ("calm", {}),
            ("failed", {"status": RunStatus.FAILED}),
            ("late", {"wait_ms": 30_000}),
        ):
            ended(rows, rows.job(name), clock.now - 30 * MINUTE_MS, **columns)
        busy = rows.job("busy")
        for minutes in (10, 20, 30):
            ended(rows, busy, clock.now - minutes * MINUTE_MS)

        page = admin.get("/timeline").text

        assert names(page) == ["late", "failed", "busy", "calm"]
        assert "1 late" in page
        assert "1 failed" in page

    def test_what_was_skipped_comes_first_with_its_times_and_cause(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        late = rows.job("late")
        ended(rows, late, clock.now - 30 * MINUTE_MS, wait_ms=30_000)
        due_ms = clock.now - HOUR_MS
        rows.skip(rows.job("missed"), due_ms, count=1, reason="nobody <b>there</b>")
        rows.skip(rows.job("gone-by"), due_ms - 90 * HOUR_MS, count=1, reason="long ago")

        page = admin.get("/timeline").text

        assert names(page) == ["missed", "late"]
        assert page.count('<rect class="skipped" x=') == 1
        assert "1 skipped: nobody &lt;b&gt;there&lt;/b&gt;" in page
        assert "1 skipped" in admin.get("/timeline?rows=app").text

    def test_a_run_that_waits_for_an_executor_is_late_up_to_now(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        rows.run(rows.job("waits"), clock.now - 5 * MINUTE_MS)

        assert "1 late" in admin.get("/timeline").text

    def test_a_due_time_that_no_scheduler_planned_is_late(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        rows.job(
            "forgotten",
            schedule_kind="FIX_RATE",
            schedule_value="3600",
            is_enabled=1,
            next_tick_at=clock.now - MINUTE_MS,
        )

        page = admin.get("/timeline").text

        assert names(page) == ["forgotten"]
        assert "1 late" in page

    def test_due_times_ahead_are_marks_up_to_a_bound(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        for name, seconds in (("hourly", "3600"), ("often", "10")):
            rows.job(
                name,
                schedule_kind="FIX_RATE",
                schedule_value=seconds,
                is_enabled=1,
                next_tick_at=clock.now + 5_000,
            )

        page = admin.get("/timeline?zoom=24").text

        marks = [path.count("M") for path in re.findall(r'class="marks" d="(M\d[^"]+8v18)"', page)]
        assert 24 in marks
        assert "A line after the marks stands for more due times." in page

    def test_a_run_that_began_before_the_window_is_there_as_long_as_it_runs(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        due = clock.now - 50 * HOUR_MS
        rows.run(rows.job("long"), due, status=RunStatus.RUNNING, started_at=due + 10)

        assert "running, 2 days 2 h" in admin.get("/timeline?zoom=1").text

    def test_what_is_left_out_is_said(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        for number in range(ROWS + 2):
            ended(rows, rows.job(f"job-{number:02}"), clock.now - (60 + number) * MINUTE_MS)
        rows.runs(rows.job("often"), (clock.now - number * MINUTE_MS for number in range(1, 500)))

        page = admin.get("/timeline?zoom=24").text

        assert len(names(page)) == ROWS
        assert "3 more rows." in page
        assert "A line before the bars stands for more runs" in page
        assert '<rect class="dense" x="0"' in page

    def test_at_first_it_shows_the_last_six_hours_and_the_next(
        self, admin: Visit, clock: Clock
    ) -> None:
        page = admin.get("/timeline?rows=app").text

        assert f"rows=app&amp;at={clock.now - 7 * HOUR_MS // 2}" in page
        assert "rows=app&amp;zoom=1" in page
        assert "rows=app&amp;zoom=6" in page

    def test_all_runs_of_the_window_are_counted_by_quarter_of_their_own_app(
        self, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        at_ms = quarter_of(clock.now - 5 * HOUR_MS)
        mine, foreign = rows.app("reports"), rows.app("mails")
        rows.database.write(
            lambda session: quarters.add(
                session,
                {
                    QuarterKey(at_ms, mine): Outcomes(9_000, 40),
                    QuarterKey(at_ms, foreign): Outcomes(77, 7),
                },
            )
        )
        rows.job(
            "nightly",
            schedule_kind="FIX_RATE",
            schedule_value="60",
            is_enabled=1,
            next_tick_at=clock.now + 5_000,
        )

        viewer, admin = signed_in(app, "viewer"), signed_in(app, "admin")

        counts = "9000 succeeded, 40 failed, 0 skipped; jobs due next: 1"
        assert f'aria-label="{counts}"' in viewer.get("/timeline").text
        assert "9077 succeeded, 47 failed" in admin.get("/timeline").text
        assert "succeeded, 40 failed" not in viewer.get("/timeline?zoom=1").text

    def test_what_failed_in_the_morning_is_not_hidden_by_the_runs_of_the_last_minutes(
        self, rows: Rows
    ) -> None:
        broken, busy = rows.job("broken"), rows.job("busy")
        for number in range(1, 6):
            ended(rows, busy, NOW_MS - number * MINUTE_MS, status=RunStatus.FAILED)
        ended(rows, broken, NOW_MS - 50 * MINUTE_MS, status=RunStatus.FAILED)
        rows.database.write(lambda session: rebuild(session, [broken, busy], now_ms=NOW_MS))
        few = RunLimits(sampled=3)

        found = rows.database.read(
            lambda session: TimelineReader(session, WINDOW, "UTC", few).read(None, Grouping.JOB)
        )

        assert {row.name for row in found.rows} == {"busy", "broken"}
        assert found.complete_from_ms is not None

    def test_everyone_sees_their_own_apps(self, app: Flask, rows: Rows, clock: Clock) -> None:
        ended(rows, rows.job("mine"), clock.now - HOUR_MS)
        ended(rows, rows.job("theirs", app="mails"), clock.now - HOUR_MS, app="mails")
        viewer = signed_in(app, "viewer")

        assert names(viewer.get("/timeline").text) == ["mine"]
        assert viewer.get("/timeline?app=mails").status_code == 422
        assert "mails" not in viewer.get("/timeline?rows=app").text

    def test_a_row_may_be_an_app(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        for name in ("one", "two"):
            ended(rows, rows.job(name), clock.now - HOUR_MS)

        page = admin.get("/timeline?rows=app").text

        assert re.findall(r'row-name">([^<]+)', page)[0].strip() == "reports"
        assert "2 runs, succeeded" in told(page)[0]

    def test_a_row_of_an_app_has_its_successes_beside_many_of_other_apps(
        self, rows: Rows, clock: Clock
    ) -> None:
        mine, theirs = rows.job("mine"), rows.job("theirs", app="mails")
        for minutes in range(1, 11):
            ended(rows, theirs, clock.now - minutes * MINUTE_MS, app="mails")
            ended(rows, mine, clock.now - HOUR_MS // 2 - minutes * MINUTE_MS)
        ended(rows, mine, clock.now - 50 * MINUTE_MS, status=RunStatus.FAILED)

        row = by_app(rows, RunLimits(sampled=5))["reports"]

        assert (row.tally.runs, row.tally.failed, row.unread) == (11, 1, 0)
        assert sum((bar.states for bar in row.bars), Counter()) == {"SUCCEEDED": 10, "FAILED": 1}

    def test_before_the_first_of_its_runs_that_is_drawn_more_may_be_missing(
        self, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("often")
        for minutes in range(1, 11):
            ended(rows, job_id, clock.now - minutes * MINUTE_MS)

        row = by_app(rows, RunLimits(sampled=3, of_job=5, of_apps=5))["reports"]

        assert row.tally.runs == 5
        assert row.unread == WINDOW.place(clock.now - 5 * MINUTE_MS)

    def test_a_bar_of_several_runs_counts_them_by_state(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        crowd = rows.job("crowd")
        for seconds, status in ((0, "SUCCEEDED"), (5, "FAILED"), (10, "SUCCEEDED")):
            ended(rows, crowd, clock.now - HOUR_MS + seconds * 1000, seconds=1, status=status)

        page = admin.get("/timeline").text

        assert "3 runs, 2 succeeded, 1 failed" in told(page)[0]
        shapes = re.findall(r'<rect class="(good|bad)" [^>]+ height="([\d.]+)"', page)
        assert shapes[-2:] == [("good", "10"), ("bad", "5")]

    def test_a_row_of_an_app_tells_runs_that_overlap_within_a_job(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        for name, apart_ms in (("apart", HOUR_MS), ("close", MINUTE_MS)):
            job_id = rows.job(name)
            for number in (1, 2):
                ended(rows, job_id, clock.now - 3 * HOUR_MS + number * apart_ms, seconds=600)

        page = admin.get("/timeline?rows=app").text

        assert "1 overlap" in page

    @pytest.mark.parametrize("at", ["0", "-5", "x", "9" * 30])
    def test_a_middle_that_is_none_is_now(self, admin: Visit, at: str) -> None:
        answer = admin.get(f"/timeline?at={at}")

        assert answer.status_code == 200
        assert 'data-live="30"' in answer.text

    def test_moving_keeps_the_filter(self, admin: Visit, clock: Clock) -> None:
        page = admin.get("/timeline?app=reports&zoom=6").text

        assert f"app=reports&amp;zoom=6&amp;at={clock.now - 6 * HOUR_MS}" in page

    def test_a_zoom_that_is_none_is_refused_beside_its_field(self, admin: Visit) -> None:
        assert admin.get("/timeline?zoom=7").status_code == 422


class TestLinks:
    def test_a_bar_leads_to_its_run_and_several_to_their_list(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        alone = ended(rows, rows.job("alone"), clock.now - 3 * HOUR_MS, seconds=1)
        crowd = rows.job("crowd")
        for seconds in (0, 5, 10):
            ended(rows, crowd, clock.now - HOUR_MS + seconds * 1000, seconds=1)

        page = admin.get("/timeline").text
        listed = re.search(r'href="(/runs\?[^"]+)"', page)

        assert f'href="/runs/{alone}"' in page
        assert listed is not None
        shown = admin.get(listed[1].replace("&amp;", "&")).text
        assert len(set(re.findall(r'href="/runs/(\d+)"', shown))) == 3

    def test_the_list_of_runs_that_began_late_has_them(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        crowd = rows.job("crowd")
        for began_ms in range(clock.now - HOUR_MS, clock.now - HOUR_MS + 15_000, 5_000):
            times = {"started_at": began_ms, "finished_at": began_ms + 1_000}
            rows.run(crowd, began_ms - HOUR_MS // 2, status="SUCCEEDED", **times)

        listed = re.search(r'href="(/runs\?[^"]+)"', admin.get("/timeline").text)

        assert listed is not None
        shown = admin.get(listed[1].replace("&amp;", "&")).text
        assert len(set(re.findall(r'href="/runs/(\d+)"', shown))) == 3


def run(
    number: int, due_ms: int, start_ms: int | None, end_ms: int | None, **more: str
) -> RunFacts:
    return run_facts(
        id=number,
        job_id=1,
        app_id=1,
        status=more.get("status", RunStatus.SUCCEEDED),
        kind="CRON",
        scheduled_at=due_ms,
        due_at=due_ms,
        started_at=start_ms,
        finished_at=end_ms,
    )


def test_the_row_of_an_app_has_the_nodes_instead_of_their_flow(rows: Rows) -> None:
    flow = night(rows, NOW_MS)

    row = by_app(rows, RunLimits())["reports"]

    assert row.tally.runs == 6
    assert {bar.run_id for bar in row.bars}.isdisjoint({flow.run_id})


class TestBars:
    def test_a_run_lies_below_one_of_an_earlier_tick_that_was_not_over(self) -> None:
        spans = [
            timeline.span(run(n, at, at, at + length), NOW_MS)
            for n, at, length in ((1, 1_000, 100), (2, 1_050, 10), (3, 1_070, 10), (4, 1_100, 5))
        ]

        assert timeline.overlapping(spans) == {2, 3}

    def test_shards_of_one_tick_do_not_overlap(self) -> None:
        spans = [timeline.span(run(n, 0, 0, 100), NOW_MS) for n in (1, 2)]

        assert timeline.overlapping(spans) == set()

    def test_short_runs_close_together_are_one_bar_that_shows_the_worst(self) -> None:
        at = NOW_MS - 30 * MINUTE_MS
        runs = [
            run(1, at, at, at + 10),
            run(2, at + 20, at + 20, at + 30, status=RunStatus.FAILED),
            run(3, at + 40, at + 40, at + 50),
        ]

        [bar] = timeline.draw([timeline.span(one, NOW_MS) for one in runs], WINDOW, set())

        assert (bar.count, bar.status, bar.run_id) == (3, RunStatus.FAILED, 2)

    def test_a_long_run_is_as_long_as_it_lasted_and_cut_at_the_window(self) -> None:
        early = run(1, NOW_MS - 2 * HOUR_MS, NOW_MS - 2 * HOUR_MS, NOW_MS - 30 * MINUTE_MS)

        [bar] = timeline.draw([timeline.span(early, NOW_MS)], WINDOW, set())

        assert (bar.x, bar.width) == (0, WIDTH // 4)

    def test_the_wait_before_a_late_start_is_drawn(self) -> None:
        due = NOW_MS - 40 * MINUTE_MS
        late = run(1, due, due + 10 * MINUTE_MS, due + 20 * MINUTE_MS)

        [bar] = timeline.draw([timeline.span(late, NOW_MS)], WINDOW, set())

        assert bar.is_late
        assert (bar.wait_x, bar.wait_width) == (400, 200)

    def test_what_lies_outside_the_window_is_not_drawn(self) -> None:
        outside = [
            run(1, NOW_MS - 3 * HOUR_MS, NOW_MS - 3 * HOUR_MS, NOW_MS - 2 * HOUR_MS),
            run(2, NOW_MS + 2 * HOUR_MS, None, None, status=RunStatus.PLANNED),
        ]

        assert timeline.draw([timeline.span(one, NOW_MS) for one in outside], WINDOW, set()) == []


class TestDaysOfAJob:
    def test_each_day_tells_its_outcomes_and_leads_to_its_runs(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("daily")
        day = 24 * HOUR_MS
        ended(rows, job_id, clock.now - 3 * day)
        ended(rows, job_id, clock.now - 3 * day + HOUR_MS, status=RunStatus.FAILED)
        ended(rows, job_id, clock.now - 89 * day)

        page = admin.get(f"/jobs/{job_id}").text

        assert "2027-01-12 · 1 succeeded, 1 failed" in page
        assert "2026-10-18 · 1 succeeded, 0 failed" in page
        assert "1 of the last 90 days had failures." in page
        assert 'The last 90 days <span class="quiet">UTC</span>' in page
        listed = re.search(r'href="(/runs\?[^"]+)">2027-01-12', page)
        assert listed is not None
        shown = admin.get(listed[1].replace("&amp;", "&")).text
        assert len(set(re.findall(r'href="/runs/(\d+)"', shown))) == 2

    def test_of_a_crowded_day_the_last_40_runs_are_counted_and_that_is_said(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("often")
        for minutes in range(41):
            ended(rows, job_id, clock.now - minutes * MINUTE_MS - 60_000, seconds=1)

        page = admin.get(f"/jobs/{job_id}").text

        assert "40+ succeeded" in page
        assert "At most the last 40 runs of each day are counted." in page

    def test_a_job_without_runs_shows_no_days(self, admin: Visit, rows: Rows) -> None:
        assert "The last 90 days" not in admin.get(f"/jobs/{rows.job('idle')}").text

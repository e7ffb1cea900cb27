"""The first pages: what they show, to whom, in which words."""

import json
import re
import time

import pytest
from flask import Flask

from tests.support.acting import NamedCommands
from tests.support.console import METRICS_TOKEN, Clock, Visit, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web.local_times import LocalTimes, duration
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.engine import Database
from warren.sql.registry import presence
from warren.sql.registry.presence import Beat

NASTY = '"><img src=x onerror=alert(1)>{{7*7}}'


def commands(database: Database, clock: Clock) -> NamedCommands:
    return NamedCommands(database, clock.now_ms, who="alice", origin="10.0.0.9")


def beat(
    database: Database, clock: Clock, kind: str, app: str, address: str, *, load: str = ""
) -> None:
    one = Beat(kind=kind, app=app, address=address, boot_id="b", beat_at=clock.now, load=load)
    database.write(lambda session: presence.hold(session, one))


class TestDashboard:
    def test_without_anything_it_says_what_to_do_next(self, admin: Visit) -> None:
        page = admin.get("/overview").text

        assert "No jobs yet." in page
        assert "warren executor --app NAME handlers.py" in page
        assert "No scheduler is online" in page

    def test_it_shows_what_runs_what_failed_and_what_is_due(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly", is_enabled=1, next_tick_at=clock.now + 60_000)
        rows.run(job_id, clock.now - 5_000, status="RUNNING", started_at=clock.now - 4_000)
        rows.run(job_id, clock.now - 9_000, status="FAILED", message="disk full")

        page = admin.get("/overview").text

        assert page.count("<strong>nightly</strong>") == 3
        assert "disk full" in page
        assert "in 60 s" in page

    @pytest.mark.parametrize("absurd", [-(2**53), 2**53 - 1])
    @pytest.mark.parametrize("language", ["en", "zh-CN"])
    def test_a_row_with_an_instant_that_no_calendar_has_harms_no_page(
        self, admin: Visit, rows: Rows, absurd: int, language: str
    ) -> None:
        job_id, now_ms = rows.job("nightly"), int(time.time() * 1000)
        at = dict.fromkeys(("routed_at", "sent_at", "started_at", "finished_at"), absurd)
        ids = [
            rows.run(job_id, now_ms - 5_000 - number, status=status, **at)
            for number, status in enumerate(("RUNNING", "SUCCEEDED", "FAILED"))
        ]

        pages = [
            "/",
            "/overview",
            "/runs",
            f"/jobs/{job_id}",
            "/ledger",
            *(f"/runs/{run_id}" for run_id in ids),
        ]
        answers = {
            path: admin.get(path, headers={"Accept-Language": language}).status_code
            for path in pages
        }

        assert answers == dict.fromkeys(pages, 200)

    def test_an_operator_sees_own_apps_only(self, app: Flask, rows: Rows, clock: Clock) -> None:
        for name, app_name in (("mine", "reports"), ("theirs", "mails")):
            job_id = rows.job(name, app=app_name, is_enabled=1, next_tick_at=clock.now + 1)
            rows.run(job_id, clock.now - 1, app=app_name, status="FAILED")
            rows.run(job_id, clock.now - 2, app=app_name, status="RUNNING", started_at=clock.now)
        beat(rows.database, clock, presence.EXECUTOR, "mails", "their-executor")

        page = signed_in(app, "operator").get("/overview").text

        assert "mine" in page
        assert "theirs" not in page
        assert "their-executor" not in page

    def test_failures_come_newest_first_whatever_their_app_and_status(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        for number, status in enumerate(["FAILED", "LOST", "TIMED_OUT", "UNDELIVERED"]):
            job_id = rows.job(f"job-{number}", app=("reports", "mails")[number % 2])
            rows.run(
                job_id, clock.now - number * 1_000, ("reports", "mails")[number % 2], status=status
            )

        page = admin.get("/overview").text

        assert re.findall(r"<strong>(job-\d)</strong>", page) == [f"job-{n}" for n in range(4)]

    def test_pause_and_broker_are_told(self, database: Database, clock: Clock) -> None:
        commands(database, clock).pause()

        page = signed_in(make_app(database, clock, is_broker_up=lambda: False), "admin").get(
            "/overview"
        )

        assert "paused dispatch at" in page.text
        assert "The message broker is unreachable" in page.text

    def test_what_others_wrote_is_text(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        job_id = rows.job(NASTY)
        rows.run(job_id, clock.now - 1, status="FAILED", message=NASTY)
        beat(rows.database, clock, presence.EXECUTOR, "reports", NASTY)

        page = admin.get("/overview").text

        assert "<img" not in page
        assert "{{7*7}}" in page


def test_a_board_without_jobs_says_what_to_do_next(admin: Visit) -> None:
    page = admin.get("/").text

    assert "There are no jobs yet." in page
    assert "warren jobs apply jobs.yaml" in page
    assert "warren executor --app NAME handlers.py" in page


class TestAuditTrail:
    def test_it_shows_values_before_and_after(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        for param in ("old", "new"):
            spec = JobSpec(name="nightly", app="reports", handler="h", param=param)
            commands(database, clock).apply(
                [AppSpec(name="reports")], [spec], dry_run=False, prune=False
            )

        page = admin.get("/audit?kind=job").text

        assert "edited job" in page
        assert "<del>old</del>" in page
        assert "<ins>new</ins>" in page
        assert "10.0.0.9" in page

    def test_older_entries_are_a_page_further(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        for _ in range(30):
            commands(database, clock).pause()
            commands(database, clock).resume()

        first = admin.get("/audit?kind=cluster").text
        older = re.search(r'href="([^"]+)" rel="next"', first)
        assert older is not None
        second = admin.get(older[1].replace("&amp;", "&")).text

        assert first.count('class="fixed"') == 50
        assert second.count('class="fixed"') == 10
        assert 'rel="next"' not in second

    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ("since=yesterday", "Enter a date like 2026-01-31."),
            ("until=2026-99-99", "Enter a date like 2026-01-31."),
            ("kind=nothing", "field-error"),
            ("who=" + "x" * 500, "field-error"),
        ],
    )
    def test_a_filter_that_cannot_be_is_told(self, admin: Visit, query: str, words: str) -> None:
        answer = admin.get(f"/audit?{query}")

        assert answer.status_code == 422
        assert words in answer.text

    @pytest.mark.parametrize("query", ["before=x", "before=-1", "before=10000000000000000000000"])
    def test_a_place_that_cannot_be_breaks_nothing(self, admin: Visit, query: str) -> None:
        assert admin.get(f"/audit?{query}").status_code in (200, 422)

    def test_an_id_that_can_be_none_is_not_there(self, admin: Visit) -> None:
        path = "/account/sign-ins/99999999999999999999999/end"

        assert admin.post(path).status_code == 404

    def test_sql_in_a_filter_is_a_name(self, admin: Visit) -> None:
        page = admin.get("/audit", query_string={"who": "' OR 1=1 --"})

        assert "No matching entries." in page.text


class TestLanguageAndZone:
    @pytest.mark.parametrize(
        ("wanted", "tag", "words"),
        [
            ("zh-TW,zh;q=0.9,en;q=0.8", "zh-TW", "登入"),
            ("zh-HK", "zh-TW", "登入"),
            ("zh-Hant-HK, zh-CN;q=0.5", "zh-TW", "登入"),
            ("zh-Hans-HK", "zh-CN", "登录"),
            ("zh-SG", "zh-CN", "登录"),
            ("fr, zh-TW;q=0, en;q=0.1", "en", "Sign in"),
            ("fr", "en", "Sign in"),
        ],
    )
    def test_the_browsers_chinese_decides_which_characters(
        self, visit: Visit, wanted: str, tag: str, words: str
    ) -> None:
        page = visit.get("/login", headers={"Accept-Language": wanted}).text

        assert f'lang="{tag}"' in page
        assert f"<h1>{words}</h1>" in page

    def test_chinese_by_the_browser_by_cookie_and_by_choice(self, visit: Visit) -> None:
        assert "登录" in visit.get("/login", headers={"Accept-Language": "zh"}).text

        visit.post("/browser", {"language": "zh-CN"})
        assert 'lang="zh-CN"' in visit.get("/login").text

        visit.sign_in("admin")
        visit.post("/account/preferences", {"language": "en", "timezone": "", "theme": ""})
        assert 'lang="en"' in visit.get("/").text

    def test_times_are_in_the_viewers_zone_with_the_other_beside(self, admin: Visit) -> None:
        form = {"language": "", "timezone": "Asia/Shanghai", "theme": "dark"}
        admin.post("/account/preferences", form)

        page = admin.get("/audit").text

        assert "2027-01-15 16:00:00 Asia/Shanghai · 2027-01-15 08:00:00 UTC" in page
        assert 'data-theme="dark"' in page

    def test_choices_that_are_none_change_nothing(self, admin: Visit) -> None:
        form = {"language": "xx", "timezone": "../../etc/passwd", "theme": "pink"}

        assert admin.post("/account/preferences", form).status_code == 422
        assert admin.post("/account/theme", {"theme": "pink"}).status_code == 400

    def test_nonsense_in_cookies_is_passed_over(self, visit: Visit) -> None:
        for name in ("warren_language", "warren_theme", "warren_zone"):
            visit.client.set_cookie(name, NASTY)

        answer = visit.get("/login")

        assert answer.status_code == 200
        assert "<img" not in answer.text

    @pytest.mark.parametrize(
        ("duration_ms", "words"),
        [
            (0, "<1 ms"),
            (7, "7 ms"),
            (1_234, "1.23 s"),
            (60_000, "1 min"),
            (424_000, "7 min 4 s"),
            (4_320_499, "1 h 12 min"),
            (100_000_000, "27 h 46 min"),
            (180_000_000, "2 days 2 h"),
        ],
    )
    def test_durations_are_short(self, app: Flask, duration_ms: int, words: str) -> None:
        with app.test_request_context():
            assert duration(duration_ms) == words

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [
            (80, "in 80 s"),
            (-119, "119 s ago"),
            (71 * 60, "in 71 min"),
            (-72 * 60, "72 min ago"),
            (-2 * 3_600, "2 h ago"),
            (47 * 3_600, "in 47 h"),
            (-48 * 3_600, "2 days ago"),
        ],
    )
    def test_a_distance_of_less_than_two_units_is_told_in_the_next_smaller_one(
        self, app: Flask, seconds: int, words: str
    ) -> None:
        with app.test_request_context():
            assert LocalTimes(lambda: "UTC", lambda: 0).relative(seconds * 1000) == words


class TestHealth:
    def test_all_is_well_when_a_scheduler_lives(
        self, visit: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, presence.ADMIN, presence.SCHEDULER, "node-1")

        answer = visit.get("/healthz")

        assert answer.status_code == 200
        assert json.loads(answer.text) == {
            "status": "ok",
            "database": True,
            "broker": True,
            "schedulers": True,
            "ailments": [],
        }

    def test_a_problem_of_a_scheduler_is_named_and_no_reason_to_take_the_console_away(
        self, visit: Visit, database: Database, clock: Clock
    ) -> None:
        load = '{"ailments": ["server"]}'
        beat(database, clock, presence.ADMIN, presence.SCHEDULER, "node-1", load=load)

        answer = visit.get("/healthz")

        assert answer.status_code == 200
        assert json.loads(answer.text)["ailments"] == ["server"]

    def test_a_console_is_no_scheduler(
        self, visit: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, presence.ADMIN, presence.CONSOLE, "console-1")

        assert visit.get("/healthz").status_code == 503

    def test_a_silent_scheduler_or_a_broker_away_is_told(
        self, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, presence.ADMIN, presence.SCHEDULER, "node-1")
        clock.pass_seconds(10)

        answer = Visit(make_app(database, clock, is_broker_up=lambda: False)).get("/healthz")

        assert answer.status_code == 503
        assert json.loads(answer.text)["broker"] is False
        assert "node-1" not in answer.text

    def test_metrics_need_the_token(self, visit: Visit, database: Database, clock: Clock) -> None:
        beat(database, clock, presence.EXECUTOR, "reports", "one")
        allowed = {"Authorization": f"Bearer {METRICS_TOKEN}"}

        assert visit.get("/metrics").status_code == 403
        assert visit.get("/metrics", headers={"Authorization": "Bearer no"}).status_code == 403
        assert 'warren_executors{state="alive"} 1.0' in visit.get("/metrics", headers=allowed).text

    def test_metrics_count_executors_by_health_issue(
        self, visit: Visit, database: Database, clock: Clock
    ) -> None:
        load = '{"ailments":["JOURNAL","DISK"]}'
        beat(database, clock, presence.EXECUTOR, "reports", "one", load=load)
        beat(database, clock, presence.EXECUTOR, "reports", "two")
        allowed = {"Authorization": f"Bearer {METRICS_TOKEN}"}

        figures = visit.get("/metrics", headers=allowed).text

        assert 'warren_executors_ailing{ailment="journal"} 1.0' in figures
        assert 'warren_executors_ailing{ailment="contact"} 0.0' in figures

    def test_without_a_token_in_the_settings_nobody_reads_metrics(
        self, database: Database, clock: Clock
    ) -> None:
        visit = Visit(make_app(database, clock, metrics_token=""))

        assert visit.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 403

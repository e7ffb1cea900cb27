"""Executors and schedulers as pages: what is shown to whom, draining, pausing."""

import json
import re
from collections.abc import Sequence

import pytest
from flask import Flask
from sqlalchemy.orm import Session

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.stored_rows import Rows, told_in
from warren.sql.engine import Database
from warren.sql.models import Epoch, Registration
from warren.sql.registry import apps, pauses, presence
from warren.sql.run_status import Kind

LOAD = {
    "cpu_percent": 42.4,
    "memory_percent": 91.0,
    "slots": 8,
    "running": 3,
    "waiting": 5,
    "handlers": ["report.daily", "<script>alert(1)</script>"],
}


def beat(database: Database, clock: Clock, app: str, address: str, load: str | None = None) -> None:
    told = told_in(json.dumps(LOAD))
    assert told is not None
    sign = presence.Beat(
        kind=presence.ADMIN if app in (presence.SCHEDULER, presence.CONSOLE) else "EXECUTOR",
        app=app,
        address=address,
        boot_id="boot-one-2",
        beat_at=clock.now_ms(),
        load=json.dumps(LOAD) if load is None else load,
        catalogue=told.fingerprint,
    )

    def unit(session: Session) -> None:
        presence.hold(session, sign)
        presence.keep_catalogue(session, told.fingerprint, told.contents.decode(), clock.now_ms())

    database.write(unit)


def asked(database: Database) -> list[str]:
    return [boot.address for boot in database.read(presence.requested)]


def _executors(session: Session) -> Sequence[Registration]:
    return presence.listing(session, presence.EXECUTOR)


class TestListing:
    def test_load_slots_and_handlers_are_shown_escaped(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-1")

        page = admin.get("/executors").text

        assert "42 %" in page
        assert "3 / 8" in page
        assert "report.daily" in page
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page

    def test_a_dead_executor_is_not_online_since_its_start(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-1")
        clock.pass_seconds(60)

        page = admin.get("/executors").text
        [own] = re.findall(r'href="(/executors/\d+)"', page)

        [since] = re.findall(r'data-label="Online since"[^>]*>(.*?)</td>', page)
        assert since == '<span class="quiet">–</span>'  # noqa: RUF001 - what is shown
        assert "Online since" not in admin.get(own).text

    def test_a_long_address_may_break_after_its_parts_and_is_whole_in_its_title(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "exec-1.prod.example.com:9999")

        page = admin.get("/executors").text
        [own] = re.findall(r'href="(/executors/\d+)"', page)

        assert 'title="exec-1.prod.example.com:9999"' in page
        parts = "exec-1.<wbr>prod.<wbr>example.<wbr>com:<wbr>9999"
        assert f">{parts}</strong>" in page
        shown = admin.get(own).text
        assert f"<h1>{parts}</h1>" in shown
        assert "<title>exec-1.prod.example.com:9999 · Warren</title>" in shown

    @pytest.mark.parametrize("load", ["", "{", "[1]", '{"slots": "many", "handlers": [7]}'])
    def test_load_that_cannot_be_read_breaks_nothing(
        self, admin: Visit, database: Database, clock: Clock, load: str
    ) -> None:
        beat(database, clock, "reports", "host-1", load)

        assert "host-1" in admin.get("/executors").text

    def test_they_are_sorted_by_what_is_asked_and_pages_go_on(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        for number in range(101):
            load = json.dumps({"slots": 100, "running": number, "cpu_percent": 100 - number})
            beat(database, clock, "reports", f"host-{number:03}", load)

        busiest = admin.get("/executors?order=slots").text
        further = admin.get("/executors?order=slots&after=reports/host-001").text

        assert busiest.index("host-100") < busiest.index("host-050")
        assert "host-000" not in busiest
        assert "order=slots&amp;after=reports/host-001" in busiest
        assert "host-000" in further
        assert "host-001" not in further
        assert admin.get("/executors?order=colour").status_code == 422

    def test_others_executors_do_not_exist(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-1")
        beat(database, clock, "mails", "post-1")

        page = signed_in(app, "viewer").get("/executors").text

        assert "host-1" in page
        assert "post-1" not in page
        assert "Drain" not in page.replace('<span class="visually-hidden">Drain</span>', "")

    def test_health_issues_of_an_executor_are_told_in_words(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "one", json.dumps({"ailments": ["JOURNAL", "<b>", 7]}))

        pages = [admin.get(path).text for path in ("/executors", "/overview")]

        assert ["its journal cannot be written" in page for page in pages] == [True, True]
        assert "&lt;b&gt;" not in pages[0]

    def test_list_and_page_say_why_no_new_runs_start(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        rows = Rows(database.url.render_as_string(hide_password=False))
        job_id = rows.job(
            "nightly", is_enabled=1, handler="report.daily", route="FIRST", next_tick_at=2**61
        )
        for address in ("host-1", "host-2"):
            beat(database, clock, "reports", address, "{}")
        beat(database, clock, presence.SCHEDULER, "node-1")
        second = {row.address: row.id for row in database.read(_executors)}["host-2"]
        operator = signed_in(app, "operator")

        routed = operator.get(f"/executors/{second}").text
        assert "the routes of all started jobs choose other executors: host-1" in routed
        assert "No new runs start:" not in operator.get("/executors").text
        assert "No new runs start:" not in operator.get(f"/jobs/{job_id}").text

        app_id = database.read(apps.ids_by_name)["reports"]
        operator.post(f"/apps/{app_id}/pause", {"reason": "a <new> disk", "span": "120"})

        why = "app reports is paused until 2027-01-15 10:00:00 (a &lt;new&gt; disk)"
        for path in ("/executors", f"/executors/{second}", f"/jobs/{job_id}"):
            assert f"No new runs start: {why}" in operator.get(path).text, path
        chinese = operator.get(f"/jobs/{job_id}", headers={"Accept-Language": "zh-CN"}).text
        assert "应用 reports 已暂停" in chinese

    def test_a_job_without_executors_says_so(self, admin: Visit, database: Database) -> None:
        job_id = Rows(database.url.render_as_string(hide_password=False)).job("nightly")

        page = admin.get(f"/jobs/{job_id}").text

        assert "No new runs start: no executor of app reports is online" in page

    def test_silent_and_never_seen_ones_are_told_apart(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-1")
        clock.pass_seconds(60)

        def listed(session: object) -> None:
            apps.list_addresses(session, apps.find(session, "reports").id, ["host-2"])

        database.write(listed)

        page = admin.get("/executors").text

        assert "offline" in admin.get("/executors?state=silent&address=host-1").text
        assert "not listed" in page
        assert "host-2" in admin.get("/executors?state=absent").text
        assert "host-1" not in admin.get("/executors?state=absent").text

    def test_one_that_is_gone_comes_first_without_figures_and_names_what_it_lost(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-9")
        clock.pass_seconds(60)
        beat(database, clock, "reports", "host-1")
        rows = Rows(database.url.render_as_string(hide_password=False))
        job_id = rows.job("nightly")
        lost, again = (
            rows.run(job_id, clock.now - n, status="LOST", address="host-9")
            for n in (90_000, 80_000)
        )
        rows.run(job_id, clock.now - 80_000, status="SUCCEEDED", attempt=1, kind=Kind.RETRY)

        listed = admin.get("/executors").text
        [path] = re.findall(r'href="(/executors/\d+)"><strong[^>]*title="host-9"', listed)
        page = admin.get(path).text

        assert listed.index("host-9") < listed.index("host-1")
        assert listed.count("gone since") == 1
        assert "gone since" in page
        assert f'name="id" value="{lost}"' in page
        assert f'name="id" value="{again}"' not in page

    def test_filters_and_pages(self, admin: Visit, database: Database, clock: Clock) -> None:
        for number in range(120):
            beat(database, clock, "reports", f"host-{number:03}")

        first = admin.get("/executors?app=reports").text

        assert '<option selected value="reports">reports</option>' in first
        assert "host-099" in first
        assert "host-100" not in first
        assert "after=reports/host-099" in first
        assert "host-100" in admin.get("/executors?app=reports&after=reports/host-099").text
        assert "No matching executors." in admin.get("/executors?app=mails").text
        assert admin.get("/executors?state=sleepy").status_code == 422


class TestDraining:
    def test_operator_drains_an_executor_of_an_own_app(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-1")
        operator = signed_in(app, "operator")

        answer = operator.post("/executors/drain", {"app": "reports", "address": "host-1"})

        assert answer.status_code == 303
        assert asked(database) == ["host-1"]
        page = operator.get("/executors").text
        assert "Draining host-1. It stops after its last run." in page
        assert ">draining</span>" in page
        assert "Drain executor" not in page

    @pytest.mark.parametrize("form", [{}, {"app": "reports"}, {"app": "reports", "address": "nix"}])
    def test_unknown_address_is_404(self, admin: Visit, form: dict[str, str]) -> None:
        assert admin.post("/executors/drain", form).status_code == 404

    def test_an_address_without_its_app_is_404(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        for app in ("mails", "reports"):
            beat(database, clock, app, "host-1")

        assert admin.post("/executors/drain", {"address": "host-1"}).status_code == 404
        assert asked(database) == []

    def test_executor_of_a_foreign_app_is_404(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "mails", "post-1")

        answer = signed_in(app, "operator").post(
            "/executors/drain", {"app": "mails", "address": "post-1"}
        )

        assert answer.status_code == 404
        assert asked(database) == []

    def test_viewer_may_not(self, app: Flask, database: Database, clock: Clock) -> None:
        beat(database, clock, "reports", "host-1")

        answer = signed_in(app, "viewer").post(
            "/executors/drain", {"app": "reports", "address": "host-1"}
        )

        assert answer.status_code == 403
        assert asked(database) == []


class TestSchedulers:
    def test_a_database_that_has_gone_back_is_told(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        assert "has lost its latest commits" not in admin.get("/schedulers").text
        facts = {"cause": "RESTORED", "told_by": "ann <b>", "found_id": 7, "next_id": 2_000_000_000}
        epoch = Epoch(began_at=clock.now_ms(), **facts)
        database.write(lambda session: session.add(epoch))

        page = admin.get("/schedulers").text

        assert "has lost its latest commits" in page
        assert "Ids continue at 2000000000." in page
        assert "Told by ann &lt;b&gt;." in page

    def test_schedulers_consoles_and_failing_roles_are_shown(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, presence.SCHEDULER, "node-1", '{"failing": ["planner"]}')
        beat(database, clock, presence.CONSOLE, "console-1")

        page = signed_in(app, "viewer").get("/schedulers").text

        assert "node-1" in page
        assert "planner" in page
        assert "console-1" in page
        assert "Pause dispatch" not in page

    def test_executors_whose_key_no_scheduler_accepts_are_named(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, presence.SCHEDULER, "node-1", '{"rejected": ["pay/one"]}')
        beat(database, clock, presence.SCHEDULER, "node-2", '{"rejected": ["a/b", "pay/one"]}')

        page = signed_in(app, "viewer").get("/schedulers").text

        assert page.count("a/b, pay/one") == 1

    def test_what_schedulers_cannot_reach_is_told(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, presence.SCHEDULER, "node-1", '{"unreachable": ["pay/one"]}')
        beat(database, clock, presence.SCHEDULER, "node-2", '{"ailments": ["unconfirmed"]}')

        page = signed_in(app, "viewer").get("/schedulers").text

        assert "node-1 cannot reach the queues of these executors" in page
        assert "pay/one" in page
        assert page.count("the broker does not confirm what it sends to executors") == 1
        assert "does not declare executors offline" in page

    def test_a_server_that_was_replaced_and_can_be_written_is_told(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, presence.SCHEDULER, "node-1", '{"ailments": ["server"]}')

        page = signed_in(app, "viewer").get("/schedulers").text

        assert "a replaced database server still takes writes" in page
        assert "warren check tells you which" in page
        assert "does not declare executors offline" not in page

    def test_broker_away_and_no_scheduler_are_told(self, database: Database, clock: Clock) -> None:
        app = make_app(database, clock, is_broker_up=lambda: False)

        page = signed_in(app, "admin").get("/schedulers").text

        assert "No scheduler has registered" in page
        assert "The message broker is unreachable" in page

    def test_an_app_is_paused_by_its_operator_with_reason_and_end_and_shown_as_such(
        self, app: Flask, database: Database
    ) -> None:
        job_id = Rows(database.url.render_as_string(hide_password=False)).job("nightly")
        app_id = database.read(apps.ids_by_name)["reports"]
        operator = signed_in(app, "operator")
        how = {"reason": "a <new> disk", "span": "120"}

        operator.post(f"/apps/{app_id}/pause", how)

        for path in ("/apps", "/jobs", f"/jobs/{job_id}"):
            page = operator.get(path).text
            assert "paused app reports at 2027-01-15 08:00:00" in page
            assert "Dispatch resumes automatically at 2027-01-15 10:00:00" in page
            assert "Reason: a &lt;new&gt; disk" in page
        assert "app paused" in operator.get(f"/jobs/{job_id}").text
        operator.post(f"/apps/{app_id}/resume")
        assert "paused" not in operator.get("/jobs").text

    def test_the_end_of_a_pause_is_removed_by_its_form(
        self, admin: Visit, database: Database
    ) -> None:
        admin.post("/schedulers/pause", {"reason": "an upgrade", "span": "120"})

        admin.post("/schedulers/pause", {"reason": "an upgrade", "span": "", "until": ""})

        [pause] = database.read(pauses.known)
        assert pause.until_at is None
        assert "Saved." in admin.get("/schedulers").text

    @pytest.mark.parametrize(
        ("how", "words"),
        [
            ({}, "Required."),
            ({"reason": "x" * 201}, "A reason can have up to 200 characters."),
            ({"reason": "x", "until": "2020-01-01T08:00"}, "Choose a time in the future."),
            ({"reason": "x", "until": "soon"}, "Enter a time like"),
            (
                {"reason": "x", "until": "2030-01-01T08:00", "span": "60"},
                "Choose either a duration or a time.",
            ),
        ],
    )
    def test_a_pause_that_cannot_be_is_asked_for_again(
        self, admin: Visit, database: Database, how: dict[str, str], words: str
    ) -> None:
        answer = admin.post("/schedulers/pause", how)

        assert answer.status_code == 422
        assert words in answer.text
        assert database.read(pauses.known) == []

    def test_pausing_says_who_and_since_when_until_it_is_resumed(
        self, admin: Visit, database: Database
    ) -> None:
        admin.post("/schedulers/pause", {"reason": "an upgrade"})

        [pause] = database.read(pauses.known)
        assert (pause.since_at, pause.paused_by) == (1_800_000_000_000, "admin")
        page = admin.get("/schedulers").text
        assert "admin paused dispatch at 2027-01-15 08:00:00" in page
        admin.post("/schedulers/pause", {"reason": "an upgrade"})
        assert "Nothing to save." in admin.get("/schedulers").text
        admin.post("/schedulers/resume")
        assert "paused dispatch" not in admin.get("/schedulers").text


class TestOne:
    def keep(self, database: Database, clock: Clock, executor_id: int) -> None:
        points = [
            presence.LoadPoint(executor_id, clock.now - minutes * 60_000, 8, running, 1, 50, 60)
            for minutes, running in ((30, 8), (5, 2), (300, 4))
        ]
        database.write(lambda session: presence.keep_loads(session, points))

    def id_of(self, database: Database, address: str) -> int:
        rows = database.read(lambda session: presence.listing(session, "EXECUTOR"))
        return next(row.id for row in rows if row.address == address)

    def test_its_page_shows_load_handlers_and_the_way_to_its_runs(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-1")
        executor_id = self.id_of(database, "host-1")
        self.keep(database, clock, executor_id)

        page = admin.get(f"/executors/{executor_id}").text

        assert page.count("Slots: max 8") == 2
        assert 'class="slots" d="M360 0h2M660 75h2"' in page
        assert 'href="/runs?app=reports&amp;address=host-1"' in page
        assert 'href="/jobs?app=reports&amp;handler=report.daily"' in page
        assert 'class="spark"' in admin.get("/executors").text

    def test_without_anything_recorded_it_says_so(
        self, admin: Visit, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "reports", "host-1")

        page = admin.get(f"/executors/{self.id_of(database, 'host-1')}").text

        assert page.count("No data recorded.") == 2

    def test_that_of_another_app_is_not_there(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        beat(database, clock, "mails", "post-1")
        executor_id = self.id_of(database, "post-1")

        assert signed_in(app, "operator").get(f"/executors/{executor_id}").status_code == 404
        assert signed_in(app, "stranger").get(f"/executors/{executor_id}").status_code == 200

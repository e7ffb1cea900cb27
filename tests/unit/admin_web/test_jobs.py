"""The pages of jobs: who sees what, and what becomes of it."""
# ruff: noqa: RUF001 - Chinese signs are what is shown

import html
import json
import re
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select, update

from tests.support.acting import NamedCommands
from tests.support.console import Clock, Visit, make_app, once_of, signed_in
from tests.support.stored_rows import Rows
from warren.jobfile.export import job_file
from warren.scheduler.commands.job_commands import JobCommands
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.engine import Database
from warren.sql.jobs import job_names
from warren.sql.listings import job_search
from warren.sql.listings.job_search import JobFilter, ListedJob
from warren.sql.models import App, AuditEntry, Job

NASTY = '"><img src=x onerror=alert(1)>{{7*7}}'
GOOD = {
    "app": "reports",
    "name": "nightly",
    "author": "ops",
    "schedule_kind": "CRON",
    "cron": "0 0 2 * * ?",
    "timezone": "Asia/Shanghai",
    "handler": "report.daily",
    "param": "a\r\nb",
    "route": "ROUND",
    "block": "COVER_EARLY",
    "misfire": "FIRE_ONCE_NOW",
    "delivery": "AT_LEAST_ONCE",
    "concurrency": "2",
    "timeout": "30",
    "retries": "3",
    "retry_delay": "10",
    "process": "fresh",
    "children": "",
    "emails": "ops@example.com, dev@example.com",
    "webhook": "https://example.com/hook",
    "style": "",
}

FILTERS: list[tuple[str, set[str]]] = [
    ("app=mails", {"beta"}),
    ("state=enabled", {"beta"}),
    ("state=stopped", {"alpha", "ga_ma"}),
    ("name=LPH", {"alpha"}),
    ("name=lph", {"alpha"}),
    ("name=a_m", {"ga_ma"}),
    ("name=%25", set()),
    ("handler=mail.", {"beta"}),
    ("author=ann", {"alpha"}),
    ("author=ann&app=mails", set()),
    ("order=due", {"beta"}),
]
#: Each field with what it cannot be.
BAD_INPUT: list[tuple[dict[str, str], str]] = [
    ({"app": "mails"}, "app"),
    ({"app": "nowhere"}, "app"),
    ({"name": ""}, "name"),
    ({"name": "x" * 256}, "name"),
    ({"name": "a/b"}, "name"),
    ({"name": "a\x00b"}, "name"),
    ({"name": "taken"}, "name"),
    ({"author": "x" * 65}, "author"),
    ({"schedule_kind": "WEEKLY"}, "schedule_kind"),
    ({"cron": "0 0 25 * * ?"}, "cron"),
    ({"cron": "0 0 0 1 1 ? 1999"}, "cron"),
    ({"cron": "0 " * 200}, "cron"),
    ({"schedule_kind": "FIX_RATE", "seconds": "0"}, "seconds"),
    ({"schedule_kind": "FIX_DELAY", "seconds": "1.5"}, "seconds"),
    ({"schedule_kind": "AT", "at": "tomorrow"}, "at"),
    ({"schedule_kind": "AT", "at": "2026-01-01T00:00:00"}, "at"),
    ({"schedule_kind": "AT", "at": "2020-01-01T00:00:00Z", "enabled": "y"}, "at"),
    ({"timezone": "Mars/Base"}, "timezone"),
    ({"handler": ""}, "handler"),
    ({"handler": "x" * 256}, "handler"),
    ({"param": "x" * 65_537}, "param"),
    ({"route": "NEAREST"}, "route"),
    ({"block": "PUSH"}, "block"),
    ({"misfire": "PANIC"}, "misfire"),
    ({"delivery": "EXACTLY_ONCE"}, "delivery"),
    ({"concurrency": "0"}, "concurrency"),
    ({"concurrency": "many"}, "concurrency"),
    ({"timeout": "-1"}, "timeout"),
    ({"timeout": "1e3"}, "timeout"),
    ({"retries": "1001"}, "retries"),
    ({"retry_delay": "9" * 30}, "retry_delay"),
    ({"children": "nobody"}, "children"),
    ({"children": "mails/secret"}, "children"),
    ({"children": "taken\ntaken"}, "children"),
    ({"emails": "nobody"}, "emails"),
    ({"webhook": "ftp://example.com"}, "webhook"),
    ({"style": "smoke"}, "style"),
    ({"language": "cobol"}, "language"),
    ({"language": "shell", "handler": ""}, "language"),
]
PREVIEWS = [
    ("schedule_kind=CRON&cron=0+0+2+*+*+%3F&timezone=Asia/Shanghai", "Asia/Shanghai"),
    ("schedule_kind=CRON&cron=", "The next runs are shown here."),
    ("schedule_kind=CRON&cron=0+0+25+*+*+%3F", "expected hour to be 0-23"),
    ("schedule_kind=CRON&cron=0+0+0+1+1+%3F+1999", "It will not run again."),
    ("schedule_kind=FIX_RATE&seconds=30", "Every 30 s"),
    ("schedule_kind=FIX_RATE&seconds=120", "Every 2 min"),
    ("schedule_kind=FIX_RATE&seconds=3661", "Every 1 h 1 min 1 s"),
    ("schedule_kind=FIX_DELAY&seconds=5", "5 s after each run has ended"),
    ("schedule_kind=NONE", "No schedule"),
    ("schedule_kind=X&cron=1", "The next runs are shown here."),
    ("schedule_kind=CRON&cron=0+0+2+*+*+%3F&timezone=Mars/X", "to be an IANA name"),
    ("", "The next runs are shown here."),
]


@pytest.fixture
def operator(app: Flask) -> Visit:
    """A browser of somebody who operates `reports` and may not write scripts."""
    return signed_in(app, "operator")


def job_of(database: Database, name: str) -> Job:
    """Return a job's row by name."""
    return database.read(lambda session: job_names.find(session, name))


def shown(database: Database, name: str) -> ListedJob:
    """Return what is listed of a job by name."""
    job_id = job_of(database, name).id
    return database.read(lambda session: job_search.show(session, job_id, None, now_ms=0))


def everything_of(database: Database, name: str) -> dict[str, Any]:
    """Return all columns of a job by its name, but for the source of a script."""
    job = job_of(database, name)
    names = {*Job.__mapper__.columns.keys()} - {"script_source"}
    return {one: getattr(job, one) for one in names}


def ids(database: Database) -> set[int]:
    return database.read(lambda session: set(session.execute(select(Job.id)).scalars()))


def apply(database: Database, clock: Clock, *specs: JobSpec) -> None:
    commands = NamedCommands(database, clock.now_ms, who="alice")
    names = {spec.app for spec in specs}
    commands.apply([AppSpec(name=name) for name in names], specs, dry_run=False, prune=False)


def seen(visit: Visit, job_id: int) -> str:
    found = re.search(
        r'name="seen"[^>]*value="([0-9a-f]+)"', visit.get(f"/jobs/{job_id}/edit").text
    )
    assert found is not None
    return found[1]


def error_of(page: str, field: str) -> str:
    """Return what a page says is wrong with a field."""
    found = re.search(rf'id="{field}-error">(?:<svg.*?</svg>)?([^<]+)<', page)
    return found[1] if found else ""


class TestList:
    def test_without_jobs_it_says_what_to_do_next(self, operator: Visit) -> None:
        page = operator.get("/jobs").text

        assert "No jobs yet." in page
        assert 'href="/jobs/new"' in page
        assert "warren jobs apply jobs.yaml" in page

    def test_a_viewer_is_offered_nothing_to_do(self, app: Flask, rows: Rows) -> None:
        rows.job("nightly")

        page = signed_in(app, "viewer").get("/jobs").text

        assert "nightly" in page
        assert "/jobs/new" not in page
        assert "formaction" not in page
        assert "checkbox" not in page.partition("<main")[2]

    def test_jobs_of_foreign_apps_are_left_out(self, app: Flask, rows: Rows) -> None:
        rows.job("mine")
        rows.job("theirs", app="mails")

        page = signed_in(app, "operator").get("/jobs").text

        assert "mine" in page
        assert "theirs" not in page
        assert 'value="mails"' not in page
        assert "theirs" not in signed_in(app, "operator").get("/jobs?app=mails").text

    def test_it_shows_schedule_next_fire_and_last_run(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job(
            "nightly",
            schedule_kind="CRON",
            schedule_value="0 0 2 * * ?",
            timezone="Asia/Shanghai",
            is_enabled=1,
            next_tick_at=clock.now + 60_000,
        )
        rows.run(job_id, clock.now - 90_000, status="SUCCEEDED")
        rows.run(job_id, clock.now - 9_000, status="FAILED")

        page = admin.get("/jobs").text

        assert "At 02:00, every day" in page
        assert "Asia/Shanghai" in page
        assert "failed" in page
        assert "9 s ago" in page

    def test_filters_leave_what_fits(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        rows.job("alpha", author="joanna")
        rows.job("ga_ma")
        rows.job(
            "beta",
            app="mails",
            handler="mail.send",
            is_enabled=1,
            next_tick_at=clock.now + 5,
        )

        for query, expected in FILTERS:
            page = admin.get(f"/jobs?{query}").text

            assert set(re.findall(r'<a href="/jobs/\d+">([^<]+)</a>', page)) == expected, query

    @pytest.mark.parametrize("order", ["name", "newest", "due"])
    def test_pages_hold_each_job_once_in_order(
        self, admin: Visit, rows: Rows, clock: Clock, order: str
    ) -> None:
        for number in range(120):
            rows.job(
                f"job-{number * 7 % 120:03}",
                app=("reports", "mails")[number % 2],
                is_enabled=1,
                next_tick_at=clock.now + number % 3,
            )

        pages, path = [], f"/jobs?order={order}"
        while path:
            page = admin.get(path).text
            pages.append(re.findall(r'<a href="/jobs/(\d+)">', page))
            further = re.search(r'href="([^"]+)" rel="next"', page)
            path = further[1].replace("&amp;", "&") if further else ""

        shown = [int(one) for page in pages for one in page]
        assert [len(page) for page in pages] == [50, 50, 20]
        assert len(set(shown)) == 120
        if order == "newest":
            assert shown == sorted(shown, reverse=True)

    def test_a_place_that_is_none_is_harmless(self, admin: Visit, rows: Rows) -> None:
        rows.job("nightly")

        for after in ["x", "1/2/3", "9" * 40, "1/" + "9" * 40, "'", "-1"]:
            for order in ["name", "newest", "due"]:
                answer = admin.get(f"/jobs?order={order}&after={after}")

                assert answer.status_code == 200, (order, after)

    def test_a_filter_that_cannot_be_is_told(self, admin: Visit) -> None:
        for query in ["order=x", "state=x", "app=nowhere", "name=" + "x" * 300]:
            assert admin.get(f"/jobs?{query}").status_code == 422, query

    def test_what_others_wrote_is_text(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        job_id = rows.job(NASTY, author=NASTY, handler=NASTY, stop_reason=NASTY)
        rows.run(job_id, clock.now - 1, status="FAILED", message=NASTY)

        for path in ("/jobs", f"/jobs/{job_id}", f"/jobs/{job_id}/edit"):
            page = admin.get(path).text
            assert "<img" not in page
            assert "{{7*7}}" in page


class TestForm:
    def test_a_job_is_made_as_it_was_asked_for(self, operator: Visit, database: Database) -> None:
        operator.get("/jobs/new")

        answer = operator.post("/jobs/create", GOOD | {"enabled": "y"})

        assert answer.status_code == 303
        job = job_of(database, "reports/nightly")
        assert answer.location == f"/jobs/{job.id}"
        assert (job.schedule_kind, job.schedule_value) == ("CRON", "0 0 2 * * ?")
        assert (job.timezone, job.handler) == ("Asia/Shanghai", "report.daily")
        assert job.param == "a\nb"
        assert (job.route, job.block) == (
            "ROUND",
            "COVER_EARLY",
        )
        assert (job.misfire, job.delivery) == ("FIRE_ONCE_NOW", "AT_LEAST_ONCE")
        assert (job.concurrency, job.timeout) == (2, 30)
        assert (job.retries, job.retry_delay) == (3, 10)
        assert (job.process, job.is_enabled) == ("fresh", 1)
        assert job.alarm_email == "ops@example.com,dev@example.com"

    def test_each_kind_of_schedule_has_its_own_field(
        self, operator: Visit, database: Database
    ) -> None:
        for kind, field, value in [
            ("FIX_RATE", "seconds", "30"),
            ("FIX_DELAY", "seconds", "60"),
            ("NONE", "cron", ""),
        ]:
            sent = GOOD | {"name": kind, "schedule_kind": kind, field: value}

            assert operator.post("/jobs/create", sent).status_code == 303
            job = job_of(database, f"reports/{kind}")
            assert (job.schedule_kind, job.schedule_value) == (kind, value)

    def test_what_is_wrong_stands_beside_its_field_and_nothing_changes(
        self, operator: Visit, database: Database, rows: Rows
    ) -> None:
        rows.job("taken")
        rows.job("secret", app="mails")
        before = ids(database)

        for wrong, field in BAD_INPUT:
            answer = operator.post("/jobs/create", GOOD | wrong)

            assert answer.status_code == 422, wrong
            assert error_of(answer.text, field), wrong
            assert 'value="report.daily"' in answer.text or "handler" in wrong
            assert ids(database) == before

    def test_everything_that_is_wrong_is_said_at_once(self, operator: Visit) -> None:
        page = operator.post("/jobs/create", GOOD | {"timeout": "x", "cron": "?", "name": ""}).text

        assert error_of(page, "timeout") == "Enter a whole number."
        assert error_of(page, "cron")
        assert error_of(page, "name")

    def test_chinese_viewers_are_told_in_chinese(self, operator: Visit) -> None:
        operator.client.set_cookie("warren_language", "zh-CN")

        page = operator.post("/jobs/create", GOOD | {"name": "", "timeout": "x"}).text

        assert error_of(page, "timeout") == "请填写整数。"
        assert error_of(page, "name") == "请填写此项。"

    def test_a_command_refuses_beside_the_field_in_chinese(self, operator: Visit) -> None:
        operator.client.set_cookie("warren_language", "zh-CN")

        wrong = {"cron": "0 0 25 * * ?", "retries": "1001", "emails": "nobody"}
        page = html.unescape(operator.post("/jobs/create", GOOD | wrong).text)

        assert error_of(page, "cron") == "时应为 0-23，现为 '25'"
        assert error_of(page, "retries") == "失败重试次数应为 0 至 1000 的整数，现为 1001"
        assert error_of(page, "emails") == "邮箱地址有误：'nobody'"

    @pytest.mark.parametrize("field", ["name", "handler", "cron"])
    def test_what_was_left_empty_is_asked_for_in_few_words(
        self, operator: Visit, field: str
    ) -> None:
        page = operator.post("/jobs/create", GOOD | {field: " "}).text

        assert error_of(page, field) == "Required."

    def test_without_an_app_the_form_says_what_to_do_first(
        self, admin: Visit, database: Database
    ) -> None:
        database.write(lambda session: session.execute(delete(App)))

        assert "There are no apps yet" in admin.get("/jobs/new").text
        assert error_of(admin.post("/jobs/create", GOOD).text, "app")

    def test_a_circle_of_children_is_refused(
        self, operator: Visit, database: Database, clock: Clock
    ) -> None:
        apply(
            database,
            clock,
            JobSpec(name="a", app="reports", handler="h"),
            JobSpec(name="b", app="reports", handler="h", children=("a",)),
        )
        job = job_of(database, "reports/a")

        answer = operator.post(
            f"/jobs/{job.id}/save",
            GOOD | {"name": "a", "children": "b", "seen": seen(operator, job.id)},
        )

        assert answer.status_code == 422
        assert "cycle" in error_of(answer.text, "children")
        assert job_of(database, "reports/a").child_ids in (None, "")

    def test_an_edit_changes_the_name_too_and_keeps_app_and_state(
        self, operator: Visit, database: Database
    ) -> None:
        operator.get("/jobs/new")
        operator.post("/jobs/create", GOOD | {"enabled": "y"})
        job = job_of(database, "reports/nightly")

        answer = operator.post(
            f"/jobs/{job.id}/save",
            GOOD | {"name": "daily", "app": "mails", "seen": seen(operator, job.id)},
        )

        assert answer.status_code == 303
        changed = job_of(database, "reports/daily")
        assert changed.id == job.id
        assert changed.is_enabled == 1

    def test_an_edit_by_somebody_else_meanwhile_is_told_and_not_overwritten(
        self, operator: Visit, database: Database, clock: Clock
    ) -> None:
        spec = JobSpec(name="nightly", app="reports", handler="first")
        apply(database, clock, spec)
        job = job_of(database, "reports/nightly")
        token = seen(operator, job.id)
        apply(database, clock, JobSpec(name="nightly", app="reports", handler="second"))

        answer = operator.post(f"/jobs/{job.id}/save", GOOD | {"handler": "third", "seen": token})

        assert answer.status_code == 422
        assert "Someone else changed this job" in answer.text
        assert 'value="third"' in answer.text
        assert job_of(database, "reports/nightly").handler == "second"

    def test_a_job_that_is_deleted_while_it_is_saved_is_not_found(
        self, operator: Visit, database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        apply(database, clock, JobSpec(name="nightly", app="reports", handler="first"))
        job = job_of(database, "reports/nightly")
        token = seen(operator, job.id)

        def update(commands: JobCommands, job_id: int, *args: Any, **kwargs: Any) -> Any:
            commands.delete([job_id])
            return real(commands, job_id, *args, **kwargs)

        real = JobCommands.update
        monkeypatch.setattr(JobCommands, "update", update)
        answer = operator.post(f"/jobs/{job.id}/save", GOOD | {"seen": token})

        assert answer.status_code == 404

    def test_a_start_meanwhile_is_no_other_edit(
        self, operator: Visit, database: Database, clock: Clock
    ) -> None:
        operator.get("/jobs/new")
        operator.post("/jobs/create", GOOD)
        job = job_of(database, "reports/nightly")
        token = seen(operator, job.id)
        NamedCommands(database, clock.now_ms, who="bob").start("reports/nightly")

        answer = operator.post(f"/jobs/{job.id}/save", GOOD | {"param": "new", "seen": token})

        assert answer.status_code == 303
        assert job_of(database, "reports/nightly").is_enabled == 1

    def test_children_of_foreign_apps_are_neither_shown_nor_lost(
        self, operator: Visit, database: Database, clock: Clock
    ) -> None:
        apply(
            database,
            clock,
            JobSpec(name="hidden", app="mails", handler="h"),
            JobSpec(name="own", app="reports", handler="h"),
            JobSpec(name="p", app="reports", handler="h", children=("own", "mails/hidden")),
        )
        parent, child = job_of(database, "reports/p"), job_of(database, "mails/hidden")

        shown = operator.get(f"/jobs/{parent.id}").text
        form = operator.get(f"/jobs/{parent.id}/edit").text
        answer = operator.post(
            f"/jobs/{parent.id}/save",
            GOOD | {"name": "p", "children": "", "seen": seen(operator, parent.id)},
        )

        assert "mails/hidden" not in shown + form
        assert "Child jobs in apps that you have no access to: 1" in shown
        assert answer.status_code == 303
        assert job_of(database, "reports/p").child_ids == str(child.id)

    def test_two_hundred_children_are_saved_shown_and_refused_beyond_a_thousand(
        self, operator: Visit, database: Database, clock: Clock
    ) -> None:
        names = [f"child{number}" for number in range(200)]
        apply(database, clock, *(JobSpec(name=n, app="reports", handler="h") for n in names))
        apply(database, clock, JobSpec(name="p", app="reports", handler="h"))
        parent = job_of(database, "reports/p")
        form = GOOD | {"name": "p", "children": "\n".join(names)}

        answer = operator.post(
            f"/jobs/{parent.id}/save", form | {"seen": seen(operator, parent.id)}
        )
        kept = database.read(lambda s: job_search.children(s, [parent.id], JobFilter()))[parent.id]
        shown = operator.get(f"/jobs/{parent.id}/edit").text
        many = "\n".join(f"c{number}" for number in range(1_001))
        refused = operator.post(
            f"/jobs/{parent.id}/save",
            form | {"children": many, "seen": seen(operator, parent.id)},
        )

        assert answer.status_code == 303
        assert kept == [f"reports/{name}" for name in names]
        assert "\n".join(names) in shown
        assert refused.status_code == 422
        assert "up to 1000, got: 1001" in error_of(refused.text, "children")

    def test_the_preview_and_saving_say_how_many_planned_runs_another_schedule_cancels(
        self, operator: Visit, database: Database, rows: Rows, clock: Clock
    ) -> None:
        each_second = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}
        apply(database, clock, JobSpec(name="nightly", app="reports", handler="h", **each_second))
        job = job_of(database, "reports/nightly")
        start = clock.now // 10_000 * 10_000 + 10_000
        for second in range(4):
            rows.run(job.id, start + second * 1_000)
        form = GOOD | {"cron": "0/2 * * * * ?", "timezone": "UTC", "seen": seen(operator, job.id)}
        typed = f"/jobs/preview?job={job.id}&schedule_kind=CRON&cron=0/2+*+*+*+*+%3F"

        preview = operator.get(typed).text
        saved = operator.post(f"/jobs/{job.id}/save", form)
        page = operator.get(saved.location).text
        stopped = operator.post("/jobs/stop", {"only": str(job.id)})

        assert "Saving cancels the planned runs that are not in this schedule: 2" in preview
        assert "Planned runs cancelled because they are not in the new schedule: 2" in page
        words = "1 job stopped; planned runs cancelled: 2"
        assert words in operator.get(stopped.location).text

    def test_preview_without_a_script_saves_nothing(
        self, operator: Visit, database: Database
    ) -> None:
        answer = operator.post("/jobs/create", GOOD | {"preview": "1", "name": ""})

        assert answer.status_code == 200
        assert "At 02:00, every day" in answer.text
        assert answer.text.count("<li><time") == 10
        assert ids(database) == set()

    def test_the_preview_says_which_weekdays_numbers_are(self, operator: Visit) -> None:
        answer = operator.get("/jobs/preview?schedule_kind=CRON&cron=0+0+2+%3F+*+1-5")

        assert "1-5 is Sunday to Thursday; did you mean MON-FRI?" in answer.text

    @pytest.mark.parametrize(
        ("handler", "words"),
        [
            ("report.dialy", "no online executor has 'report.dialy'; did you mean 'report.daily'?"),
            ("report.daily", ""),
        ],
    )
    def test_saving_a_handler_that_no_online_executor_has_is_told(
        self, operator: Visit, rows: Rows, clock: Clock, handler: str, words: str
    ) -> None:
        rows.executor("a", clock.now, json.dumps({"handlers": ["report.daily"]}))

        operator.post("/jobs/create", GOOD | {"handler": handler})

        shown = html.unescape(operator.get("/jobs").text)
        assert "Job created." in shown
        assert ("no online executor" in shown) == bool(words)
        assert words in shown

    @pytest.mark.parametrize("kind", ["CRON&cron=0+0+2+*+*+?", "FIX_RATE&seconds=5"])
    def test_the_preview_refuses_a_time_zone_that_does_not_exist(
        self, operator: Visit, kind: str
    ) -> None:
        answer = operator.get(f"/jobs/preview?schedule_kind={kind}&timezone=Mars/Base")

        assert answer.status_code == 200
        assert "Mars/Base" in answer.text

    def test_the_preview_says_what_is_being_typed(self, operator: Visit) -> None:
        for query, expected in PREVIEWS:
            answer = operator.get(f"/jobs/preview?{query}")

            assert answer.status_code == 200
            assert expected in answer.text, query


class TestScripts:
    def script(self, database: Database, clock: Clock) -> Any:
        spec = JobSpec(
            name="shelly", app="reports", script_language="shell", script_source="echo secret\n"
        )
        apply(database, clock, spec)
        return job_of(database, "reports/shelly")

    def test_who_may_write_scripts_makes_one(self, app: Flask, database: Database) -> None:
        scripter = signed_in(app, "scripter")

        answer = scripter.post("/jobs/create", GOOD | {"language": "python", "handler": ""})

        assert answer.status_code == 303
        assert job_of(database, "reports/nightly").script_type == "GLUE_PYTHON"

    def test_a_script_that_shares_a_handlers_process_is_refused_beside_that_field(
        self, app: Flask, database: Database
    ) -> None:
        wrong = {"language": "python", "handler": "", "process": "handler"}

        page = signed_in(app, "scripter").post("/jobs/create", GOOD | wrong).text

        assert "a script has no handler" in error_of(page, "process")
        assert ids(database) == set()

    def test_a_copy_has_the_source_of_its_script(self, database: Database, clock: Clock) -> None:
        job = self.script(database, clock)
        scripter = signed_in(make_app(database, clock, job_file=job_file), "scripter")
        assert 'value="shelly copy"' in scripter.get(f"/jobs/{job.id}/copy").text

        answer = scripter.post(
            f"/jobs/{job.id}/copy/create", GOOD | {"name": "twin", "language": "shell"}
        )

        assert answer.status_code == 303
        assert "echo secret" in scripter.get(f"{answer.location}/yaml").text

    def test_copying_one_needs_the_right_to_write_scripts(
        self, operator: Visit, database: Database, clock: Clock
    ) -> None:
        job = self.script(database, clock)

        answer = operator.post(
            f"/jobs/{job.id}/copy/create", GOOD | {"name": "twin", "language": "shell"}
        )

        assert answer.status_code == 422
        assert error_of(answer.text, "language") == "You are not allowed to edit scripts."
        assert ids(database) == {job.id}

    def test_its_other_fields_are_open_to_who_may_not_and_its_source_is_not(
        self, operator: Visit, database: Database, clock: Clock
    ) -> None:
        job = self.script(database, clock)

        answer = operator.post(
            f"/jobs/{job.id}/save",
            GOOD | {"name": "shelly", "language": "", "seen": seen(operator, job.id)},
        )

        assert answer.status_code == 303
        saved = job_of(database, "reports/shelly")
        assert (saved.script_version, saved.timeout) == (job.script_version, 30)


class TestActions:
    def jobs(self, rows: Rows) -> list[int]:
        schedule = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?"}
        return [rows.job(name, **schedule) for name in ("one", "two", "three")]

    def test_ticked_jobs_start_and_stop_and_those_that_cannot_say_why(
        self, operator: Visit, database: Database, rows: Rows
    ) -> None:
        made = self.jobs(rows)
        bare = rows.job("bare")
        operator.get("/jobs")

        started = operator.post("/jobs/start", {"id": [*made[:2], bare]}, follow_redirects=True)
        after_start = [job_of(database, name).is_enabled for name in ("one", "two", "three")]
        operator.post("/jobs/stop", {"id": made[:1]})

        assert "2 jobs started" in started.text
        assert "cannot start job bare: it has no schedule" in started.text
        assert after_start == [1, 1, 0]
        assert job_of(database, "one").is_enabled == 0

    def test_the_button_of_a_line_is_about_its_job_only(
        self, operator: Visit, database: Database, rows: Rows
    ) -> None:
        one, two, _ = self.jobs(rows)

        operator.post("/jobs/start", {"id": [one], "only": two})

        assert [job_of(database, name).is_enabled for name in ("one", "two")] == [0, 1]

    def test_ticked_jobs_are_triggered(
        self, operator: Visit, database: Database, rows: Rows, clock: Clock
    ) -> None:
        one, two, _ = self.jobs(rows)

        operator.post("/jobs/trigger", {"id": [one, two]})

        for job_id in (one, two):
            runs = database.read(
                lambda s, j=job_id: job_search.last_runs(s, j, now_ms=clock.now, limit=5)
            )
            assert [run.kind for run in runs] == ["MANUAL"]

    def test_a_form_that_is_sent_twice_triggers_the_ticked_jobs_once(
        self, operator: Visit, database: Database, rows: Rows, clock: Clock
    ) -> None:
        one, two, _ = self.jobs(rows)
        form = {"id": [one, two], "once": once_of(operator.get("/jobs").text)}

        answers = [operator.post("/jobs/trigger", form, follow_redirects=True) for _ in range(2)]

        assert ["Runs queued: 2" in answer.text for answer in answers] == [True, True]
        for job_id in (one, two):
            runs = database.read(
                lambda s, j=job_id: job_search.last_runs(s, j, now_ms=clock.now, limit=5)
            )
            assert len(runs) == 1

    def test_deleting_asks_first(self, operator: Visit, database: Database, rows: Rows) -> None:
        one, two, three = self.jobs(rows)

        asked = operator.get(f"/jobs/ask-delete?id={one}&id={two}")
        still = ids(database)
        answer = operator.post("/jobs/delete", {"id": [one, two]}, follow_redirects=True)

        assert "reports/one" in asked.text
        assert still == {one, two, three}
        assert "Deleted: reports/one, reports/two" in answer.text
        assert ids(database) == {three}

    def test_whoever_signs_in_on_the_way_deletes_the_same_jobs(
        self, app: Flask, database: Database, rows: Rows
    ) -> None:
        one, two, three = self.jobs(rows)
        visit = Visit(app)
        asked = {"id": [one, two], "back": "/jobs?app=reports"}

        sign_in = visit.get("/jobs/ask-delete", query_string=asked).location
        question = visit.get(visit.sign_in("operator", path=sign_in).location).text
        form = question[question.index('action="/jobs/delete"') :]
        sent = re.findall(r'name="(id|back)" value="([^"]*)"', form)
        answer = visit.post(
            "/jobs/delete", {name: [v for n, v in sent if n == name] for name, _ in sent}
        )

        assert "Delete 2" in question
        assert ids(database) == {three}
        assert answer.location == "/jobs?app=reports"

    def test_a_child_is_not_deleted_without_its_parent(
        self, operator: Visit, database: Database, rows: Rows
    ) -> None:
        one, two, _ = self.jobs(rows)
        parent = rows.job("parent", child_ids=str(one))

        refused = operator.post("/jobs/delete", {"id": [one, two]}, follow_redirects=True)
        both = operator.post("/jobs/delete", {"id": [one, parent]})

        assert "it is still a child of reports/parent" in refused.text
        assert both.status_code == 303
        assert not {one, parent} & ids(database)
        assert two in ids(database)

    def test_a_foreign_parent_is_not_named(self, operator: Visit, rows: Rows) -> None:
        one = self.jobs(rows)[0]
        rows.job("hidden-parent", app="mails", child_ids=str(one))

        answer = operator.post("/jobs/delete", {"id": [one]}, follow_redirects=True)

        assert "it is still a child of other apps" in answer.text
        assert "hidden-parent" not in answer.text

    def test_triggering_takes_a_parameter_and_known_executors_only(
        self, operator: Visit, database: Database, rows: Rows, clock: Clock
    ) -> None:
        one = self.jobs(rows)[0]
        rows.executor("exec-1", clock.now, "{}")
        page = operator.get(f"/jobs/{one}/trigger").text

        refused = operator.post(
            f"/jobs/{one}/trigger/run", {"param": "keep me", "addresses": ["exec-9"]}
        )
        too_long = operator.post(f"/jobs/{one}/trigger/run", {"param": "x" * 65_537})
        answer = operator.post(
            f"/jobs/{one}/trigger/run", {"param": "this once", "addresses": ["exec-1"]}
        )

        assert 'value="exec-1"' in page
        assert refused.status_code == 422
        assert "keep me" in refused.text
        assert "expected address to be a registered executor" in refused.text
        assert too_long.status_code == 422
        assert answer.status_code == 303
        [run] = database.read(lambda s: job_search.last_runs(s, one, now_ms=clock.now, limit=5))
        assert run.kind == "MANUAL"

    def test_where_it_goes_back_to_is_a_page_of_jobs(self, operator: Visit, rows: Rows) -> None:
        one = self.jobs(rows)[0]

        for sent in ("//evil.example", "https://evil.example", "/jobs\\evil", "/account"):
            answer = operator.post("/jobs/start", {"id": one, "back": sent})
            assert answer.location in ("/jobs", "/")
        kept = operator.post("/jobs/stop", {"id": one, "back": "/jobs?app=reports"})
        assert kept.location == "/jobs?app=reports"

    def test_what_is_no_id_is_not_found(self, operator: Visit) -> None:
        for sent in ["x", "-1", "9" * 30, "9" * 5_000, "1.5", "1 OR 1=1", "²"]:
            assert operator.post("/jobs/start", {"id": sent}).status_code == 404, sent

    def test_what_is_done_stands_in_the_trail(
        self, operator: Visit, database: Database, rows: Rows
    ) -> None:
        one = self.jobs(rows)[0]
        operator.post("/jobs/start", {"id": one})
        operator.post("/jobs/trigger", {"id": one})
        operator.post("/jobs/delete", {"id": one})

        about = select(AuditEntry).where(AuditEntry.kind == "job", AuditEntry.object_id == one)
        entries = database.read(lambda session: session.execute(about).scalars().all())
        assert [(entry.who, entry.action) for entry in entries] == [
            ("operator", "job.start"),
            ("operator", "job.trigger"),
            ("operator", "job.delete"),
        ]


class TestForeignJobs:
    def test_a_foreign_job_is_not_there_whatever_is_asked(
        self, app: Flask, database: Database, rows: Rows
    ) -> None:
        theirs = rows.job("theirs", app="mails", schedule_kind="CRON", schedule_value="0 0 2 * * ?")
        operator = signed_in(app, "operator")
        before = everything_of(database, "mails/theirs")

        got = [
            operator.get(f"/jobs/{theirs}{tail}").status_code
            for tail in ("", "/edit", "/copy", "/yaml", "/trigger")
        ]
        asked = operator.get(f"/jobs/ask-delete?only={theirs}").status_code
        posted = [
            operator.post(f"/jobs/{theirs}{tail}", GOOD | {"seen": "x"}).status_code
            for tail in ("/save", "/copy/create", "/trigger/run")
        ]
        acted = [
            operator.post(f"/jobs/{act}", {"id": theirs}).status_code
            for act in ("start", "stop", "trigger", "delete")
        ]

        assert {asked, *got, *posted, *acted} == {404}
        assert everything_of(database, "mails/theirs") == before

    def test_a_viewer_may_look_and_nothing_else(
        self, app: Flask, database: Database, rows: Rows
    ) -> None:
        own = rows.job("own", alarm_webhook="https://example.com/secret-hook")
        viewer = signed_in(app, "viewer")

        page = viewer.get(f"/jobs/{own}").text
        refused = [viewer.get(f"/jobs/{own}{tail}").status_code for tail in ("/edit", "/yaml")]
        acted = viewer.post("/jobs/delete", {"id": own}).status_code

        assert "secret-hook" not in page
        assert refused == [403, 403]
        assert acted == 403
        assert own in ids(database)


class TestJobPage:
    def test_it_shows_runs_shares_family_and_file(
        self, database: Database, rows: Rows, clock: Clock
    ) -> None:
        child = rows.job("child")
        job_id = rows.job(
            "nightly",
            schedule_kind="CRON",
            schedule_value="0 0 2 * * ?",
            timezone="Asia/Shanghai",
            child_ids=str(child),
            stop_reason="its schedule has ended",
        )
        rows.job("parent", child_ids=f"{child},{job_id}")
        rows.job("no-parent", child_ids=f"{job_id}{job_id}")
        for number in range(1, 5):
            rows.run(
                job_id,
                clock.now - number * 10_000,
                status="FAILED" if number == 4 else "SUCCEEDED",
                started_at=clock.now - number * 10_000,
                finished_at=clock.now - number * 10_000 + 1_500,
            )

        page = (
            signed_in(make_app(database, clock, job_file=job_file), "admin")
            .get(f"/jobs/{job_id}")
            .text
        )

        assert "its schedule has ended" in page
        assert "75 %" in page
        assert "1.5 s" in page
        assert page.count("<tr data-at=") == 4
        assert page.count('class="arrow"') == 3
        assert "reports/parent" in page
        assert "no-parent" not in page
        assert "children: [child]" in page
        assert "Asia/Shanghai" in page

    def test_what_was_skipped_stands_between_the_runs(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        for hours in (3, 1):
            rows.run(job_id, clock.now - hours * 3_600_000, status="SUCCEEDED")
        cancelled_ms = clock.now - 4 * 3_600_000
        rows.run(job_id, cancelled_ms, status="CANCELLED", message="nobody, on the run")
        rows.skip(job_id, cancelled_ms, count=1, reason="nobody, beside its run")
        rows.skip(job_id, clock.now - 2 * 3_600_000, count=1, reason="nobody <b>there</b>")

        page = admin.get(f"/jobs/{job_id}").text
        table = page.partition('id="last-runs"')[2].partition("</table>")[0]

        lines = table.partition("<tbody>")[2].split("<tr")[1:]
        assert ["skip" in line for line in lines] == [False, True, False, False]
        assert "nobody &lt;b&gt;there&lt;/b&gt;" in lines[1]
        assert "nobody, on the run" in lines[3]
        assert "beside its run" not in table

    def test_a_cancelled_run_is_no_failure(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        job_id = rows.job("nightly")
        for number, status in enumerate(("SUCCEEDED", "CANCELLED")):
            rows.run(job_id, clock.now - 1_000 - number, status=status)

        assert "100 %" in admin.get(f"/jobs/{job_id}").text

    def test_its_schedule_is_told_in_words_and_a_cron_expression_too(
        self, admin: Visit, rows: Rows
    ) -> None:
        rate = rows.job("often", schedule_kind="FIX_RATE", schedule_value="15")
        cron = rows.job("nightly", schedule_kind="CRON", schedule_value="0 0 2 * * ?")

        said = [
            re.findall(r"<dt>Schedule</dt><dd>(.*?)</dd>", admin.get(f"/jobs/{one}").text)
            for one in (rate, cron)
        ]

        assert said[0] == ["Every 15 s"]
        assert said[1] == ['At 02:00, every day <span class="mono">0 0 2 * * ?</span>']

    def test_an_enabled_job_without_runs_tells_when_its_first_one_is_due(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        due = {"schedule_kind": "FIX_RATE", "schedule_value": "60", "next_tick_at": clock.now}
        started = rows.job("started", is_enabled=1, **due)
        stopped = rows.job("stopped", is_enabled=0, **due)
        manual = rows.job("manual", schedule_kind="NONE")

        assert "The first one is due at 2027-" in admin.get(f"/jobs/{started}").text
        assert "Start its schedule or run it once." in admin.get(f"/jobs/{stopped}").text
        assert "Run it once." in admin.get(f"/jobs/{manual}").text

    def test_a_schedule_that_cannot_be_read_breaks_no_page(self, admin: Visit, rows: Rows) -> None:
        job_id = rows.job("odd", schedule_kind="CRON", schedule_value="nonsense", is_enabled=1)

        assert "Invalid schedule:" in admin.get(f"/jobs/{job_id}").text
        assert admin.get("/jobs").status_code == 200
        assert admin.get(f"/jobs/{job_id}/edit").status_code == 200

    def test_an_unknown_job_is_not_there(self, admin: Visit) -> None:
        assert admin.get("/jobs/999").status_code == 404
        assert admin.get("/jobs/" + "9" * 25).status_code == 404


class TestOnePage:
    def test_a_script_is_written_where_its_job_is_made(self, app: Flask) -> None:
        scripter = signed_in(app, "scripter")
        scripter.get("/jobs/new")
        form = {"language": "shell", "handler": "", "script": "echo one\r\necho two\r\n"}

        answer = scripter.post("/jobs/create", GOOD | form)

        assert answer.status_code == 303
        job_id = int(answer.location.rpartition("/")[2])
        page = scripter.get(f"/glue/{job_id}").text
        assert "echo one\necho two\n" in page

    def test_a_script_that_is_wrong_is_kept_in_the_form(self, app: Flask) -> None:
        scripter = signed_in(app, "scripter")
        scripter.get("/jobs/new")
        form = {"language": "shell", "handler": "", "script": "echo mine", "name": ""}

        answer = scripter.post("/jobs/create", GOOD | form)

        assert answer.status_code == 422
        assert ">\necho mine</textarea>" in answer.text.replace("\r", "")

    def test_who_may_not_write_scripts_is_not_asked_for_one(self, operator: Visit) -> None:
        assert 'name="script"' not in operator.get("/jobs/new").text

    def test_handlers_for_jobs_without_code_are_suggested_first(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        listed = json.dumps({"handlers": ["a.first", "warren.command", "warren.http", "x"]})
        rows.executor("one", clock.now, listed)

        page = admin.get("/jobs/new").text

        options = re.findall(r'<option value="([^"]+)">([^<]*)', page.partition('id="handlers"')[2])
        assert [name for name, _ in options[:3]] == ["warren.command", "warren.http", "a.first"]
        assert options[1][1].startswith("Send an HTTP request, without code · ")

    def test_handlers_are_suggested_that_living_executors_of_ones_own_apps_have(
        self, operator: Visit, rows: Rows, clock: Clock
    ) -> None:
        rows.executor("one", clock.now, '{"handlers": ["mine", "<b>"]}')
        rows.executor("gone", clock.now - 60_000, '{"handlers": ["silent"]}')
        rows.executor("other", clock.now, '{"handlers": ["theirs"]}', app="mails")

        page = operator.get("/jobs/new").text

        assert '<option value="mine">reports</option>' in page
        assert '<option value="&lt;b&gt;">' in page
        assert "silent" not in page
        assert "theirs" not in page

    def test_what_is_folded_tells_its_values_and_opens_when_they_are_not_the_usual(
        self, operator: Visit
    ) -> None:
        page = operator.get("/jobs/new").text
        wrong = operator.post("/jobs/create", GOOD | {"retries": "many"}).text

        assert "Route: default · " in page
        assert page.count('<details class="card fold">') == 6
        assert page.count('<details class="card fold" open>') == 0
        assert wrong.count('<details class="card fold" open>') >= 1
        assert error_of(wrong, "retries")

    def test_ten_times_are_shown_and_where_the_clocks_change(self, operator: Visit) -> None:
        page = operator.get(
            "/jobs/preview?schedule_kind=CRON&cron=0+0+2+1+*+%3F&timezone=Europe/Berlin"
        ).text

        assert page.count("<li>") == 10
        assert page.count("clocks change") == 2
        assert "now UTC+02:00 in Europe/Berlin" in page


class TestFamily:
    def test_all_generations_are_drawn_and_children_named(
        self, app: Flask, database: Database, clock: Clock
    ) -> None:
        def spec(name: str, *children: str, app: str = "reports") -> JobSpec:
            return JobSpec(name=name, app=app, handler="report", children=children)

        apply(
            database,
            clock,
            spec("great"),
            spec("grand", "great"),
            spec("hidden", "reports/grand", app="mails"),
            spec("child", "grand", "mails/hidden"),
            spec("me", "child"),
            spec("parent", "me"),
        )
        job_id = job_of(database, "me").id

        page = signed_in(app, "operator").get(f"/jobs/{job_id}").text

        drawn = re.findall(r"<title>reports/(\w+)</title>", page)
        assert sorted(drawn) == ["child", "grand", "great", "parent"]
        assert "mails/hidden" not in page
        assert "<dt>Children</dt>" in page


def test_ends_of_lines_that_browsers_change_are_no_change(admin: Visit, database: Database) -> None:
    path = admin.post("/jobs/create", GOOD).headers["Location"]
    database.write(lambda session: session.execute(update(Job).values(param="a\r\nb\rc")))
    seen = re.search(r'name="seen"[^>]*value="([^"]+)"', admin.get(f"{path}/edit").text)
    sent = GOOD | {"seen": seen and seen[1], "param": "a\r\nb\r\nc"}

    saved = admin.post(f"{path}/save", sent, follow_redirects=True)
    edited = admin.post(f"{path}/save", sent | {"param": "a\r\nb"})

    assert "Nothing to save." in saved.text
    assert edited.status_code == 303
    assert database.read(lambda session: session.scalars(select(Job.param)).one()) == "a\nb"


def test_each_wrong_line_of_what_is_expected_is_told(admin: Visit) -> None:
    wrong = GOOD | {"expect": "strat_within: 5m, soon, longest: 3m"}

    page = admin.post("/jobs/create", wrong).text

    assert "unknown option &#39;strat_within&#39;, did you mean &#39;start_within&#39;?" in page
    assert "got: &#39;soon&#39;" in page


def test_a_form_takes_durations_as_a_job_file_does(admin: Visit, database: Database) -> None:
    wanted = GOOD | {"timeout": "10m", "retry_delay": "90s", "retries": "3"}

    path = admin.post("/jobs/create", wanted).headers["Location"]

    job = database.read(lambda session: session.scalars(select(Job)).one())
    assert (job.timeout, job.retry_delay) == (600, 90)
    assert 'value="600"' in admin.get(f"{path}/edit").text

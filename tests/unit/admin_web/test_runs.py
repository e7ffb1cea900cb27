"""Runs as pages: found and paged, looked at, killed, run again; to whom they are shown."""

import re
from dataclasses import replace

import pytest
from flask import Flask
from sqlalchemy import select

from tests.support.acting import acting
from tests.support.console import Clock, Visit, once_of, signed_in
from tests.support.stored_rows import Rows
from warren.scheduler.commands.triggers import When
from warren.sql.listings import run_search
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import AuditEntry, Run
from warren.sql.run_status import NEVER_STARTED, Kind, RunStatus

NASTY = '"><img src=x onerror=alert(1)>{{45679*76543}}'
#: What it would be if a page computed it; no random token holds it by chance.
COMPUTED = str(45_679 * 76_543)
HOUR_MS = 3_600_000


def shown(page: str) -> list[int]:
    """Return the ids of the runs of a list, in order."""
    return [int(found) for found in re.findall(r'class="run-link" href="/runs/(\d+)"', page)]


def older(page: str) -> str:
    """Return the address of the next page, empty on the last one."""
    found = re.search(r'href="([^"]+)" rel="next"', page)
    return found[1].replace("&amp;", "&") if found else ""


class TestList:
    def test_without_a_run_it_says_how_one_comes_to_be(self, admin: Visit) -> None:
        assert "No runs yet." in admin.get("/runs").text

    def test_failures_of_a_deleted_app_are_found(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("sent", app="mails")
        run_id = rows.run(job_id, clock.now - 1_000, app="mails", status="FAILED")
        commands = acting(rows.database, clock.now_ms)
        commands.jobs.delete([job_id])
        commands.apps.delete(rows.app("mails"))

        assert shown(admin.get("/runs").text) == [run_id]
        assert shown(admin.get("/runs?status=failures").text) == [run_id]

    def test_running_runs_have_a_bar_in_every_list_and_beside_their_log(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        run_id = rows.run(
            job_id,
            clock.now - 9_000,
            status="RUNNING",
            started_at=clock.now - 8_000,
            progress='{"done":3,"total":10}',
        )

        for page in ("/overview", f"/jobs/{job_id}", "/runs", f"/runs/{run_id}/log"):
            assert re.search(r'<progress [^>]*value="30"', admin.get(page).text), page
        state = admin.get(f"/runs/{run_id}/log/lines?from=1").json["state"]
        assert 'value="30"' in state

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
            address="worker-7",
            shard_index=2,
            shard_total=5,
            attempt=1,
            starts=1,
            message="disk full\nsecond line",
        )

        page = admin.get("/runs").text
        line = re.sub(r"<[^>]+>", " ", re.findall(r"<tr>.*?</tr>", page, re.DOTALL)[-1])

        for fact in (
            "failed",
            "nightly",
            "retry",
            "1.5 s",
            "worker-7",
            "3 of 5",
            " 2 ",
            "disk full",
        ):
            assert fact in line, fact
        assert "second line" not in line

    def test_how_a_run_was_routed_is_told_of_those_only_that_are_not_well(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        for number, status in enumerate(("SUCCEEDED", "RUNNING", "PLANNED", "UNDELIVERED")):
            due = clock.now - number * 1_000
            rows.run(job_id, due, status=status, trigger_message=f"because of {number}")

        page = admin.get("/runs").text

        assert re.findall(r">(because of \d)<", page) == ["because of 2", "because of 3"]

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

    def test_pages_of_a_filter_have_each_run_that_fits_once_newest_first(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        due, facts = {}, {}
        for number in range(140):
            name, app = (("nightly", "reports"), ("hourly", "mails"))[number % 2]
            status = ("SUCCEEDED", "FAILED", "RUNNING", "LOST")[number // 2 % 4]
            kind = (Kind.SCHEDULE, Kind.MANUAL)[number % 3 % 2]
            address = ("one", "two")[number % 5 % 2]
            at = clock.now - number * 1_000
            options = {"status": status, "kind": kind, "address": address}
            run_id = rows.run(_job(rows, name, app), at, app, **options)
            group = {"RUNNING": "open", "FAILED": "failures", "LOST": "failures"}.get(status)
            due[run_id] = at
            facts[run_id] = {
                "app": {app},
                "status": {status, group},
                "job": {name, f"{app}/{name}"},
                "kind": {kind.value},
                "address": {address},
            }
        wrong = {}

        for query in (
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
        ):
            found: list[int] = []
            path = f"/runs?{query}"
            while path:
                page = admin.get(path).text
                found += shown(page)
                path = older(page)

            asked = dict(part.split("=") for part in query.split("&") if part)
            fits = [
                run_id
                for run_id in facts
                if all(value in facts[run_id][field] for field, value in asked.items())
            ]
            if not found or found != sorted(fits, key=due.__getitem__, reverse=True):
                wrong[query] = found

        assert wrong == {}


class TestSuggestions:
    @pytest.mark.parametrize(
        ("name", "query", "expected"),
        [
            ("admin", "job=night", ["reports/nightly", "mails/nightly", "mails/Midnight"]),
            ("admin", "job=NIGHT&app=reports", ["reports/nightly"]),
            ("admin", "job=mails/mid", ["mails/Midnight"]),
            ("admin", "job=%25", ["reports/100%"]),
            ("admin", "job=", []),
            ("admin", "", []),
            ("viewer", "job=night", ["reports/nightly"]),
            ("viewer", "job=mails/mid", []),
            ("viewer", "job=night&app=mails", ["reports/nightly"]),
            ("stranger", "job=night", ["mails/nightly", "mails/Midnight"]),
        ],
    )
    def test_jobs_of_ones_own_apps_are_suggested_by_a_part_of_their_name(
        self, app: Flask, rows: Rows, name: str, query: str, expected: list[str]
    ) -> None:
        for app_name, job in (
            ("reports", "nightly"),
            ("reports", "hourly"),
            ("reports", "100%"),
            ("mails", "nightly"),
            ("mails", "Midnight"),
        ):
            rows.job(job, app_name)

        answer = signed_in(app, name).get(f"/runs/jobs?{query}")

        assert answer.status_code == 200
        assert sorted(re.findall(r'<option value="([^"]+)">', answer.text)) == sorted(expected)

    def test_a_name_is_no_markup_and_they_are_few(self, admin: Visit, rows: Rows) -> None:
        for number in range(30):
            rows.job(f"{NASTY}{number:02}")

        page = admin.get("/runs/jobs?job=img").text

        assert page.count("<option") == 12
        assert "<img" not in page

    def test_the_filter_takes_what_was_suggested(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = rows.run(rows.job("nightly"), clock.now - 1_000, status="LOST")
        rows.run(rows.job("hourly"), clock.now - 1_000, status="LOST")

        assert shown(admin.get("/runs?job=reports/nightly").text) == [run_id]
        assert 'list="job-names"' in admin.get("/runs").text


class TestFilters:
    def test_times_are_those_of_the_viewer(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        job_id = rows.job("nightly")
        run_ids = [rows.run(job_id, clock.now - n * HOUR_MS, status="LOST") for n in range(5)]
        admin.client.set_cookie("warren_zone", "Asia/Shanghai")
        # The clock stands at 2027-01-15 08:00 UTC, which is 16:00 in Shanghai.

        page = admin.get("/runs?since=2027-01-15T13:00&until=2027-01-15T15:00&job=nightly").text

        assert shown(page) == run_ids[2:4]
        assert shown(admin.get("/runs?since=2027-01-15T15:00&status=LOST").text) == run_ids[:2]
        assert shown(admin.get("/runs?until=2027-01-15T13:00").text) == run_ids[4:]

    def test_a_jobs_run_that_was_due_long_after_its_tick_is_found_by_when_it_was_due(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        due = {"status": "LOST", "due_at": clock.now}
        late = rows.run(job_id, clock.now - 9 * HOUR_MS, kind=Kind.MISFIRE, **due)
        rows.run(job_id, clock.now - 8 * HOUR_MS, status="LOST")
        soon = rows.run(job_id, clock.now, status="LOST")

        page = admin.get("/runs?since=2027-01-15T07:00&job=nightly").text

        assert shown(page) == [soon, late]

    def test_what_is_wrong_stands_beside_the_field_and_what_was_typed_stays(
        self, admin: Visit
    ) -> None:
        for field, typed, words in (
            ("job", "absent", "Job not found."),
            ("since", "yesterday", "Enter a time like"),
            ("since", "0001-01-01T00:00", "Enter a time like"),
            ("since", "2026-02-01T00:00&until=2026-01-01T00:00", "is before the start"),
            ("status", "1%20OR%201", "field-error"),
            ("address", "x" * 200, "Too long."),
        ):
            answer = admin.get(f"/runs?{field}={typed}")

            assert answer.status_code == 422, typed
            assert words in answer.text, typed
            assert typed.partition("&")[0] in answer.text or field == "status"

    def test_a_place_that_is_none_is_no_error(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        rows.run(rows.job("nightly"), clock.now, status="LOST")

        for place in ("x", "-1-2", "9" * 20 + "-1", "1-2-3-4-5", f"{2**63 - 1}-1", "1", "5-5-5"):
            for query in ("", "&job=nightly", "&status=LOST"):
                assert admin.get(f"/runs?before={place}{query}").status_code == 200, place

    def test_a_rare_kind_is_found_though_looking_stops_in_between(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        many = 2 * run_search.MAX_EXAMINED + 1
        rare = rows.run(job_id, clock.now - many, status="LOST", kind=Kind.API)
        rows.runs(job_id, range(clock.now - many + 1, clock.now))
        found, path, steps = [], "/runs?kind=API", 0

        while path:
            page, steps = admin.get(path).text, steps + 1
            found += shown(page)
            path = older(page)

        assert found == [rare]
        assert steps > 2
        first = admin.get("/runs?kind=API").text
        assert "search paused" in first
        assert "Search older runs" in first

    def test_many_apps_and_states_give_the_same_page_as_few(self, rows: Rows, clock: Clock) -> None:
        job_id = rows.job("nightly")
        ids = [
            rows.run(job_id, clock.now - n * 500, status=("FAILED", "LOST", "TIMED_OUT")[n % 7 % 3])
            for n in range(70)
        ]
        failures = frozenset({RunStatus.FAILED, RunStatus.LOST, RunStatus.TIMED_OUT})
        wanted = RunSearch(statuses=failures, looked_at=40)
        found = []

        while True:
            page = rows.database.read(lambda s, w=wanted: run_search.page(s, w))
            found += [run.id for run in page.runs]
            if page.older is None:
                break
            wanted = replace(wanted, before=page.older)

        assert found == ids

    def test_a_deleted_jobs_runs_are_found_by_its_number(
        self, app: Flask, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        rows.job("other")
        run_id = rows.run(777, clock.now, status="SUCCEEDED")

        assert shown(admin.get("/runs?job=777").text) == [run_id]
        assert "deleted job 777" in admin.get("/runs?job=%23777").text
        assert signed_in(app, "stranger").get("/runs?job=777").status_code == 422


class TestRights:
    def test_only_runs_of_own_apps_are_there(self, app: Flask, rows: Rows, clock: Clock) -> None:
        mine = rows.run(rows.job("mine"), clock.now, status="FAILED")
        theirs = rows.run(rows.job("theirs", "mails"), clock.now, "mails", status="FAILED")
        viewer = signed_in(app, "viewer")

        assert shown(viewer.get("/runs").text) == [mine]
        assert shown(viewer.get("/runs?status=FAILED").text) == [mine]
        assert shown(viewer.get("/runs?app=mails").text) == []
        assert viewer.get("/runs?job=theirs").status_code == 422
        for rest in ("", "/log", "/log/lines", "/log/download"):
            assert viewer.get(f"/runs/{theirs}{rest}").status_code == 404
            assert viewer.get(f"/runs/{mine}{rest}").status_code == 200

    @pytest.mark.parametrize("deed", ["kill", "again"])
    def test_nobody_acts_on_another_apps_run(
        self, app: Flask, rows: Rows, clock: Clock, deed: str
    ) -> None:
        run_id = rows.run(rows.job("nightly"), clock.now + HOUR_MS)

        answer = signed_in(app, "stranger").post(f"/runs/{run_id}/{deed}")

        assert answer.status_code == 404
        assert rows.newest_run(1) == run_id
        assert stored(rows, run_id).status == RunStatus.PLANNED

    def test_who_only_looks_is_offered_no_deed(self, app: Flask, rows: Rows, clock: Clock) -> None:
        run_id = rows.run(rows.job("nightly"), clock.now, status="RUNNING")
        viewer = signed_in(app, "viewer")

        page = viewer.get(f"/runs/{run_id}").text

        assert "/kill" not in page
        assert "/again" not in page
        assert "/runs/clear" not in viewer.get("/runs").text
        assert viewer.post(f"/runs/{run_id}/kill").status_code == 403

    def test_a_run_and_the_one_that_it_called_show_each_other(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        caller = rows.run(rows.job("orders"), clock.now - 9_000, status="SUCCEEDED")
        called = rows.run(rows.job("mail"), clock.now - 5_000, status="RUNNING", kind=Kind.API)
        rows.call(caller, called)

        assert f'href="/runs/{called}">mail</a>' in admin.get(f"/runs/{caller}").text
        page = admin.get(f"/runs/{called}").text
        assert f'href="/runs/{caller}">orders</a>' in page
        assert "Triggered by" in page

    def test_relations_of_other_apps_are_left_out(
        self, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        parent_job = rows.job("secret-parent", "mails")
        parent = rows.run(parent_job, clock.now, "mails", status="SUCCEEDED")
        child = rows.run(rows.job("child"), clock.now, kind=Kind.PARENT, origin_id=parent)

        assert "secret-parent" not in signed_in(app, "viewer").get(f"/runs/{child}").text
        assert "secret-parent" in signed_in(app, "admin").get(f"/runs/{child}").text


class TestUnresolved:
    def test_failures_that_recovered_are_one_click_away(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        mended, again, twice = (clock.now - n * 60_000 for n in (1, 2, 3))
        first = rows.run(job_id, mended, status="FAILED")
        rows.run(job_id, mended, status="SUCCEEDED", attempt=1, kind=Kind.RETRY)
        second = rows.run(job_id, again, status="LOST")
        rows.run(job_id, again, status="RUNNING", origin_id=10**9, rerun_of=second)
        third = rows.run(job_id, twice, status="FAILED")
        rows.run(job_id, twice, status="KILLED", origin_id=10**9, rerun_of=third)

        now = admin.get("/runs?status=unresolved").text

        assert shown(now) == [third]
        assert shown(admin.get("/runs?status=failures").text) == [first, second, third]
        assert "status=failures" in now
        assert "status=unresolved" in admin.get("/runs").text
        assert "1" in admin.get("/runs/total?status=unresolved").text


class TestRun:
    def test_it_tells_cause_times_and_result_in_words(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = rows.run(
            rows.job("nightly"),
            clock.now - 10_000,
            status="TIMED_OUT",
            kind=Kind.MISFIRE,
            routed_at=clock.now - 9_900,
            sent_at=clock.now - 9_880,
            started_at=clock.now - 9_000,
            finished_at=clock.now - 1_000,
            message="over 8 s",
            trigger_message="MISFIRE, online: one",
            code_version="v1.4-7-gabc",
            log_tail="last words \x1b[31mred\x1b[0m",
        )

        page = admin.get(f"/runs/{run_id}").text

        assert "Stopped because it exceeded its timeout" in page
        assert "Makes up for missed runs." in page
        for gap in ("+100 ms", "+20 ms", "+880 ms", "+8 s", "1 s waiting", "8 s running"):
            assert gap in page, gap
        assert "over 8 s" in page
        assert "v1.4-7-gabc" in page
        assert "MISFIRE, online: one" in page
        assert "last words red" in page

    def test_it_shows_what_the_handler_returned(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        table, tree, text = (
            rows.run(job_id, clock.now + number, status="SUCCEEDED", message=said, result=result)
            for number, (said, result) in enumerate(
                {
                    "[…]": '[{"day":"<b>","orders":17}]',
                    "{…}": '{"day":{"of":"December"}}',
                    "all well": '"all well"',
                }.items()
            )
        )

        pages = [admin.get(f"/runs/{run_id}").text for run_id in (table, tree, text)]

        assert "<td>&lt;b&gt;</td><td>17</td>" in pages[0]
        assert '<span class="quiet">of</span> December' in pages[1]
        assert pages[2].count("all well") == 1

    def test_its_message_comes_first_and_its_log_next(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        message = {"message": "disk full\non /var", "log_tail": "the last line"}
        run_id = rows.run(job_id, clock.now, status="FAILED", **message)

        page = admin.get(f"/runs/{run_id}").text

        assert '<strong class="headline">disk full</strong>' in page
        assert "See the message" not in page
        parts = ("disk full<", "disk full\non /var", "the last line", "<h2>Details")
        assert sorted(parts, key=page.index) == list(parts)

    def test_attempts_and_shards_of_its_tick_stand_side_by_side(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id, ids = rows.job("nightly"), []
        for shard, attempt in ((0, 0), (1, 0), (1, 1)):
            ids.append(
                rows.run(
                    job_id,
                    clock.now,
                    status="FAILED",
                    shard_index=shard,
                    shard_total=2,
                    attempt=attempt,
                )
            )
        rows.run(job_id, clock.now + 1, status="FAILED")

        page = admin.get(f"/runs/{ids[1]}").text
        matrix = page[page.index('class="matrix"') :].partition("</table>")[0]

        assert re.findall(r'href="/runs/(\d+)"', matrix) == [str(run_id) for run_id in ids]
        assert matrix.count("<tr>") == 3
        assert re.search(rf'class="here" aria-current="true">.*?/runs/{ids[1]}"', matrix)

    def test_parent_and_children_are_linked(self, admin: Visit, rows: Rows, clock: Clock) -> None:
        child_job = rows.job("mail")
        parent_job = rows.job("report", child_ids=str(child_job))
        parent = rows.run(parent_job, clock.now, status="SUCCEEDED")
        child = rows.run(child_job, clock.now, kind=Kind.PARENT, origin_id=parent)

        assert f'href="/runs/{child}"' in admin.get(f"/runs/{parent}").text
        assert f'href="/runs/{parent}"' in admin.get(f"/runs/{child}").text

    def test_a_run_that_waits_can_be_taken_back(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = rows.run(rows.job("nightly"), clock.now + HOUR_MS)

        answer = admin.post(f"/runs/{run_id}/kill")

        assert answer.location == f"/runs/{run_id}"
        assert stored(rows, run_id).status == RunStatus.CANCELLED
        assert "The run has been cancelled; it was not sent." in admin.get(f"/runs/{run_id}").text

    def test_a_run_that_is_over_is_not_killed_again(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = rows.run(rows.job("nightly"), clock.now, status="SUCCEEDED")

        admin.post(f"/runs/{run_id}/kill")

        assert "The run has already ended." in admin.get(f"/runs/{run_id}").text
        assert stored(rows, run_id).status == RunStatus.SUCCEEDED

    def test_run_again_repeats_the_due_time_with_the_same_param(
        self, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        run_id = rows.run(
            rows.job("nightly", param="the job's"),
            clock.now - HOUR_MS,
            status="FAILED",
            param="this run's",
        )

        answer = signed_in(app, "operator").post(f"/runs/{run_id}/again")

        fresh = stored(rows, int(answer.location.rpartition("/")[2]))
        assert (fresh.kind, fresh.param) == (Kind.RERUN, "this run's")
        assert (fresh.scheduled_at, fresh.rerun_of) == (clock.now - HOUR_MS, run_id)
        assert fresh.status == RunStatus.PLANNED
        noted = rows.database.read(
            lambda session: session.execute(select(AuditEntry.who, AuditEntry.action)).all()
        )
        assert ("operator", "run.again") in noted

    def test_without_its_job_it_cannot_run_again(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        rows.job("other")
        run_id = rows.run(777, clock.now, status="FAILED")

        assert "/again" not in admin.get(f"/runs/{run_id}").text
        answer = admin.post(f"/runs/{run_id}/again")

        assert answer.location == f"/runs/{run_id}"
        assert rows.newest_run(777) == run_id

    def test_only_a_shard_of_a_broadcast_runs_again(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = rows.run(rows.job("nightly"), clock.now, status="FAILED", shard_total=3)

        assert "Only this shard of the broadcast runs again." in admin.get(f"/runs/{run_id}").text

    def test_what_others_wrote_is_text_on_every_page(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        run_id = rows.run(
            rows.job(NASTY, handler=NASTY),
            clock.now,
            status="FAILED",
            param=NASTY,
            address=NASTY,
            message=NASTY,
            trigger_message=NASTY,
            log_tail=NASTY,
        )

        for path in (f"/runs/{run_id}", f"/runs/{run_id}/log", "/runs", "/runs?job=" + NASTY):
            page = admin.get(path).text
            assert "<img" not in page, path
            assert COMPUTED not in page, path

    def test_every_state_has_a_page_in_both_languages(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        ids = [
            rows.run(job_id, clock.now + number, status=status.value)
            for number, status in enumerate(RunStatus)
        ]

        for language in ("en", "zh-CN"):
            admin.client.set_cookie("warren_language", language)
            assert {admin.get(f"/runs/{run_id}").status_code for run_id in ids} == {200}

    @pytest.mark.parametrize(
        ("late", "words"),
        [
            ("SUCCEEDED", {"en": "succeeded", "zh-CN": "成功"}),
            (NEVER_STARTED, {"en": "it never started", "zh-CN": "从未开始"}),
        ],
    )
    def test_a_lost_run_says_what_its_executor_said_later(
        self, admin: Visit, rows: Rows, late: str, words: dict[str, str]
    ) -> None:
        lost = rows.run(rows.job("nightly"), 1_000, status="LOST", late_status=late)

        for language, told in words.items():
            admin.client.set_cookie("warren_language", language)
            [notice] = re.findall(r'<p class="notice info">.*</p>', admin.get(f"/runs/{lost}").text)
            assert told in notice


def stored(rows: Rows, run_id: int) -> Run:
    """Return a run's row."""
    return rows.database.read(lambda session: session.get_one(Run, run_id))


def _job(rows: Rows, name: str, app: str) -> int:
    """Make a job unless it is there."""
    known = rows.__dict__.setdefault("jobs", {})
    if (name, app) not in known:
        known[name, app] = rows.job(name, app)
    return int(known[name, app])


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("PLANNED", "Not sent to an executor yet."),
        ("UNDELIVERED", "This run never reached an executor, so it has no log."),
        ("CANCELLED", "This run never reached an executor, so it has no log."),
    ],
)
def test_the_log_of_a_run_without_an_executor_says_whether_one_may_come(
    admin: Visit, rows: Rows, clock: Clock, status: str, words: str
) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now - 1_000, status=status)

    assert words in admin.get(f"/runs/{run_id}/log").text


class TestUpcoming:
    """Runs that somebody triggered for later."""

    @pytest.fixture
    def job_id(self, rows: Rows) -> int:
        return rows.job("remind", handler="remind")

    @pytest.fixture
    def run_id(self, rows: Rows, clock: Clock, job_id: int) -> int:
        return acting(rows.database, clock.now_ms).runs.trigger(
            job_id, when=When(at_ms=clock.now + 3 * HOUR_MS)
        )

    def test_they_are_listed_by_themselves(
        self, admin: Visit, rows: Rows, clock: Clock, job_id: int, run_id: int
    ) -> None:
        rows.run(job_id, clock.now - 1_000)

        assert shown(admin.get("/runs?status=upcoming").text) == [run_id]
        assert "status=upcoming" in admin.get("/runs").text

    def test_the_first_ones_are_on_the_page_of_their_job(
        self, admin: Visit, rows: Rows, clock: Clock, job_id: int, run_id: int
    ) -> None:
        commands = acting(rows.database, clock.now_ms).runs
        later = [
            commands.trigger(job_id, when=When(at_ms=clock.now + (4 + n) * HOUR_MS))
            for n in range(5)
        ]

        page = admin.get(f"/jobs/{job_id}").text

        card = page.partition("Triggered for later")[2].partition("</section>")[0]
        listed = [int(found) for found in re.findall(r'href="/runs/(\d+)"', card)]
        assert listed == [run_id, *later[:4]]
        assert "All upcoming runs" in card

    def test_one_is_moved_and_cancelled(self, admin: Visit, rows: Rows, run_id: int) -> None:
        page = admin.get(f"/runs/{run_id}").text
        wrong = admin.post(f"/runs/{run_id}/move", {"at": "soon"})
        past = admin.post(f"/runs/{run_id}/move", {"at": "2020-01-01T08:00"})
        moved = admin.post(f"/runs/{run_id}/move", {"at": "2030-01-01T08:00"})
        due_at = rows.database.read(lambda session: session.get_one(Run, run_id)).due_at
        admin.post(f"/runs/{run_id}/kill")

        assert "Cancel run" in page
        assert "Kill" not in page
        assert [answer.status_code for answer in (wrong, past, moved)] == [303] * 3
        assert due_at == 1_893_484_800_000
        run = rows.database.read(lambda session: session.get_one(Run, run_id))
        assert run.status == RunStatus.CANCELLED
        assert "Move" not in admin.get(f"/runs/{run_id}").text

    def test_a_due_time_of_a_schedule_is_killed_as_ever(
        self, admin: Visit, rows: Rows, clock: Clock, job_id: int
    ) -> None:
        run_id = rows.run(job_id, clock.now + 3_000)

        page = admin.get(f"/runs/{run_id}").text

        assert "Kill run" in page
        assert "Move" not in page


def test_a_failed_run_stands_beside_the_last_success_of_its_shard(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    times = {"started_at": clock.now - 90_000, "finished_at": clock.now - 50_000}
    good = rows.run(job_id, clock.now - 90_000, status="SUCCEEDED", address="worker-1", **times)
    bad = rows.run(job_id, clock.now - 9_000, status="FAILED", address="worker-2", param="late")
    later = rows.run(job_id, clock.now - 1_000, status="SUCCEEDED")

    page = admin.get(f"/runs/{bad}").text

    versus = page.split("Compared with the last success")[1].split("</section>")[0]
    assert f"/runs/{good}" in versus
    assert f"/runs/{later}" not in versus
    for fact in ("worker-1", "worker-2", "40 s", "late", "the same"):
        assert fact in versus
    assert "Compared with the last success" not in admin.get(f"/runs/{good}").text


class TestSkips:
    REASON = "no scheduler could send it in time"

    def lines(self, page: str) -> list[str]:
        """Return what the list of runs says of each line: `skip`, or the run's id."""
        body = page[page.index("<tbody>") : page.index("</tbody>")]
        found = re.findall(r'<tr class="skip">|run-link" href="/runs/(\d+)"', body)
        return [run_id or "skip" for run_id in found]

    def test_a_due_time_that_was_skipped_stands_among_the_runs_with_its_cause(
        self, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        old, new = (
            rows.run(job_id, clock.now - ago, status="SUCCEEDED") for ago in (60_000, 20_000)
        )
        rows.skip(job_id, clock.now - 40_000, count=1, reason=self.REASON)
        operator, viewer = signed_in(app, "operator"), signed_in(app, "viewer")

        page = operator.get("/runs").text

        assert self.lines(page) == [str(new), "skip", str(old)]
        assert self.REASON in page
        [gaps] = re.findall(r'href="(/jobs/\d+/gaps\?skip=\d+)">Run it now', page)
        assert re.search(r'name="skip" value="\d+" checked', operator.get(gaps).text)
        assert "Run it now" not in viewer.get("/runs").text
        assert self.REASON not in signed_in(app, "stranger").get("/runs").text

    def test_running_one_runs_it_for_its_own_due_time(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        at_two = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "timezone": "UTC"}
        job_id = rows.job("nightly", **at_two)
        rows.skip(job_id, clock.now - 6 * HOUR_MS, count=1, reason=self.REASON)
        [(gaps, skip_id)] = re.findall(
            r'href="(/jobs/\d+/gaps\?skip=(\d+))">', admin.get("/runs").text
        )

        sent = {"skip": skip_id, "once": once_of(admin.get(gaps).text), "at_once": "1"}
        page = admin.post(f"/jobs/{job_id}/gaps/fill", sent, follow_redirects=True).text

        assert "is planned" in page
        assert "2027-01-15: to come" in page

    def test_every_skip_is_on_exactly_one_page_of_the_list(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        for number in range(60):
            rows.run(job_id, clock.now - 1_000 * number, status="SUCCEEDED")
        for number in (0, 49, 50, 59, 70):
            rows.skip(job_id, clock.now - 1_000 * number, count=1, reason=f"reason {number}.")

        first = admin.get("/runs").text
        second = admin.get(older(first)).text

        told = [re.findall(r"reason (\d+)\.</td>", page) for page in (first, second)]
        assert told == [["0", "49"], ["50", "59", "70"]]

    @pytest.mark.parametrize(
        "query", ["status=FAILED", "status=unresolved", "kind=MANUAL", "address=a", "text=x"]
    )
    def test_a_filter_that_no_skip_can_match_hides_them(
        self, admin: Visit, rows: Rows, clock: Clock, query: str
    ) -> None:
        rows.skip(rows.job("nightly"), clock.now - 40_000, count=1, reason=self.REASON)

        assert self.REASON in admin.get("/runs?job=nightly").text
        assert self.REASON not in admin.get(f"/runs?{query}").text

    def test_one_that_a_cancelled_run_tells_of_is_not_told_twice(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        job_id = rows.job("nightly")
        run_id = rows.run(job_id, clock.now - 40_000, status="CANCELLED")
        rows.skip(job_id, clock.now - 40_000, count=1, reason=self.REASON)

        assert self.lines(admin.get("/runs").text) == [str(run_id)]

    def test_a_handler_that_skips_has_another_word(
        self, admin: Visit, rows: Rows, clock: Clock
    ) -> None:
        rows.run(rows.job("nightly"), clock.now, status="SKIPPED")

        body = admin.get("/runs").text.partition("<tbody>")[2]
        assert "nothing to do" in body
        assert "skipped" not in body

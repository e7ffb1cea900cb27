"""The board of a few jobs: its later pages, and jobs that have not run."""

import re
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.support.console import Clock, Visit
from tests.support.stored_rows import Rows
from warren.broker.reasons import Why
from warren.scheduler.board import next_hour
from warren.scheduler.board.events import OUTAGE_JOBS, look
from warren.scheduler.board.folding import rebuild
from warren.scheduler.problems import explanation
from warren.scheduler.views.board_view import MAX_JOBS
from warren.sql.board import job_states
from warren.sql.board.job_states import Trouble
from warren.sql.instants import HOUR_MS, MINUTE_MS
from warren.sql.models import BoardEvent, JobError, JobState, Pause
from warren.sql.run_status import Kind


def store(rows: Rows, *states: JobState | JobError) -> None:
    rows.database.write(lambda session: session.add_all(states))


def jobs(rows: Rows, number: int, trouble: Trouble, **columns: Any) -> list[int]:
    """Store jobs with the state that a scheduler would have stored; return their ids."""
    ids = [rows.job(f"{trouble.name.lower()}-{place:03}") for place in range(number)]
    states = [JobState(job_id=id_, trouble=trouble.value, **columns) for id_ in ids]
    store(rows, *states)
    return ids


def names(page: str) -> list[str]:
    return re.findall(r"data-open[^>]*>([^<]+)</a>", page)


def test_a_later_page_names_the_only_job_that_fails(rows: Rows, admin: Visit, clock: Clock) -> None:
    jobs(rows, 1, Trouble.FAILING, failing_since=clock.now - HOUR_MS, failing_count=3)
    jobs(rows, MAX_JOBS, Trouble.SKIPPED, skipped_since=clock.now, skipped_count=1)

    first, second, beyond = (admin.get(f"/?from={place}") for place in (0, MAX_JOBS, 5_000))

    [sentence] = set(re.findall("<h1>(.+?)</h1>", first.text))
    assert sentence.startswith("1 of 101 jobs fails: failing-000, since ")
    assert f"<h1>{sentence}</h1>" in second.text
    assert names(second.text) == ["skipped-099"]
    assert f"<h1>{sentence}</h1>" in beyond.text


def test_recovered_jobs_are_listed_a_page_at_a_time(rows: Rows, admin: Visit, clock: Clock) -> None:
    ids = jobs(rows, MAX_JOBS + 1, Trouble.NONE, newest_at=clock.now)
    at_ms = clock.now - HOUR_MS
    errors = [
        JobError(
            job_id=id_,
            error_key="k",
            error_text="",
            since_at=at_ms,
            last_at=at_ms,
            due_times=1,
            run_id=1,
        )
        for id_ in ids
    ]
    store(rows, *errors)

    first = admin.get("/?tab=recovered").text
    [more] = re.findall(r'href="([^"]+)">More</a>', first)
    second = admin.get(more.replace("&amp;", "&")).text

    listed = names(first) + names(second)
    assert len(listed) == len(set(listed)) == MAX_JOBS + 1


def test_a_job_whose_only_failure_a_rerun_made_good_has_recovered(
    rows: Rows, admin: Visit, clock: Clock
) -> None:
    job_id, at_ms = rows.job("one"), clock.now - HOUR_MS
    failed = rows.run(job_id, at_ms, status="FAILED", message="no disk")
    rows.run(job_id, at_ms, rerun_of=failed, origin_id=None, kind=Kind.RERUN, status="SUCCEEDED")
    rows.database.write(lambda session: rebuild(session, [job_id], now_ms=clock.now))

    page = admin.get("/?tab=recovered").text

    assert names(page) == ["one"]
    assert "1 that failed in the last 24 hours has recovered." in page
    [stored] = rows.database.read(lambda session: job_states.errors(session, job_ids=[job_id]))
    assert (stored.error_text, stored.run_id, stored.due_times) == ("no disk", failed, 1)


def test_the_next_hour_says_what_a_pause_holds(rows: Rows, admin: Visit, clock: Clock) -> None:
    next_at = clock.now + 5 * MINUTE_MS
    rows.job(
        "one", is_enabled=1, next_tick_at=next_at, schedule_kind="FIX_RATE", schedule_value="3000"
    )
    pause = Pause(app_id=rows.app(), since_at=1, until_at=None, paused_by="ops", reason="")

    def unit(session: Session) -> None:
        session.add(pause)
        session.flush()
        next_hour.make(session, timezone="UTC", now_ms=clock.now)

    rows.database.write(unit)

    assert "paused, 2 due meanwhile</span>" in admin.get("/").text


def test_the_next_hour_names_a_late_job_that_has_never_run(
    rows: Rows, admin: Visit, clock: Clock
) -> None:
    rows.run(rows.job("new"), clock.now - MINUTE_MS)
    rows.database.write(lambda session: next_hour.make(session, timezone="UTC", now_ms=clock.now))

    assert "1 of 1 due starts &gt; 1 h 1 min late: new<" in admin.get("/").text


def test_the_pause_of_a_deleted_app_is_not_one_of_everything(
    rows: Rows, admin: Visit, clock: Clock
) -> None:
    events = [
        BoardEvent(kind="PAUSE", app_id=id_, subject="ops", since_at=clock.now, until_at=clock.now)
        for id_ in (rows.app(), 4_711)
    ]
    rows.database.write(lambda session: session.add_all(events))

    labels = re.findall(r"<strong>([^<]+ paused)</strong>", admin.get("/").text)

    assert labels == ["reports paused"]


@pytest.mark.parametrize("ran", [0, 1])
def test_all_jobs_are_those_that_have_not_run_too(rows: Rows, admin: Visit, ran: int) -> None:
    jobs(rows, ran, Trouble.NONE)
    for name in ("new", "newer"):
        rows.job(name)

    page = admin.get("/?tab=all").text

    assert len(names(page)) == ran
    assert "2 have not run yet</a>" in page
    assert "Nothing here." not in page


def test_a_group_tells_who_looks_after_its_jobs(rows: Rows, admin: Visit, clock: Clock) -> None:
    error = {"error_key": "k", "error_text": "no disk", "failing_since": clock.now}
    first, second = jobs(rows, 2, Trouble.FAILING, failing_count=1, **error)

    def said() -> list[str]:
        return re.findall(r"<small>(muted until .+?)</small>", admin.get("/").text)

    admin.post("/mutes", {"id": str(first), "span": "4h", "why": "ordered", "silent": "1"})
    [of_one] = said()
    admin.post("/mutes", {"id": str(second), "span": "4h", "why": "ordered", "silent": "1"})
    [of_both] = said()

    assert of_one.endswith("by admin: ordered · failing-000")
    assert of_both.endswith("by admin: ordered")


def test_a_strip_ends_with_the_run_that_is_running(rows: Rows, admin: Visit, clock: Clock) -> None:
    [failing] = jobs(rows, 1, Trouble.FAILING, failing_since=clock.now - HOUR_MS, failing_count=1)
    [fine] = jobs(rows, 1, Trouble.NONE)
    rows.run(failing, clock.now, status="RUNNING", started_at=clock.now - 2_000)

    for path in ("/?tab=all", "/jobs"):
        strips = re.findall(r'<svg class="strip".*?</svg>', admin.get(path).text, re.DOTALL)

        assert [' · running"' in strip for strip in strips] == [True, False], fine
        assert ['class="running"' in strip for strip in strips] == [True, False]


def test_reasons_of_failures_are_in_the_visitors_language(
    rows: Rows, admin: Visit, clock: Clock
) -> None:
    for name, nodes in (("one", "load"), ("two", "load"), ("three", "load, publish")):
        job_id, said = rows.job(name), explanation(Why.FLOW_FAILED(nodes=nodes))
        rows.run(job_id, clock.now, status="FAILED", message=said.text, message_why=said.why)
        rows.database.write(lambda session, id_=job_id: rebuild(session, [id_], now_ms=clock.now))

    chinese = {"headers": {"Accept-Language": "zh-CN"}}
    for path in ("/", "/runs/errors"):
        page = admin.get(path, **chinese).text
        assert re.findall(r"以下节点失败且未被处理.([a-z, ]+)<", page) == ["load", "load, publish"]
        assert "no node handled it" not in page
    assert "no node handled it: load<" in admin.get("/", headers={"Accept-Language": "en"}).text


def test_the_error_of_an_outage_is_in_the_visitors_language(
    rows: Rows, admin: Visit, clock: Clock
) -> None:
    job_ids = [rows.job(f"job-{number}") for number in range(OUTAGE_JOBS)]
    for seconds, job_id in enumerate(job_ids, 4):
        said = explanation(Why.TIMED_OUT(seconds=seconds))
        rows.run(job_id, clock.now, status="TIMED_OUT", message=said.text, message_why=said.why)

    def unit(session: Session) -> None:
        rebuild(session, job_ids, now_ms=clock.now)
        look(session, [], now_ms=clock.now)

    rows.database.write(unit)

    def label(language: str) -> list[str]:
        page = admin.get("/", headers={"Accept-Language": language}).text
        return re.findall(r'#needs" title="[^"]+"><strong>([^<]+)<', page)

    assert label("en") == ["timed out after 4 s"]
    assert label("zh-CN") == ["超过 8 秒的时限"]


def test_a_choice_that_is_none_is_refused_in_the_visitors_language(admin: Visit) -> None:
    page = admin.get("/runs?status=bogus", headers={"Accept-Language": "zh-CN"}).text

    assert "不是有效的选项" in page
    assert "Not a valid choice" not in page

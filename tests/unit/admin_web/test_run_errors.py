"""Runs found by a part of a job's name, by what they say and by when; errors in groups."""

import re
from urllib.parse import parse_qs, urlsplit

from flask import Flask

from tests.support.acting import acting
from tests.support.console import Clock, Visit, signed_in
from tests.support.stored_rows import Rows
from warren.scheduler.board.folding import rebuild

HOUR_MS = 3_600_000


def shown(page: str) -> list[int]:
    return [int(found) for found in re.findall(r'class="run-link" href="/runs/(\d+)"', page)]


def test_a_part_of_a_name_finds_the_runs_of_every_such_job(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    jobs = [rows.job("nightly-a"), rows.job("Nightly-b"), rows.job("twin", "mails"), rows.job("x")]
    ids = [rows.run(jobs[n % 4], clock.now - n * 60_000, status="FAILED") for n in range(12)]

    assert shown(admin.get("/runs?job=night").text) == [ids[n] for n in range(12) if n % 4 < 2]
    assert admin.get("/runs?job=nothing").status_code == 422


def test_pages_of_several_jobs_have_each_run_once(admin: Visit, rows: Rows, clock: Clock) -> None:
    jobs = [rows.job(f"part-{n}") for n in range(3)]
    ids = [rows.run(jobs[n % 3], clock.now - n // 3 * 60_000, status="LOST") for n in range(150)]
    found: list[int] = []
    path = "/runs?job=part"

    while path:
        page = admin.get(path).text
        found += shown(page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path = older[1].replace("&amp;", "&") if older else ""

    assert sorted(found) == sorted(ids)
    assert len(found) == len(set(found))


def test_messages_are_searched_in_any_case_and_numbers_by_a_sign(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    says = ("Disk 7 full at 99 %", "disk full", "connection refused", "50% of disk 12 full at 1 %")
    ids = [
        rows.run(job_id, clock.now - n * 1_000, status="FAILED", message=text)
        for n, text in enumerate(says)
    ]

    assert shown(admin.get("/runs?text=DISK").text) == [ids[0], ids[1], ids[3]]
    assert shown(admin.get("/runs?text=disk+%23+full+at+%23").text) == [ids[0], ids[3]]
    assert shown(admin.get("/runs?text=50%25").text) == [ids[3]]


def test_periods_go_by_the_viewers_zone(admin: Visit, rows: Rows, clock: Clock) -> None:
    # The clock stands at 2027-01-15 08:00 UTC.
    job_id = rows.job("nightly")
    ages = (0.5, 5, 11, 13, 15)
    ids = [rows.run(job_id, clock.now - int(age * HOUR_MS), status="LOST") for age in ages]

    assert shown(admin.get("/runs?period=hour").text) == ids[:1]
    assert shown(admin.get("/runs?period=night").text) == ids[:3]
    assert shown(admin.get("/runs?period=evening").text) == ids[:4]
    admin.client.set_cookie("warren_zone", "Asia/Shanghai")
    # There it is 16:00, so the night ended eight hours ago.
    assert shown(admin.get("/runs?period=night").text) == [ids[n] for n in (2, 3, 4)]


def test_errors_are_grouped_by_job_and_message_but_for_its_numbers(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    one, other = rows.job("nightly"), rows.job("hourly")
    ids = [
        rows.run(one, clock.now - n * 60_000, status="FAILED", message=f"timeout after {n} s")
        for n in range(5)
    ]
    rows.run(other, clock.now - 1, status="FAILED", message="timeout after 3 s")
    rows.run(one, clock.now - 2, status="SUCCEEDED", message="timeout after 4 s")

    page = admin.get("/runs/errors").text

    counts = re.findall(r"<strong>(\d+)</strong>", page)
    assert counts == ["5", "1"]
    link = re.findall(r'href="(/runs\?[^"]+)"><strong>5', page)[0].replace("&amp;", "&")
    assert parse_qs(urlsplit(link).query)["text"] == ["timeout after # s"]
    assert shown(admin.get(link).text) == ids


def test_jobs_with_the_same_error_are_one_group_that_says_since_when_and_who_looks_after_it(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    one, other, over = rows.job("nightly"), rows.job("hourly"), rows.job("over")
    for job_id in (one, other):
        rows.run(job_id, clock.now - 3 * HOUR_MS, status="FAILED", message="refused")
        for hours in (2, 1):
            due = clock.now - hours * HOUR_MS
            rows.run(job_id, due, status="FAILED", message=f"db {hours}: wrong password")
    rows.run(over, clock.now - 2 * HOUR_MS, status="FAILED", message="db 9: wrong password")
    rows.run(over, clock.now - HOUR_MS, status="SUCCEEDED")
    rows.database.write(
        lambda session: rebuild(session, [one, other, over], now_ms=clock.now)  # as schedulers do
    )
    acting(rows.database, lambda: clock.now, who="ann").mutes.mute(
        one, until_ms=clock.now + HOUR_MS, why="DBA asked", silent=False
    )

    page = admin.get("/runs/errors?status=failures").text

    errors = re.findall(r'class="error-text">([^<]+)<', page)
    assert errors == ["db 1: wrong password", "refused"]
    group = page[page.index("db 1: wrong password") : page.index('"error-text">refused')]
    assert "3 jobs" in group
    assert ">5 runs<" in group
    assert len(re.findall('class="run-link"', group)) == 3
    # It fails since the first error; this one came later.
    assert len(re.findall(r'T05:00[^<]+<[^>]+> <span class="quiet">this error since', group)) == 2
    assert group.count("no longer") == 1
    assert "acknowledged until 09:00 by ann: DBA asked" in group


def test_what_tells_long_errors_apart_stays_and_secrets_do_not(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    where = "ConnectionError: connection to server failed: " + "x" * 200
    for n, end in enumerate(("refused", "wrong password", "password=hunter2")):
        rows.run(job_id, clock.now - n, status="FAILED", message=f"{where} {end}")

    page = admin.get("/runs/errors").text

    errors = re.findall(r'class="error-text">([^<]+)<', page)
    assert [error.rsplit("x ", 1)[1] for error in errors] == [
        "refused",
        "wrong password",
        "password=***",
    ]


def test_groups_have_first_and_last(admin: Visit, rows: Rows, clock: Clock) -> None:
    job_id = rows.job("nightly")
    for age in (1, 2, 3):
        rows.run(job_id, clock.now - age * HOUR_MS, status="FAILED", message="no")

    page = admin.get("/runs/errors").text

    assert re.findall(r'<time datetime="2027-01-15T(\d\d:\d\d)', page) == ["05:00", "07:00"]


def test_errors_of_foreign_apps_are_not_counted(app: Flask, rows: Rows, clock: Clock) -> None:
    theirs = rows.job("secret", "mails")
    rows.run(theirs, clock.now, app="mails", status="FAILED", message="secret words")
    operator = signed_in(app, "operator")

    assert "secret" not in operator.get("/runs/errors").text
    assert "0 runs match" in operator.get("/runs/total").text


def test_the_total_counts_what_the_filter_fits(admin: Visit, rows: Rows, clock: Clock) -> None:
    job_id = rows.job("nightly")
    for n in range(70):
        rows.run(job_id, clock.now - n * 1_000, status=("FAILED", "LOST")[n % 2])

    assert "70 runs match" in admin.get("/runs/total?job=nightly").text
    assert "35 runs match" in admin.get("/runs/total?status=LOST").text
    assert admin.get("/runs/total?job=absent").status_code == 200


def test_a_message_is_no_markup(admin: Visit, rows: Rows, clock: Clock) -> None:
    rows.run(rows.job("<b>"), clock.now, status="FAILED", message="<script>1</script>")

    page = admin.get("/runs/errors").text

    assert "<script>1" not in page
    assert "<b>" not in page

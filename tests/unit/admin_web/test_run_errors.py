"""Runs found by a part of a job's name, by what they say and by when; errors in groups."""

import re
from urllib.parse import parse_qs, urlsplit

from flask import Flask

from tests.support.console import Clock, Visit, signed_in
from tests.support.stored_rows import Rows

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

"""What can be written into an address: filters, orders, places, counts, schedules, file names."""

import re
import time
from collections.abc import Callable

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from tests.support.console import Clock, Visit, add_user, signed_in
from tests.support.sample_app import SampleApp, add_sample_app, dump
from tests.support.stored_rows import Rows
from warren.sql.accounts.users import Role
from warren.sql.engine import Database

#: What each field of a filter is given alone, and what all of them are given together.
NASTY = {
    "sql": ["' OR '1'='1", '"; DROP TABLE xxl_job_info; --', "id;drop", "desc--"],
    "numbers": ["-1", "1000000000", "1" * 40, "9" * 5_000, "²"],
    "others": ["%00\0", "(a+)+$", "x" * 10_000],
}
#: Names that people try though no page has them, and those that are no fields of a form.
GUESSED = {
    *("page", "size", "limit", "offset", "sort", "order", "column", "start", "length"),
    *("after", "before", "line", "from", "run", "old", "new", "range", "since", "until", "next"),
}
#: Lines of the longest page.
MAX_LINES = 100
#: A page of these small tables takes some milliseconds of a processor.
WAIT_SECONDS = 2.0


@pytest.fixture
def made(rows: Rows, clock: Clock) -> SampleApp:
    return add_sample_app(rows, "reports", lambda field: f"own-{field}", clock.now)


def pages(app: Flask, made: SampleApp) -> list[tuple[str, set[str]]]:
    """Return each path that can be opened, with the names that it may be asked with."""
    admin = signed_in(app, "admin")
    found = []
    with app.test_request_context():
        for rule in app.url_map.iter_rules():
            if "GET" not in (rule.methods or set()) or rule.endpoint == "static":
                continue
            is_script = rule.endpoint.startswith("glue")
            path = app.url_for(rule.endpoint, **made.values(set(rule.arguments), script=is_script))
            forms = re.findall(
                r'<form[^>]*method="get".*?</form>', admin.get(path, buffered=True).text, re.DOTALL
            )
            names = {name for form in forms for name in re.findall(r' name="([a-z_]+)"', form)}
            found.append((path, names))
    return found


@pytest.mark.parametrize(
    "address",
    [
        f"/jobs/ask-delete?id={'9' * 5_000}",
        f"/runs/bulk/ask?action=kill&id={'9' * 5_000}",
        "/jobs/bulk/ask?action=stop&filter=name%3Dzzz%0A",
        "/runs/bulk/ask?action=kill&filter=job%3Dzzz%0D%0Ax",
    ],
)
def test_a_selection_that_is_none_has_an_answer(app: Flask, address: str) -> None:
    assert signed_in(app, "admin").get(address, buffered=True).status_code < 500


@pytest.mark.parametrize("name", ["", "mine"])
def test_a_filter_with_a_line_break_is_not_saved(app: Flask, name: str) -> None:
    form = {"page": "runs", "name": name, "query": "status=FAILED\nx"}

    answer = signed_in(app, "admin").post("/filters/save", form)

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/runs"


@pytest.mark.parametrize("values", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.release)])
def test_no_argument_of_any_page_breaks_it_or_brings_more_than_a_page(
    app: Flask, rows: Rows, made: SampleApp, values: list[str], *, each: bool
) -> None:
    """Each field gets one value of each kind, in turn.

    Each value is that of all fields together, or of names that the page does not have, in turn.
    Before a release, each field gets each value alone, and each value is both.
    """
    admin = signed_in(app, "admin")
    before = dump(rows)
    asked = pages(app, made)
    assert {"app", "name", "handler", "author", "order", "state"} <= dict(asked)["/jobs"]
    assert {"app", "job", "status", "kind", "address"} <= dict(asked)["/runs"]

    for number, (path, names) in enumerate(asked):
        for turn, value in enumerate(values):
            fields = sorted(names - GUESSED)
            alone = [{name: value} for name in (fields if each else fields[turn :: len(values)])]
            both = [dict.fromkeys(fields, value), dict.fromkeys(GUESSED, value)]
            together = both if each else [both[(number + turn) % 2]]
            for query in (*alone, *together):
                began = time.thread_time()
                answer = admin.client.get(path, query_string=query, buffered=True)
                spent = time.thread_time() - began

                known = answer.status_code in (200, 303, 401, 403, 404, 405, 422, 503)
                assert known, (path, query, answer.status_code)
                assert spent < WAIT_SECONDS, (path, query)
                assert answer.text.count("<tr") <= MAX_LINES + 40, (path, query)
    assert dump(rows) == before


def test_sql_in_a_filter_finds_what_has_it_in_its_text(admin: Visit, rows: Rows) -> None:
    rows.job("plain", handler="h", author="a")
    rows.job("x' OR '1'='1", handler="x' OR '1'='1", author="x' OR '1'='1")

    for name in ("name", "handler", "author"):
        page = admin.get("/jobs", query_string={name: "' OR '1'='1"}).text
        assert (">plain<" in page, page.count('name="id"')) == (False, 1), name


def test_the_wildcards_of_the_database_are_letters(
    app: Flask, admin: Visit, rows: Rows, clock: Clock, database: Database
) -> None:
    for text in ("a100%z", "a1000z", "a_b", "axb", "a\\b"):
        job_id = rows.job(text, handler=text, author=text)
        rows.run(job_id, clock.now, address=text)
        rows.executor(text, clock.now, "{}")
    for name in ("us_r", "us-r"):
        add_user(database, name, Role.VIEWER, "reports")

    def found(path: str, **query: str) -> set[str]:
        page = admin.get(path, query_string=query).text
        body = page[page.find("<tbody>") :]
        return {text for text in ("a100%z", "a1000z", "a_b", "axb") if text in body}

    for name in ("name", "handler", "author"):
        assert found("/jobs", **{name: "0%"}) == {"a100%z"}
        assert found("/jobs", **{name: "a_"}) == {"a_b"}
        assert found("/jobs", **{name: "%"}) == {"a100%z"}
    assert found("/ledger", name="a_") <= {"a_b"}
    assert found("/ledger", name="%") <= {"a100%z"}
    assert found("/executors", address="a_") == {"a_b"}
    assert found("/runs", address="%") <= {"a100%z"}
    assert found("/runs", address="a_b") == {"a_b"}
    assert "us-r" not in admin.get("/users", query_string={"name": "s_r"}).text


@pytest.mark.parametrize(
    "query",
    ["order=id;drop", "order=desc--", "state=x'", "app=nothing", "name=" + "x" * 10_000],
)
def test_an_order_or_choice_that_is_none_is_refused(admin: Visit, query: str) -> None:
    assert admin.get(f"/jobs?{query}").status_code == 422


#: Long ones, deep ones, and those that never fire or seldom do.
SCHEDULES = [
    "0 " * 5_000,
    "1," * 5_000 + "1 * * * * ?",
    "*/" * 5_000,
    "(" * 10_000,
    "0 0 0 " + "L-1," * 2_500 + "1 * ?",
    "0 0 0 30 2 ?",
    "0 0 0 31 2,4,6,9,11 ? 1970-2099",
    "0 0 0 ? 2 2#5 2099",
    "0 0 0 L-30W 2 ?",
    "59 59 23 29 2 ? 2096",
    "0-59/1 0-59/1 0-23/1 1-31/1 1-12/1 ? 1970-2099/1",
    ",".join(["0"] * 480) + " * * * * ?",
    "(a+)+$" * 1_000,
    "-" * 10_000,
    "²" * 900,
]


def test_no_schedule_keeps_the_preview_or_the_form_busy(admin: Visit) -> None:
    """Each took up to 10 ms where nothing else ran; what it is held to is what a person notices."""
    for expression in SCHEDULES:
        typed = {"schedule_kind": "CRON", "cron": expression, "timezone": "America/New_York"}
        form = typed | {"name": "n", "app": "reports", "handler": "h"}
        seen, previews = took(lambda typed=typed: admin.get("/jobs/preview", query_string=typed))
        made, forms = took(lambda form=form: admin.post("/jobs/create", form))

        assert seen.status_code == 200
        assert made.status_code in (303, 422)
        assert previews < 0.1, expression[:40]
        assert forms < 0.5, expression[:40]


def took(work: Callable[[], TestResponse]) -> tuple[TestResponse, float]:
    """Return an answer and the shorter of the times that it took twice."""
    spent = []
    for _ in range(2):
        began = time.thread_time()
        answer = work()
        spent.append(time.thread_time() - began)
    return answer, min(spent)


def test_a_log_is_found_by_the_number_of_a_run_and_by_nothing_else(
    admin: Visit, made: SampleApp
) -> None:
    assert admin.get(f"/runs/{made.ids['run_id']}/log").status_code == 200

    for name in (
        *("../../../etc/passwd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5c..%5c1", "/etc/passwd"),
        *("%2Fetc%2Fpasswd", "1%00", "1%00.log", "1;2", "1.log", "-1", "1e3", "0x1", "\u0661"),
        *("9" * 19, "9" * 5_000, "file:%2F%2F%2Fetc%2Fpasswd", "~root"),
    ):
        for tail in ("", "/log", "/log/lines", "/log/download"):
            answer = admin.get(f"/runs/{name}{tail}")

            assert answer.status_code in (308, 404), (name, tail)
            assert "root:" not in answer.text


def test_a_line_that_no_log_has_is_the_nearest_one(admin: Visit, made: SampleApp) -> None:
    path = f"/runs/{made.ids['run_id']}/log"

    for line in ("-1", "0", "1" + "0" * 18, "9" * 5_000, "x", "²", "1e9", ""):
        for query in (f"line={line}", f"from={line}&limit=1000000000", f"offset={line}&size=9"):
            assert admin.get(f"{path}?{query}").status_code == 200
            assert admin.get(f"{path}/lines?{query}").status_code == 200


def test_very_many_arguments_are_refused(admin: Visit) -> None:
    began = time.thread_time()

    few = admin.get("/jobs?" + "&".join(f"a{number}=1" for number in range(90)))
    many = admin.get("/jobs?" + "&".join(f"a{number}=1" for number in range(10_000)))

    assert (few.status_code, many.status_code) == (200, 400)
    assert time.thread_time() - began < WAIT_SECONDS


def test_a_form_of_very_many_fields_keeps_nobody_waiting(admin: Visit) -> None:
    form = "csrf_token=" + admin.token + "&a=1" * 200_000
    kind = "application/x-www-form-urlencoded"
    began = time.thread_time()

    answer = admin.client.post("/account/theme", data=form, content_type=kind)

    assert answer.status_code == 400
    assert time.thread_time() - began < WAIT_SECONDS


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/xml", "x"])
def test_a_body_that_is_no_form_is_read_by_nobody(admin: Visit, kind: str) -> None:
    deep = "[" * 400_000 + "]" * 400_000
    headers = {"X-CSRFToken": admin.token}

    answer = admin.client.post("/account/theme", data=deep, content_type=kind, headers=headers)

    assert answer.status_code == 415

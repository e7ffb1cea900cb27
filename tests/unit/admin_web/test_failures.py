"""What a page says when something breaks behind it: a number that the log has too, no more."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from structlog.testing import capture_logs

from tests.support.console import METRICS_TOKEN, Clock, Visit, make_app, signed_in
from tests.support.ports import free_port
from tests.support.stored_rows import Rows
from warren.admin_web.pages.dashboard import OverviewReader
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.registry import presence

#: Whatever tells how the console is made, or what it may open.
TELLING = (
    "Traceback",
    'File "',
    "SELECT",
    "sqlite",
    "pymysql",
    "mysql",
    "hush",
    "Error:",
    "no such",
)


def assert_says_a_number_only(answer: Any, logs: list[Any], event: str) -> None:
    """Require the words for people, and that the log knows more under the same number."""
    for word in TELLING:
        assert word not in answer.text, word
    [number] = re.findall(r"Error number: ([0-9a-f]{8})", answer.text)
    [line] = [line for line in logs if line["event"] == event]
    assert line["number"] == number


def break_in_a_view(_rows: Rows, patch: pytest.MonkeyPatch) -> str:
    def fail(*_: object) -> None:
        raise RuntimeError("mysql+pymysql://user:hush@host SELECT * FROM xxl_job_user")

    patch.setattr(OverviewReader, "read", fail)
    return "/overview"


def break_json(rows: Rows, _: pytest.MonkeyPatch) -> str:
    broken = text(
        'INSERT INTO warren_trail (at, who, origin, action, kind, object_id, name, "before") '
        "VALUES (1, 'w', 'o', 'job.update', 'job', 1, 'n', '{hush')"
    )
    rows.database.write(lambda session: session.execute(broken))
    return "/audit"


@pytest.mark.parametrize("make", [break_in_a_view, break_json])
def test_what_nobody_expected_is_a_number(
    app: Flask,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Rows, pytest.MonkeyPatch], str],
) -> None:
    admin = signed_in(app, "admin")
    path = make(rows, monkeypatch)

    with capture_logs() as logs:
        answer = admin.get(path)

    assert answer.status_code == 500
    assert_says_a_number_only(answer, logs, "page_failed")
    assert "exc_info" in logs[-1]


def test_tables_that_are_not_there_are_a_number(app: Flask, rows: Rows) -> None:
    admin = signed_in(app, "admin")
    rows.database.write(lambda session: session.execute(text("DROP TABLE xxl_job_log")))

    with capture_logs() as logs:
        answer = admin.get("/runs")

    assert answer.status_code == 503
    assert_says_a_number_only(answer, logs, "page_not_served")


def test_a_database_that_nobody_reaches_is_a_number_on_every_page(clock: Clock) -> None:
    url = f"mysql+pymysql://hush-user:hush@127.0.0.1:{free_port()}/hush"
    database = Database(url, retry_seconds=0.0)
    visit = Visit(make_app(database, clock))
    visit.client.set_cookie("warren", signed_cookie(visit))

    for path in ("/", "/jobs", "/runs/1", "/account"):
        with capture_logs() as logs:
            answer = visit.get(path)

        assert answer.status_code == 503, path
        assert answer.headers["Retry-After"]
        assert_says_a_number_only(answer, logs, "page_not_served")
    visit.get("/login")
    with capture_logs() as logs:
        answer = visit.post("/login", {"username": "admin", "password": "hush"})
    assert answer.status_code == 503
    assert_says_a_number_only(answer, logs, "page_not_served")
    health = visit.get("/healthz").text
    figures = visit.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"}).text
    assert [word for word in TELLING if word in health + figures] == []
    database.close()


def signed_cookie(visit: Visit) -> str:
    """Return a cookie that somebody once got here, so that the database is asked about it."""
    app = visit.client.application
    serializer = app.session_interface.get_signing_serializer(app)  # type: ignore[attr-defined]
    return str(serializer.dumps({"sign_in": "t" * 43}))


@pytest.mark.parametrize("path", ["/healthz", "/login", "/nothing", "/static/nothing.css"])
def test_whoever_is_not_signed_in_learns_no_more(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def lost(*_: object) -> None:
        raise DatabaseUnavailable("cannot reach mysql+pymysql://user:hush@host: SELECT 1")

    monkeypatch.setattr(Database, "read", lost)
    monkeypatch.setattr(Database, "write", lost)

    answer = Visit(make_app(database, clock)).get(path)

    assert [word for word in TELLING if word in answer.text] == []


class TestNoDebugger:
    def test_there_is_neither_a_debugger_nor_a_console_nor_a_description(self, app: Flask) -> None:
        visit = Visit(app)

        assert not app.debug
        assert not app.testing
        for path in (
            "/console",
            "/debug",
            "/docs",
            "/openapi.json",
            "/swagger",
            "/?__debugger__=yes",
        ):
            answer = visit.get(path)
            assert answer.status_code in (303, 404), path
            assert "werkzeug" not in answer.text.lower()

    def test_an_error_in_health_opens_nothing(
        self, database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("hush")

        monkeypatch.setattr(presence, "listing", fail)

        answer = Visit(make_app(database, clock)).get("/healthz?__debugger__=yes&cmd=resource")

        assert answer.status_code == 500
        assert [word for word in TELLING if word in answer.text] == []

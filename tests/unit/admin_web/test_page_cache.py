"""While the database is away: the page as it was last, for whoever saw it, and for nobody else."""

from collections.abc import Callable

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from warren.admin_web.services import PageCacheLimits
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

NOTICE = "This page is from"


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def lost(*_: object) -> None:
        raise DatabaseUnavailable("cannot reach mysql://user@host: connection refused")

    return lambda: monkeypatch.setattr(Database, "read", lost)


@pytest.mark.parametrize("path", ["/", "/jobs?name=x", "/runs", "/executors", "/ledger"])
def test_a_page_is_shown_as_it_was_with_the_time_it_is_of(
    admin: Visit, lose: Callable[[], None], path: str
) -> None:
    before = admin.get(path).text

    lose()
    answer = admin.get(path)

    assert (answer.status_code, answer.headers["Refresh"]) == (503, "5")
    start, _, end = answer.text.partition('<div class="notice bad" role="alert" data-cached>')
    assert NOTICE in end
    assert "2027-01-15 08:00:00" in end
    assert before.startswith(start.rstrip())
    assert "mysql" not in answer.text


def test_another_page_than_was_seen_is_not_known(admin: Visit, lose: Callable[[], None]) -> None:
    admin.get("/jobs")

    lose()

    for path in ("/jobs?name=other", "/runs"):
        answer = admin.get(path)
        assert answer.status_code == 503
        assert NOTICE not in answer.text
        assert "Database unavailable" in answer.text


def test_nobody_sees_what_another_sign_in_was_shown(app: Flask, lose: Callable[[], None]) -> None:
    first, second, stranger = signed_in(app, "admin"), signed_in(app, "admin"), Visit(app)
    first.get("/jobs")

    lose()

    assert NOTICE in first.get("/jobs").text
    assert NOTICE not in second.get("/jobs").text
    assert stranger.get("/jobs").headers["Location"].startswith("/login")


@pytest.mark.parametrize("path", ["/users", "/audit", "/account", "/jobs/new"])
def test_forms_and_what_people_did_are_not_kept(
    admin: Visit, lose: Callable[[], None], path: str
) -> None:
    admin.get(path)

    lose()

    assert NOTICE not in admin.get(path).text


def test_a_form_is_not_sent_again_by_itself(admin: Visit, lose: Callable[[], None]) -> None:
    admin.get("/schedulers")

    lose()
    answer = admin.post("/schedulers/pause", {"reason": "an upgrade"})

    assert answer.status_code == 503
    assert "Refresh" not in answer.headers
    assert "This probably had no effect." in answer.text


def test_what_was_said_once_is_not_said_again(admin: Visit, lose: Callable[[], None]) -> None:
    admin.get("/schedulers")
    admin.post("/schedulers/pause", {"reason": "an upgrade"})
    assert '<p class="notice good"' in admin.get("/schedulers").text

    lose()

    assert NOTICE not in admin.get("/schedulers").text


def test_what_is_kept_is_bounded(
    database: Database, clock: Clock, lose: Callable[[], None]
) -> None:
    visit = signed_in(make_app(database, clock, page_cache=PageCacheLimits(pages=2)), "admin")
    for path in ("/jobs", "/runs", "/apps"):
        visit.get(path)

    lose()
    assert [NOTICE in visit.get(path).text for path in ("/jobs", "/runs", "/apps")] == [
        False,
        True,
        True,
    ]


def test_a_page_is_forgotten_when_rights_may_have_changed(
    database: Database, clock: Clock, lose: Callable[[], None]
) -> None:
    visit = signed_in(make_app(database, clock, page_cache=PageCacheLimits(seconds=0.0)), "admin")
    visit.get("/jobs")

    lose()

    assert NOTICE not in visit.get("/jobs").text


def test_a_lost_broker_is_told_on_every_page_once(database: Database, clock: Clock) -> None:
    visit = signed_in(make_app(database, clock, is_broker_up=lambda: False), "admin")

    for path in ("/", "/jobs", "/runs", "/executors", "/schedulers", "/account"):
        page = visit.get(path).text
        assert page.count("broker is unreachable") == 1, path

"""The headers of every answer there is: each route, each role, each error."""

from collections.abc import Callable

import pytest
from werkzeug.test import TestResponse

from tests.integration.admin_web.every_route.test_access import TABLE, calls
from tests.support.console import PASSWORD, Clock, Visit, make_app, signed_in
from warren.admin_web.access.gate import HEADERS
from warren.admin_web.pages.dashboard import OverviewReader
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

HTTPS = "https://jobs.example.com"


def assert_dressed(answer: TestResponse, *, is_https: bool = False) -> None:
    """Require what every browser must be told with every answer."""
    headers = answer.headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers[POLICY].split(";"))
    assert policy["default-src"] == "'none'"
    assert all(policy[name] == "'none'" for name in ("object-src", "base-uri", "frame-ancestors"))
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert "unsafe" not in headers[POLICY]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert all(headers.getlist(name) == [value] for name, value in HEADERS.items())
    assert ("Strict-Transport-Security" in headers) is is_https
    assert "Server" not in headers
    assert "X-Powered-By" not in headers


POLICY = "Content-Security-Policy"


@pytest.mark.parametrize(("name", "url"), [("", ""), ("viewer", ""), ("admin", HTTPS)])
def test_every_route_tells_browsers_what_they_may_do(
    database: Database, clock: Clock, name: str, url: str
) -> None:
    app = make_app(database, clock, console_url=url)
    base = {"base_url": url or "http://localhost"}
    visit = Visit(app)
    if name:
        visit.get("/login", **base)
        visit.post("/login", {"username": name, "password": PASSWORD}, **base)
        assert visit.get("/account", **base).status_code == 200
    # Whatever ends the sign-in comes last.
    last = ("sign_in.logout", "users.change_rights", "users.reset_password")
    walk = sorted(calls(app), key=lambda call: call[0] in last)
    assert len(walk) > len(TABLE)

    for endpoint, method, path in walk:
        if method == "GET":
            answer = visit.get(path, **base)
        else:
            answer = visit.post(path, TABLE[endpoint].form, **base)

        assert_dressed(answer, is_https=bool(url))
        if endpoint != "static":
            assert answer.headers["Cache-Control"] == "no-store", (endpoint, method)


def too_much(visit: Visit, _: pytest.MonkeyPatch) -> TestResponse:
    return visit.post("/account/theme", {"theme": "x" * 1_100_000})


def guessed(visit: Visit, _: pytest.MonkeyPatch) -> TestResponse:
    other = Visit(visit.client.application)
    answers = [other.sign_in("viewer", "no such password") for _ in range(9)]
    return answers[-1]


def broken(visit: Visit, patch: pytest.MonkeyPatch) -> TestResponse:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    patch.setattr(OverviewReader, "read", fail)
    return visit.get("/overview")


def lost(visit: Visit, patch: pytest.MonkeyPatch) -> TestResponse:
    def fail(*_: object) -> None:
        raise DatabaseUnavailable("away")

    patch.setattr(Database, "read", fail)
    return visit.get("/")


ERRORS: dict[int, Callable[[Visit, pytest.MonkeyPatch], TestResponse]] = {
    400: lambda visit, _: visit.get("/", headers={"Host": "evil.example"}),
    401: lambda visit, _: visit.client.application.test_client().get(
        "/", headers={"Warren-Live": "1"}
    ),
    403: lambda visit, _: visit.client.post("/account/theme", data={"theme": "dark"}),
    404: lambda visit, _: visit.get("/nothing/at/all"),
    405: lambda visit, _: visit.get("/schedulers/pause"),
    409: lambda visit, _: visit.post("/users/1/delete"),
    413: too_much,
    422: lambda visit, _: visit.get("/jobs?order=id;drop"),
    429: guessed,
    500: broken,
    503: lost,
}


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_tells_them_too(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    admin = signed_in(make_app(database, clock), "admin")

    answer = ERRORS[code](admin, monkeypatch)

    assert answer.status_code == code
    assert_dressed(answer)
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Traceback" not in answer.text

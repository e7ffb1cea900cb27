"""Sessions of several consoles on one host: a browser sends each cookie to every port of it."""

from flask import Flask

from tests.support.console import PASSWORD, Clock, Visit, make_app
from warren.sql.engine import Database


def sign_in(app: Flask, url: str) -> dict[str, str]:
    """Return the cookies of a browser that has signed in."""
    visit = Visit(app)
    visit.get("/login", base_url=url)
    answer = visit.post("/login", {"username": "admin", "password": PASSWORD}, base_url=url)
    assert answer.status_code == 303
    return dict(
        header.partition(";")[0].split("=", 1) for header in answer.headers.getlist("Set-Cookie")
    )


def test_who_signs_in_at_a_second_console_stays_signed_in_at_the_first(
    database: Database, clock: Clock
) -> None:
    consoles = {
        f"http://localhost:{port}": make_app(database, clock, secret=f"the secret of {port} " * 3)
        for port in (8080, 8081)
    }
    cookies: dict[str, str] = {}

    for url, app in consoles.items():
        cookies |= sign_in(app, url)

    sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    for url, app in consoles.items():
        browser = app.test_client(use_cookies=False)
        assert browser.get("/account", base_url=url, headers=sent).status_code == 200

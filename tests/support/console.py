"""A console without a server: an application on a database, and browsers that use it."""

import re
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from werkzeug.test import TestResponse

from admin_web.app import create_app
from admin_web.parts import Parts
from scheduler.user_commands import UserCommands
from sql.engine import Database
from sql.models import Model
from sql.users import Role

PASSWORD = "correct horse battery"
SECRET = "console-secret-of-the-tests-0123456789"
METRICS_TOKEN = "metrics-token-of-the-tests"


class Clock:
    """The database's clock, moved by hand."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


def make_app(database: Database, clock: Clock, **parts: Any) -> Flask:
    """Return a console; `parts` replace those of its parts."""
    given = {
        "database": database,
        "now_ms": clock.now_ms,
        "timezone": "UTC",
        "secret": SECRET,
        "is_broker_up": lambda: True,
        "metrics_token": METRICS_TOKEN,
    }
    return create_app(Parts(**given | parts))


def add_user(database: Database, name: str, role: Role, *apps: str, glue: bool = False) -> None:
    """Make a user with PASSWORD."""
    UserCommands(database, who="cli:tests").add(
        name, PASSWORD, role=role, app_names=apps, may_edit_glue=glue
    )


def snapshot(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, to be compared or searched."""
    return database.read(
        lambda session: {
            table.name: [tuple(row) for row in session.execute(select(table))]
            for table in Model.metadata.sorted_tables
        }
    )


class Visit:
    """A browser: keeps cookies, and sends the token of the page it saw last."""

    def __init__(self, app: Flask, address: str = "127.0.0.1") -> None:
        self.client: FlaskClient = app.test_client()
        self._environ = {"REMOTE_ADDR": address}
        self.token = ""

    def get(self, path: str, **options: Any) -> TestResponse:
        """Open a page."""
        answer = self.client.get(path, environ_base=self._environ, **options)
        self._learn(answer)
        return answer

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> TestResponse:
        """Send a form with its token."""
        form = {"csrf_token": self.token} | (data or {})
        answer = self.client.post(path, data=form, environ_base=self._environ, **options)
        self._learn(answer)
        return answer

    def sign_in(self, name: str, password: str = PASSWORD, path: str = "/login") -> TestResponse:
        """Sign in through the form; afterwards the new session's token is known."""
        self.get("/login")
        answer = self.post(path, {"username": name, "password": password})
        if answer.status_code == 303:
            self.get("/account")
        return answer

    def cookie(self, name: str = "warren") -> str:
        """Return a cookie's value."""
        found = self.client.get_cookie(name)
        assert found is not None
        return found.value

    def _learn(self, answer: TestResponse) -> None:
        if found := re.search(r'name="csrf_token" value="([^"]+)"', answer.text):
            self.token = found[1]


def signed_in(app: Flask, name: str) -> Visit:
    """Return a browser in which somebody has signed in."""
    visit = Visit(app)
    assert visit.sign_in(name).status_code == 303
    return visit

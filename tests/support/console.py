"""The console without a server: an application on a database, and browsers that use it."""

import re
from typing import Any
from unittest.mock import patch

from flask import Flask
from flask.testing import FlaskClient
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from sqlalchemy import select
from werkzeug.routing import Map, RuleFactory
from werkzeug.test import TestResponse

from tests.support.acting import NamedUsers
from warren.admin_web.app import create_app
from warren.admin_web.services import ConsoleServices
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.models import Model

PASSWORD = "correct horse battery"
SECRET = "console-secret-of-the-tests-0123456789"
METRICS_TOKEN = "metrics-token-of-the-tests"


class _CompiledTemplates(BytecodeCache):
    """What templates were compiled to, for all apps of this process: compiling takes most of a
    page's time, and each test has an app of its own."""

    def __init__(self) -> None:
        self._by_key: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if known := self._by_key.get(bucket.key):
            bucket.bytecode_from_string(known)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._by_key[bucket.key] = bucket.bytecode_to_string()


class _CompiledRoutes(Map):
    """The routes of all consoles of this process, which are the same: compiling them takes longer
    than the rest of making an app."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[tuple[object, ...]] = set()

    def add(self, rulefactory: RuleFactory) -> None:
        for rule in rulefactory.get_rules(self):
            key = (rule.rule, rule.endpoint, frozenset(rule.methods or ()))
            if key not in self._known:
                self._known.add(key)
                super().add(rule)


_COMPILED = _CompiledTemplates()
_ROUTES = _CompiledRoutes()


def _the_routes(*, host_matching: bool) -> Map:
    assert not host_matching
    return _ROUTES


class Clock:
    """The database's clock, set by hand."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


def make_services(database: Database, clock: Clock, **parts: Any) -> ConsoleServices:
    """Return the services of a console; `parts` replace the default ones."""
    given = {
        "database": database,
        "now_ms": clock.now_ms,
        "cluster_zone": lambda: "UTC",
        "secret": SECRET,
        "is_broker_up": lambda: True,
        "metrics_token": METRICS_TOKEN,
        "test_wait_seconds": 0.0,
    }
    return ConsoleServices(**given | parts)


def make_app(database: Database, clock: Clock, **parts: Any) -> Flask:
    """Return a console; `parts` replace the default services."""
    with patch.object(Flask, "url_map_class", staticmethod(_the_routes)):
        app = create_app(make_services(database, clock, **parts))
    app.jinja_env.bytecode_cache = _COMPILED
    return app


def add_user(database: Database, name: str, role: Role, *apps: str, glue: bool = False) -> None:
    """Create a user with PASSWORD."""
    NamedUsers(database, who="cli:tests").add(
        name, PASSWORD, role=role, app_names=apps, may_edit_glue=glue
    )


def snapshot(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, for comparing or searching."""
    return database.read(
        lambda session: {
            table.name: [tuple(row) for row in session.execute(select(table))]
            for table in Model.metadata.sorted_tables
        }
    )


class Visit:
    """A browser: keeps cookies, and sends the form token of the last page."""

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
        """Submit a form with its token."""
        form = {"csrf_token": self.token} | (data or {})
        answer = self.client.post(path, data=form, environ_base=self._environ, **options)
        self._learn(answer)
        return answer

    def sign_in(self, name: str, password: str = PASSWORD, path: str = "/login") -> TestResponse:
        """Sign in with the form, and store the new session's form token."""
        self.get("/login")
        answer = self.post(path, {"username": name, "password": password})
        if answer.status_code == 303:
            self.get("/nothing")  # every page has the new token; this one is the fastest
        return answer

    def cookie(self, name: str = "warren") -> str:
        """Return a cookie's value."""
        found = self.client.get_cookie(name)
        assert found is not None
        return found.value

    def _learn(self, answer: TestResponse) -> None:
        if found := re.search(r'<meta name="csrf-token" content="([^"]+)"', answer.text):
            self.token = found[1]
        answer.close()  # it has been read to its end


def signed_in(app: Flask, name: str) -> Visit:
    """Return a browser in which this user has signed in."""
    visit = Visit(app)
    assert visit.sign_in(name).status_code == 303
    return visit


def once_of(page: str) -> str:
    """Return the key that tells a page's first form with such a key from its copies."""
    found = re.search(r'name="once" value="([^"]+)"', page)
    assert found, page
    return found[1]

"""A database with two apps and a user of each role, and a console on it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, add_user, make_app, signed_in
from tests.support.schemas import SQLiteSchema
from tests.support.stored_rows import Rows
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.registry import apps

#: Somebody of each kind. All have the app `reports`, but for `stranger`, who has `mails`.
USERS = {
    "admin": (Role.ADMINISTRATOR, (), False),
    "operator": (Role.OPERATOR, ("reports",), False),
    "scripter": (Role.OPERATOR, ("reports",), True),
    "stranger": (Role.OPERATOR, ("mails",), False),
    "viewer": (Role.VIEWER, ("reports",), False),
}


@pytest.fixture(scope="session")
def _filled(sqlite_schema: SQLiteSchema, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("console") / "filled.db"
    database = Database(sqlite_schema.copy(path))
    for app in ("reports", "mails"):
        database.write(lambda session, name=app: apps.ensure(session, name))
    for name, (role, app_names, glue) in USERS.items():
        add_user(database, name, role, *app_names, glue=glue)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


@pytest.fixture
def database(_filled: Path, tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "console.db"
    shutil.copy(_filled, path)
    database = Database(f"sqlite:///{path}")
    yield database
    database.close()


@pytest.fixture
def rows(database: Database) -> Iterator[Rows]:
    rows = Rows(database.url.render_as_string(hide_password=False))
    yield rows
    rows.database.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(database: Database, clock: Clock) -> Flask:
    return make_app(database, clock)


@pytest.fixture
def visit(app: Flask) -> Visit:
    """A browser in which nobody has signed in."""
    return Visit(app)


@pytest.fixture
def admin(app: Flask) -> Visit:
    """A browser in which the administrator has signed in."""
    return signed_in(app, "admin")

"""The API on the console's database: two apps, a user of each role, jobs in both."""

from typing import Any

import pytest
from flask import Flask

from tests.support.api import Program, make_api, make_token
from tests.support.console import Clock
from warren.sql.engine import Database


@pytest.fixture
def api(database: Database, clock: Clock) -> Flask:
    return make_api(database, clock)


@pytest.fixture
def program(api: Flask, database: Database, clock: Clock) -> Any:
    """Make a program with a token of somebody."""

    def make(owner: str = "admin", **token: Any) -> Program:
        return Program(api, make_token(database, clock, owner, **token))

    return make


@pytest.fixture
def admin(program: Any) -> Program:
    made: Program = program()
    return made

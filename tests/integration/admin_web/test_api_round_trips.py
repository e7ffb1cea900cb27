"""How often the API asks MariaDB for one call: what each call costs most."""

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from scheduler.commands.tokens.scopes import Scope
from sql.accounts.users import Role
from sql.engine import Database
from tests.support.api import Program, make_api, make_token
from tests.support.console import Clock, add_user
from tests.support.stored_rows import Rows


@pytest.fixture
def program(mariadb_schema_url: str) -> Iterator[Program]:
    clock = Clock()
    rows = Rows(mariadb_schema_url)
    rows.job("nightly")
    rows.database.close()
    database = Database(mariadb_schema_url)
    add_user(database, "deploy", Role.OPERATOR, "reports")
    token = make_token(database, clock, "deploy", scopes=[Scope.READ, Scope.TRIGGER])
    yield Program(make_api(database, clock), token)
    database.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    sent: list[str] = []
    send = pymysql.connections.Connection._execute_command

    def note(self: Any, command: int, words: Any) -> None:
        # Not whether a connection still lives, nor how one is set up.
        text = words.decode() if isinstance(words, bytes) else words
        if text and not text.startswith("SET "):
            sent.append(text.split()[0])
        send(self, command, words)

    monkeypatch.setattr(pymysql.connections.Connection, "_execute_command", note)
    return sent


def test_a_run_is_read_with_three_questions_and_no_transaction(
    program: Program, sent: list[str]
) -> None:
    path = f"/runs/{program.post('/jobs/reports/nightly/runs').get_json()['id']}"
    program.get(path)
    sent.clear()

    assert program.get(path).status_code == 200

    assert sent == ["SELECT"] * 3


def test_a_trigger_is_one_transaction_and_four_questions_besides(
    program: Program, sent: list[str]
) -> None:
    path = "/jobs/reports/nightly/runs"
    for _ in range(2):  # Connections stand then, and there are ids for the next few runs.
        program.post(path)
    sent.clear()

    assert program.post(path).status_code == 202

    assert sent == [*["SELECT"] * 3, "INSERT", "SELECT", "INSERT", "COMMIT", *["SELECT"] * 2]

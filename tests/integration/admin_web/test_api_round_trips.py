"""How often the API asks the database for one call: what each call costs most."""

from collections.abc import Iterator

import pytest
from sqlalchemy import ClauseElement, Engine, event

from tests.support.api import Program, make_api, make_token
from tests.support.console import Clock, add_user
from tests.support.sent_statements import sent_statements
from tests.support.server_words import ON_POSTGRESQL
from tests.support.stored_rows import Rows
from warren.resources.operation import Scope
from warren.sql.accounts.users import Role
from warren.sql.engine import Database

TRIGGER = "/jobs/reports/nightly/runs"


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
def run_id(mariadb_schema_url: str, program: Program) -> int:
    """Return a run that is over."""
    rows = Rows(mariadb_schema_url)
    run_id = int(program.post(TRIGGER).get_json()["id"])
    rows.set_run(run_id, status="SUCCEEDED")
    rows.database.close()
    return run_id


def verbs(sent: list[str]) -> list[str]:
    """Return what was asked for, but for the set-up of connections."""
    return [text.split()[0] for text in sent if text and not text.startswith("SET ")]


def test_a_run_is_read_with_three_questions_and_no_transaction(
    program: Program, run_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.get(f"/runs/{run_id}")
    sent = sent_statements(monkeypatch)

    assert program.get(f"/runs/{run_id}").status_code == 200

    assert verbs(sent) == ["SELECT"] * 3


def test_the_first_attempt_of_a_job_is_read_without_looking_for_others_of_its_tick(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/runs/{program.post(TRIGGER).get_json()['id']}"
    program.get(path)
    sent = sent_statements(monkeypatch)

    assert program.get(path).status_code == 200

    assert verbs(sent) == ["SELECT"] * 2


def test_a_trigger_is_one_transaction_and_three_questions_besides(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # Connections stand then, and there are ids for the next few runs.
        program.post(TRIGGER)
    sent = sent_statements(monkeypatch)

    assert program.post(TRIGGER).status_code == 202

    asked = [verb for verb in verbs(sent) if verb != "BEGIN"]  # MariaDB begins by itself
    assert asked == [*["SELECT"] * 3, "INSERT", "INSERT", "COMMIT", "SELECT"]
    assert len(verbs(sent)) - len(asked) == ON_POSTGRESQL


def test_a_trigger_and_a_read_send_only_statements_that_were_built_before(
    program: Program, run_id: int
) -> None:
    def call() -> None:
        program.post(TRIGGER)
        program.get(f"/runs/{run_id}")

    call()
    sent: list[ClauseElement] = []
    note = lambda _connection, statement, *_more: sent.append(statement)  # noqa: E731 - removed below
    event.listen(Engine, "before_execute", note)

    call()
    first, sent[:] = list(sent), []
    call()

    event.remove(Engine, "before_execute", note)
    assert len(sent) == len(first) >= 6
    assert [str(new) for old, new in zip(first, sent, strict=True) if new is not old] == []

"""Databases differ in one folder only, behind an interface that says what a port must provide."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.dialects.oracle.base import OracleDialect
from sqlalchemy.orm import Session

from tests.support import architecture
from tests.support.dialect_branches import dialect_branches
from warren.sql.clock import database_now_ms
from warren.sql.dialects.dialect import Dialect
from warren.sql.dialects.supported import LAZY, PRIMARY_KEY, SUPPORTED, named, of, use_index
from warren.sql.dialects.url_forms import FORMS
from warren.sql.models import Run

ROOT = Path(__file__).parents[4]
HOME = "sql.dialects"
PACKAGES = ["sql", "scheduler", "admin_web", "executor", "broker", "warren"]

pytest.importorskip("psycopg", reason="psycopg is not installed: make lint")

#: All databases; those whose driver is an extra are loaded when they are used.
DIALECTS = (*SUPPORTED, *(make() for make in LAZY.values()))

#: What a port to any other database has to provide.
PORT = {
    "name": "SQLAlchemy's name of it",
    "url_form": "what its URLs look like",
    "is_embedded": "whether it is a file that this process opens",
    "now_ms": "its clock",
    "random_id": "an id that no other database has",
    "indexes": "how its indexes are read",
    "long_text": "its type for 16 MB of text",
    "auto_id": "its type for an id that counts up",
    "table_options": "options of every table",
    "lasting_id_options": "options that keep deleted ids from coming again",
    "after_upgrade": "what tables need here only",
    "server_facts": "what a server says of itself: its name, whether it takes writes",
    "server_number": "what tells one server from another",
    "make_engine": "connections: pool, time limits, isolation, how a write begins",
    "version_problem": "the oldest server that will do",
    "is_retryable": "errors after which the same work may succeed",
    "is_loss": "errors of a server that is gone",
    "is_unavailable": "errors that are the database's and not the statement's",
    "is_schema_fault": "errors about a table or column that is missing",
    "index_hint": "how a statement is made to use an index",
    "nul": "what a text has in place of NUL",
    "lower": "lower case in all scripts",
    "replace_all": "a regular expression that replaces",
    "byte_length": "how many bytes a text has",
    "sum_of": "a sum that is a whole number",
    "insert_or_ignore": "INSERT unless there",
    "insert_or_add": "INSERT or add to what is there",
    "insert_rows": "INSERT of many rows unless there",
    "replace_rows": "INSERT or UPDATE of many rows",
    "is_id_taken": "whether another row has the primary key",
    "update_rows": "UPDATE of many rows, each with values of its own",
    "update_alike": "UPDATE of many rows to the same values",
    "lock_rows": "SELECT of many rows that locks them",
    "skip_given_ids": "ids that follow those that rows brought with them",
    "places": "how the driver marks the places of values",
    "bind_rows": "how many rows of values are given to the driver",
    "jumps_to_groups": "how the least value of each group is found",
    "as_filter": "a condition that no index serves",
    "lock_upgrade": "a lock between two upgrades of the schema",
    "grants": "the rights of an account",
}

#: Who knows one database from another all the same, and why.
ALLOWED = {
    "admin_web.api.application: says 'sqlite:////dev/null'": "the API is described without one",
    "warren.settings.home: says 'sqlite:///'": "the database of `warren up`",
    "warren.settings.settings: says 'sqlite:///'": "likewise",
    "warren.importing.celery_beat: imports sqlite3": "Django's database, not Warren's",
    "warren.importing.celery_beat: says 'sqlite:///'": "likewise",
}


def public(kind: type[Any]) -> set[str]:
    ours = [one for one in kind.__mro__ if one.__module__.startswith("warren.")]
    names = {name for one in ours for name in (*vars(one), *inspect.get_annotations(one))}
    return {name for name in names if name[0] != "_"}


def test_the_interface_tells_what_a_port_has_to_provide() -> None:
    assert public(Dialect) == set(PORT)


def test_the_forms_of_urls_are_those_of_the_dialects() -> None:
    assert {dialect.url_form.scheme for dialect in DIALECTS} == {form.scheme for form in FORMS}


def test_a_dialect_that_is_loaded_late_has_nothing_that_all_statements_would_need() -> None:
    for dialect in (make() for make in LAZY.values()):
        assert dialect.index_hint(PRIMARY_KEY) is dialect.long_text is dialect.auto_id is None
        assert not dialect.table_options
        assert not dialect.lasting_id_options


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: str(dialect.name))
def test_a_dialect_provides_the_interface_and_nothing_beside_it(dialect: Dialect) -> None:
    assert public(type(dialect)) == set(PORT)


def test_nobody_outside_the_dialects_knows_one_database_from_another_but_who_is_listed() -> None:
    code = architecture.read_packages(ROOT, PACKAGES)

    found = dialect_branches(code, HOME)

    assert f"{HOME}.mysql" in code
    assert {re.sub(r":\d+:", ":", problem) for problem in found} == set(ALLOWED), found


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("if session.get_bind().dialect.name == name: pass", "asks for session.get_bind()"),
        ("x = 1 if url.get_backend_name() == name else 2", "asks for url.get_backend_name"),
        ("if connection.dialect.is_mariadb: pass", "asks for connection.dialect.is_mariadb"),
        ("if kind == 'sqlite': pass", "says 'sqlite'"),
        ("query.with_hint(Run, words, 'mysql')", "says 'mysql'"),
        ("options = {'mysql_engine': 'InnoDB'}", "says 'mysql_engine'"),
        ("from sqlalchemy.dialects import postgresql", "imports sqlalchemy.dialects"),
        ("import sqlite3", "imports sqlite3"),
    ],
)
def test_a_branch_by_the_kind_of_database_is_named(source: str, problem: str) -> None:
    code = architecture.parse({"sql.runs.x": (source, False), "sql.dialects.x": (source, False)})

    (found,) = dialect_branches(code, HOME)

    assert found.startswith(f"sql.runs.x:1: {problem}")


def test_who_chooses_a_dialect_by_name_or_writes_of_one_is_no_branch() -> None:
    source = '"""SQLite and MySQL."""\nnamed(op.get_context().dialect.name).random_id\n'

    assert dialect_branches(architecture.parse({"sql.x": (source, False)}), HOME) == []


def test_an_unknown_database_is_refused_by_name_and_gets_nobody_elses_sql() -> None:
    with pytest.raises(ValueError, match="expected a database of") as caught:
        named("oracle")

    assert str(caught.value) == "expected a database of mysql, postgresql, sqlite, got: oracle"


def test_a_session_on_an_unknown_database_sends_nothing() -> None:
    engine = create_engine("sqlite://")
    engine.dialect = OracleDialect()  # type: ignore[assignment]

    with Session(engine) as session, pytest.raises(ValueError, match="got: oracle"):
        database_now_ms(session)


def test_a_session_has_the_dialect_of_its_engine() -> None:
    with Session(create_engine("sqlite://")) as session:
        assert of(session) is named("sqlite")


def test_a_hint_reaches_the_database_that_takes_it_and_no_other() -> None:
    by_key = use_index(select(Run.id), Run, PRIMARY_KEY)
    by_index = use_index(select(Run.id), Run, "i_tick")

    assert str(by_key.compile(dialect=mysql.dialect())).endswith("FORCE INDEX (PRIMARY)")
    assert str(by_index.compile(dialect=mysql.dialect())).endswith("FORCE INDEX (i_tick)")
    assert "INDEX" not in str(by_key.compile(dialect=sqlite.dialect()))

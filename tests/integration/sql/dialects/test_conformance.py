"""What every database has to do alike; a new dialect passes these tests before anything else."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import ColumnElement, bindparam, delete, func, insert, literal, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from tests.support import sql_rows
from tests.support.sql_rows import NOW_MS, add_job, new_run, plan, planned_in
from warren.sql.batch import (
    ALREADY_LOCKED,
    Guard,
    insert_or_ignore,
    insert_or_replace,
    lock_rows,
    update_alike,
    update_each,
)
from warren.sql.clock import database_now_ms
from warren.sql.dialects.dialect import Dialect, Locking, UpdateRule, is_schema_fault
from warren.sql.dialects.supported import of
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.imports import origins
from warren.sql.imports.origins import APP, JOB, Origin
from warren.sql.instants import at
from warren.sql.models import App, DayReport, Job, MetricCount, RouteMemory, Run
from warren.sql.registry import apps
from warren.sql.rows import contains
from warren.sql.run_status import RunStatus
from warren.sql.runs.run_rows import TickRun

HOSTILE = [
    "",
    "plain",
    "quotes ' \" ` and \\ backslash \\' end",
    "per cent %s %(x)s %% and ? :name {}",
    "line\nfeed\r\ttab \x00 NUL \x00",
    "ключ 鍵 🔑 \U0010ffff",
]


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    """The test runs once on each database."""
    database: Database = request.getfixturevalue(f"{request.param}_database")
    return database


Write = Callable[[Database, list[int], list[str]], None]


def insert_by_orm(database: Database, run_ids: list[int], words: list[str]) -> None:
    database.write(lambda session: session.execute(delete(Run)))
    rows = [_row(run_id, message) for run_id, message in zip(run_ids, words, strict=True)]
    database.write(lambda session: session.execute(insert(Run), rows))


def insert_rows(database: Database, run_ids: list[int], words: list[str]) -> None:
    database.write(lambda session: session.execute(delete(Run)))
    rows = [_row(run_id, message) for run_id, message in zip(run_ids, words, strict=True)]
    database.write(lambda session: insert_or_ignore(session, Run, rows))


def update_rows(database: Database, run_ids: list[int], words: list[str]) -> None:
    rows = [{"id": run_id, "message": one} for run_id, one in zip(run_ids, words, strict=True)]
    database.write(lambda session: update_each(session, Run, rows, guard=ALREADY_LOCKED))


def update_rows_alike(database: Database, run_ids: list[int], words: list[str]) -> None:
    for run_id, message in zip(run_ids, words, strict=True):
        values = {"message": message}
        database.write(
            lambda s, i=run_id, v=values: update_alike(s, Run, [i], v, guard=ALREADY_LOCKED)
        )


def _row(run_id: int, message: str) -> dict[str, Any]:
    facts = {"app_id": 1, "job_id": run_id, "status": "PLANNED", "kind": "MANUAL"}
    times = {"scheduled_at": NOW_MS, "due_at": NOW_MS}
    zeros = ("retries_left", "trigger_code", "handle_code", "alarm_status", "origin_id")
    more = ("shard_index", "shard_total", "attempt", "starts", "redeliveries")
    return {"id": run_id, "message": message, **facts, **times, **dict.fromkeys(zeros + more, 0)}


@pytest.mark.parametrize("write", [insert_by_orm, insert_rows, update_rows, update_rows_alike])
def test_a_text_comes_back_as_it_went_in(database: Database, write: Write) -> None:
    run_ids = planned_in(database, RunStatus.PLANNED, len(HOSTILE))

    write(database, run_ids, HOSTILE)

    kept = [words.replace("\0", database.dialect.nul) for words in HOSTILE]
    assert [row.message for row in sql_rows.all_runs(database)] == kept


def test_texts_are_equal_and_ordered_by_code_point(database: Database) -> None:
    names = ["B", "a", "ae", "á", "b", "ß", "ä", "Ж", "ж", "漢", "🔑"]
    for name in names:
        add_job(database, name)

    found = database.read(lambda s: list(s.execute(select(Job.name).order_by(Job.name)).scalars()))
    alone = [_value(database, func.count(Job.id), Job.name == name) for name in names]

    assert found == sorted(names)
    assert alone == [1] * len(names)


@pytest.mark.parametrize("part", ["Über", "über", "ÜBER"])
def test_parts_of_texts_are_found_in_any_case(database: Database, part: str) -> None:
    names = ("Überweisung", "ÜBERSICHT", "übertrag", "Uber", "Überfall \\%_", "жук")
    ids = [add_job(database, name) for name in names]

    def find(session: Session, words: str) -> list[int]:
        found = select(Job.id).where(contains(session, Job.name, words)).order_by(Job.id)
        return list(session.execute(found).scalars())

    assert database.read(lambda s: find(s, part)) == [*ids[:3], ids[4]]
    assert database.read(lambda s: find(s, "L \\%_")) == [ids[4]]
    assert database.read(lambda s: find(s, "ЖУ")) == [ids[5]]
    assert database.read(lambda s: find(s, "\0")) == []


def test_the_functions_of_texts_do_the_same_everywhere(database: Database) -> None:
    plan(database, new_run(param="ID 17, Then 4: 漢字Ö"))
    dialect, words = database.dialect, func.coalesce(Run.param, "")

    assert _value(database, dialect.replace_all(words, "[0-9]+", "N")) == "ID N, Then N: 漢字Ö"
    assert _value(database, dialect.replace_all(_nothing(), "[0-9]+", "N")) is None
    assert _value(database, dialect.lower(words)) == "id 17, then 4: 漢字ö"
    assert _value(database, dialect.byte_length(Run.param)) == 23
    assert _value(database, dialect.byte_length(Run.log_tail)) == 0


def test_sums_are_whole_numbers(database: Database) -> None:
    run_ids = planned_in(database, RunStatus.PLANNED, 2, retries_left=3)
    sql_rows.put(database, run_ids, due_at=2**52 + 1)
    dialect = database.dialect

    sums = [
        _value(database, dialect.sum_of(Run.retries_left)),
        _value(database, dialect.sum_of(Run.due_at)),
        _value(database, dialect.sum_of(Run.rerun_of)),
        _value(database, dialect.sum_of(Run.due_at), Run.id == 0),
    ]

    assert sums == [6, 2**53 + 2, 0, 0]
    assert {type(one) for one in sums} == {int}


def test_instants_are_the_same_whoever_writes_them(database: Database) -> None:
    days = [datetime(2026, 11, day) for day in (1, 2, 3)]  # noqa: DTZ001 - columns are naive
    rows: list[dict[str, Any]] = [
        {"day": day, "running": 0, "succeeded": 0, "failed": 0, "skipped": 0} for day in days
    ]
    for row in rows:
        row |= {"cleared_succeeded": 0, "cleared_failed": 0, "cleared_skipped": 0}
        row["update_time"] = None

    database.write(lambda session: session.execute(insert(DayReport), rows[:1]))
    database.write(lambda session: insert_or_ignore(session, DayReport, rows))
    ids = database.read(lambda s: list(s.execute(select(DayReport.id)).scalars()))
    now = at(NOW_MS)
    changed = [{"id": ids[0], "update_time": now}, {"id": ids[1], "update_time": None}]
    database.write(lambda s: update_each(s, DayReport, changed, guard=ALREADY_LOCKED))
    values = {"update_time": now}
    database.write(lambda s: update_alike(s, DayReport, ids[2:], values, guard=ALREADY_LOCKED))

    columns = select(DayReport.day, DayReport.update_time).order_by(DayReport.day)
    found = database.read(lambda session: [tuple(row) for row in session.execute(columns)])
    assert found == [(days[0], now), (days[1], None), (days[2], now)]
    is_now = DayReport.update_time == now
    assert _value(database, func.count(DayReport.id), is_now) == 2


def test_the_clock_is_of_the_database_and_in_milliseconds(database: Database) -> None:
    first = database.read(database_now_ms)

    assert NOW_MS - 10**11 < first <= database.read(database_now_ms)


def test_two_random_ids_differ(database: Database) -> None:
    select_id = text(f"SELECT {database.dialect.random_id}")

    ids = [database.read(lambda s: s.execute(select_id).scalar_one()) for _ in range(2)]

    assert ids[0] != ids[1]
    assert all(len(one) >= 32 for one in ids)


def test_ids_that_an_import_gives_are_never_given_again(database: Database) -> None:
    def bring(session: Session) -> None:
        session.add_all([App(id=40, name="old", title="old"), Job(id=500, app_id=40, name="old")])
        session.flush()
        for kind, given in ((APP, 40), (JOB, 500)):
            origins.write(session, "there", kind, [Origin(given, given, "", "")], now_ms=1)

    database.write(bring)

    app_id, _ = database.write(lambda session: apps.ensure(session, "new"))
    assert app_id > 40
    assert add_job(database, "new") > 500


def test_a_row_that_exists_is_kept_replaced_or_added_to(database: Database) -> None:
    key = {"name": "n", "app_id": 1, "label": "l"}
    dialect = database.dialect
    kept = dialect.insert_or_ignore(App, App.name)
    added = dialect.insert_or_add(MetricCount, MetricCount.count)

    database.write(lambda s: s.execute(kept, [{"name": "a", "title": "1"}]))
    database.write(lambda s: s.execute(kept, [{"name": "a", "title": "2"}]))
    assert _value(database, App.title, App.name == "a") == "1"
    for memories in ({1: "a", 2: "b"}, {2: "c", 3: "d"}):
        rows = [{"job_id": job_id, "memory": memory} for job_id, memory in memories.items()]
        database.write(lambda s, it=rows: insert_or_replace(s, RouteMemory, it, key="job_id"))  # type: ignore[misc]
    stored = select(RouteMemory.memory).order_by(RouteMemory.job_id)
    assert database.read(lambda s: s.execute(stored).scalars().all()) == ["a", "c", "d"]
    for _ in range(2):
        database.write(lambda s: s.execute(added, [key | {"count": 5}]))
    assert _value(database, MetricCount.count) == 10


def test_rows_are_found_by_key_and_counted_though_they_do_not_change(database: Database) -> None:
    run_ids = planned_in(database, RunStatus.PLANNED, 4)
    [job_id] = {row.job_id for row in sql_rows.all_runs(database)}
    sql_rows.put(database, run_ids[:1], status=RunStatus.SENT)
    own = [{"id": run_id, "job_id": job_id, "address": "a"} for run_id in run_ids]
    own[3]["job_id"] = job_id + 1
    rule = UpdateRule(sets={"handle_code": "7"}, matched=["job_id"])
    guard = Guard("status = {}", ["PLANNED"])

    counts = [
        database.write(lambda s: update_each(s, Run, own, guard=guard, rule=rule)),
        database.write(lambda s: update_each(s, Run, own, guard=guard, rule=rule)),
        database.write(lambda s: update_alike(s, Run, run_ids, {"address": "a"}, guard=guard)),
    ]

    assert counts == [2, 2, 3]
    assert [row.handle_code for row in sql_rows.all_runs(database)] == [0, 7, 7, 0]


@pytest.mark.parametrize("values", [[None, 2**53], [2**53, None], [None, None], [-1, 2**40]])
def test_null_and_large_numbers_mix(database: Database, values: list[int | None]) -> None:
    run_ids = planned_in(database, RunStatus.PLANNED, 2)
    rows = [{"id": run_id, "sent_at": one} for run_id, one in zip(run_ids, values, strict=True)]

    database.write(lambda session: update_each(session, Run, rows, guard=ALREADY_LOCKED))

    assert [row.sent_at for row in sql_rows.all_runs(database)] == values


def test_locked_rows_are_those_of_the_guard_in_order(database: Database) -> None:
    run_ids = planned_in(database, RunStatus.PLANNED, 3)
    sql_rows.put(database, run_ids[:1], status=RunStatus.SENT)
    how = Locking(guard="status = 'PLANNED'", order="due_at DESC", skips=True)

    locked = database.write(lambda session: lock_rows(session, TickRun, Run, run_ids, how))

    assert [row.id for row in locked] == [run_ids[2], run_ids[1]]


def test_a_value_that_does_not_fit_a_unique_key_says_so(database: Database) -> None:
    add_job(database, "same")

    with pytest.raises(IntegrityError):
        add_job(database, "same")


@pytest.mark.parametrize("wrong", ["SELECT id FROM missing", "SELECT missing FROM xxl_job_info"])
def test_what_is_missing_in_the_schema_is_told_from_other_faults(
    database: Database, wrong: str
) -> None:
    with pytest.raises((DBAPIError, DatabaseUnavailable)) as missing:
        database.read(lambda session: session.execute(text(wrong)))
    with pytest.raises((DBAPIError, DatabaseUnavailable)) as other:
        database.read(lambda session: session.execute(text("SELEKT 1")))

    assert is_schema_fault(missing.value, database.dialect)
    assert not is_schema_fault(other.value, database.dialect)


def test_a_unit_of_work_that_fails_leaves_nothing(database: Database) -> None:
    def fail(session: Session) -> None:
        session.execute(insert(App), [{"name": "gone", "title": "gone"}])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.write(fail)

    assert _value(database, func.count(App.id), App.name == "gone") == 0


def test_the_server_is_one_that_will_do_and_can_be_upgraded(database: Database) -> None:
    def ask(session: Session) -> tuple[str | None, bool]:
        connection, dialect = session.connection(), of(session)
        return dialect.version_problem(connection.dialect), dialect.lock_upgrade(connection, 1)

    assert database.write(ask) == (None, True)
    assert _of_url(database) is database.dialect


def _of_url(database: Database) -> Dialect:
    assert database.dialect.url_form.scheme == database.url.drivername
    return database.read(of)


def _nothing() -> ColumnElement[str]:
    return func.nullif(literal("x"), bindparam("same", "x"))


def _value(database: Database, column: Any, *conditions: Any) -> Any:
    query = select(column).where(*conditions)
    return database.read(lambda session: session.execute(query).scalar_one())

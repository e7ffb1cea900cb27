"""Texts come back as they went in, and names differ by case, in both databases alike."""

from dataclasses import replace

import pytest
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

from tests.support import sql_rows
from tests.support.sql_rows import NODE, NOW_MS, add_job, ended, new_run, plan, planned_in, routed
from warren.sql.engine import Database
from warren.sql.errors import NotFound
from warren.sql.jobs import history, job_names
from warren.sql.models import Job, Run
from warren.sql.registry import apps, presence
from warren.sql.registry.presence import Beat
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions

TEXTS = ["", "ñ 漢字 🎉🎉", "NUL \x00 inside", 'it\'s \\ "quoted"', "a\r\nb\tc", "100 % %s"]


def kept(database: Database) -> list[str]:
    """Return the texts as they come back: a database may have no NUL."""
    return [words.replace("\0", database.dialect.nul) for words in TEXTS]


def test_a_param_comes_back_as_it_went_in(database: Database) -> None:
    new = [new_run(job_id=number, param=param) for number, param in enumerate(TEXTS)]

    plan(database, *new)

    assert [row.param for row in sql_rows.all_runs(database)] == kept(database)


def test_a_result_comes_back_as_it_went_in(database: Database) -> None:
    run_ids = planned_in(database, RunStatus.RUNNING, len(TEXTS))
    ends = [
        ended(run_id, message=words, log_tail=words)
        for run_id, words in zip(run_ids, TEXTS, strict=True)
    ]

    database.write(lambda session: transitions.end(session, ends))

    rows = sql_rows.all_runs(database)
    assert [(row.message, row.log_tail) for row in rows] == [
        (words, words) for words in kept(database)
    ]


def test_the_longest_messages_are_stored_together(database: Database) -> None:
    run_ids = planned_in(database, RunStatus.RUNNING, 200)
    longest = "🔥" * 50_000
    ends = [ended(run_id, RunStatus.FAILED, message=longest) for run_id in run_ids]

    assert database.write(lambda session: transitions.end(session, ends)) == 200

    assert {row.message for row in sql_rows.all_runs(database)} == {longest}


def test_a_text_that_does_not_fit_is_refused_and_not_cut(mariadb_database: Database) -> None:
    run_ids = planned_in(mariadb_database, RunStatus.PLANNED, 2)
    far = [replace(routed(run_id), address="x" * 256) for run_id in run_ids]

    with pytest.raises(DataError):
        mariadb_database.write(lambda session: transitions.route(session, far, node=NODE, now_ms=1))

    assert sql_rows.statuses(mariadb_database, run_ids) == ["PLANNED", "PLANNED"]


def test_a_log_tail_beyond_64_kilobytes_is_stored_whole(database: Database) -> None:
    [run_id] = planned_in(database, RunStatus.RUNNING)
    tail = "é" * 70_000

    database.write(lambda session: transitions.end(session, [ended(run_id, log_tail=tail)]))

    assert sql_rows.run(database, run_id).log_tail == tail


def test_columns_that_batches_write_hold_more_than_a_message_can_carry() -> None:
    words = {column.name: column.type.compile(mysql.dialect()) for column in Run.__table__.c}

    short = [name for name, kind in words.items() if kind == "TEXT"]

    # MariaDB cuts what a batch writes there; `wanted_addresses` is only ever inserted.
    assert short == ["wanted_addresses"]


def test_an_executor_with_thousands_of_handlers_registers(database: Database) -> None:
    load = "handler-name " * 10_000
    beat = Beat(kind="EXECUTOR", app="demo", address="a", boot_id="b" * 40, beat_at=1, load=load)

    database.write(lambda session: presence.hold(session, beat))

    [row] = database.read(lambda session: presence.listing(session, "EXECUTOR"))
    assert (row.load, row.boot_id) == (load, "b" * 40)


def test_names_differ_by_case(database: Database) -> None:
    ids = database.write(
        lambda session: [apps.ensure(session, name)[0] for name in ("demo", "Demo", "dèmo")]
    )
    add_job(database, "nightly")
    add_job(database, "Nightly")

    assert len(set(ids)) == 3
    found = database.read(lambda session: job_names.find_in_app(session, 1, "Nightly"))
    assert found is not None
    assert found.name == "Nightly"
    assert database.read(lambda session: job_names.find_in_app(session, 1, "NIGHTLY")) is None
    with pytest.raises(NotFound):
        database.read(lambda session: apps.find(session, "DEMO"))


def test_addresses_differ_by_case(database: Database) -> None:
    beats = [
        Beat(kind="EXECUTOR", app="demo", address=address, boot_id=address, beat_at=1)
        for address in ("host", "HOST")
    ]

    holders = database.write(lambda session: [presence.hold(session, beat) for beat in beats])

    assert holders == ["host", "HOST"]


def test_the_longest_name_of_a_person_fits_into_the_history(database: Database) -> None:
    job_id = add_job(database, last_tick_at=5)
    who = "👤" * 64

    def record(session: Session) -> None:
        job = session.get_one(Job, job_id)
        history.record_change(session, job, timezone="UTC", by=who, now_ms=NOW_MS, anchor_ms=0)

    database.write(record)

    [change] = database.read(lambda session: list(history.changes(session)))
    assert change.changed_by == who

"""A database of 0.1.0 is upgraded: its rows stay, and its schema is then that of the models."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from tests.support import first_schema
from tests.support.schemas import differences
from warren.sql.engine import Database
from warren.sql.errors import SchemaMismatch
from warren.sql.models import BoardEvent, JobState, Model, SignIn, User
from warren.sql.schema import migration, version


@pytest.fixture
def database(any_database_url: str) -> Iterator[Database]:
    database = Database(any_database_url)
    yield database
    database.close()


def test_an_upgrade_of_0_1_0_keeps_every_row(database: Database) -> None:
    before = first_schema.seed(database)
    with pytest.raises(SchemaMismatch, match="got: 0001; run: warren db upgrade"):
        version.check(database)

    migration.upgrade(database)

    after = first_schema.rows(database)
    for table in sorted(before.keys() - {"alembic_version"}):
        kept = [{name: row[name] for name in before[table][0]} for row in after[table]]
        assert before[table], f"{table} has no rows, so it shows nothing"
        assert kept == before[table], table
    for mapper in Model.registry.mappers:
        read = database.read(lambda session, it=mapper: session.scalars(select(it)).all())  # type: ignore[misc]
        assert len(read) >= len(before.get(str(mapper.local_table), ())), mapper
    assert database.read(differences) == []


def test_an_upgrade_of_0_1_0_that_was_killed_can_be_made_again(database: Database) -> None:
    """MySQL and MariaDB have committed the steps by then, but not the version."""
    before = first_schema.seed(database)
    migration.upgrade(database)
    database.write(
        lambda session: session.connection().exec_driver_sql(
            "UPDATE alembic_version SET version_num = '0001'"
        )
    )

    migration.upgrade(database)

    assert len(first_schema.rows(database)["xxl_job_log"]) == len(before["xxl_job_log"])
    assert database.read(differences) == []


def test_states_of_jobs_stay_without_a_week_ago(database: Database) -> None:
    first_schema.make(database, "0005_0.2.0")
    state = {column.name: 1 for column in JobState.__table__.columns if column.name != "week_ms"}
    names = ", ".join(state)
    values = ", ".join(str(value) for value in state.values())
    database.write(
        lambda session: session.connection().exec_driver_sql(
            f"INSERT INTO warren_job_state ({names}) VALUES ({values})"
        )
    )

    migration.upgrade(database)

    [kept] = database.read(lambda session: session.scalars(select(JobState)).all())
    assert (kept.usual_ms, kept.strip, kept.week_ms) == (1, "1", 0)
    assert database.read(differences) == []


def test_events_of_the_board_stay_without_an_error(database: Database) -> None:
    first_schema.make(database, "0004_0.2.0")
    event = "INSERT INTO warren_event (kind, app_id, subject, since_at, until_at, runs)"
    database.write(
        lambda session: session.connection().exec_driver_sql(
            f"{event} VALUES ('OUTAGE', 1, 'refused', 1, NULL, 5)"
        )
    )

    migration.upgrade(database)

    [kept] = database.read(lambda session: session.scalars(select(BoardEvent)).all())
    assert (kept.subject, kept.runs, kept.error_key) == ("refused", 5, None)
    assert database.read(differences) == []


def test_users_and_sessions_stay_local(database: Database) -> None:
    first_schema.make(database, "0006_0.2.0")
    rows = {
        "xxl_job_user": {
            "id": 7,
            "username": "olga",
            "password": "hash",
            "role": 0,
            "permission": "3",
            "may_edit_glue": 1,
            "must_change_password": 0,
            "is_disabled": 0,
            "generation": 5,
        },
        "warren_session": {
            "id": 8,
            "token_hash": "hash",
            "user_id": 7,
            "generation": 5,
            "created_at": 1,
            "seen_at": 2,
            "address": "127.0.0.1",
            "agent": "browser",
        },
    }
    for table, row in rows.items():
        values = ", ".join(repr(value) for value in row.values())
        statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})"
        database.write(lambda session, it=statement: session.connection().exec_driver_sql(it))  # type: ignore[misc]

    migration.upgrade(database)

    [user] = database.read(lambda session: session.scalars(select(User)).all())
    [sign_in] = database.read(lambda session: session.scalars(select(SignIn)).all())
    assert (user.name, user.permission, user.generation) == ("olga", "3", 5)
    assert (user.sso_until, user.tokens_until) == (None, None)
    assert (sign_in.seen_at, sign_in.is_sso) == (2, 0)
    assert database.read(differences) == []

"""Migrations make what the models say, at once or in two halves, and `check` finds what is lost."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest
from alembic.script import ScriptDirectory
from pymysql.constants import CLIENT
from sqlalchemy import Engine, event, inspect, text
from sqlalchemy.orm import Session

from tests.support import first_schema
from tests.support.schemas import differences
from tests.support.server_words import ON_POSTGRESQL, only_mysql
from tests.support.sql_rows import new_run, plan, side_by_side
from warren.sql.engine import Database
from warren.sql.epochs import LEFT_OUT, all_epochs
from warren.sql.errors import DatabaseUnavailable, SchemaMismatch
from warren.sql.models import App, Job, ScriptVersion, User
from warren.sql.registry import cluster
from warren.sql.schema import migration
from warren.sql.schema import version as schema


@pytest.fixture
def database(any_database_url: str) -> Iterator[Database]:
    """A schema of its own, to be damaged, on SQLite and on MariaDB."""
    database = Database(any_database_url)
    migration.upgrade(database)
    yield database
    database.close()


@pytest.fixture
def mariadb_database(mariadb_url: str) -> Iterator[Database]:
    database = Database(mariadb_url)
    migration.upgrade(database)
    yield database
    database.close()


def execute(database: Database, *statements: str) -> None:
    def unit(session: Session) -> None:
        for statement in statements:
            session.execute(text(statement))

    database.write(unit)


def tables(database: Database) -> set[str]:
    return database.read(lambda session: {*inspect(session.connection()).get_table_names()})


class Killed(Exception):
    """The process ends here: its transaction is rolled back."""


@contextmanager
def killed_after(statements: int) -> Iterator[None]:
    """Raise Killed once so many statements were executed that write."""
    left = statements

    def count(_connection: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        nonlocal left
        left -= text.split(maxsplit=1)[0] in {"CREATE", "ALTER", "DROP", "INSERT", "UPDATE"}
        if left == 0:
            raise Killed

    event.listen(Engine, "after_cursor_execute", count)
    try:
        yield
    finally:
        event.remove(Engine, "after_cursor_execute", count)


def load(database: Database, script: str) -> None:
    """Run a script as an operator does, with the database's own client."""
    if database.dialect.is_embedded:
        with sqlite3.connect(str(database.url.database)) as connection:
            connection.executescript(script)
        return
    if ON_POSTGRESQL:
        with database.engine.connect() as connection:
            connection.exec_driver_sql(script.replace("%", "%%"))
            connection.commit()
        return
    with pymysql.connect(
        host=database.url.host,
        port=database.url.port or 3306,
        user=database.url.username,
        password=str(database.url.password),
        database=database.url.database,
        client_flag=CLIENT.MULTI_STATEMENTS,
        autocommit=True,
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(script)
        while cursor.nextset():
            pass


class TestUpgrade:
    def test_migrations_and_models_agree(self, database: Database) -> None:
        assert database.read(differences) == []

    def test_what_is_made_next_never_has_the_id_of_what_was_deleted(
        self, database: Database
    ) -> None:
        def make(session: Session) -> list[int]:
            made = [
                App(name="reports", title=""),
                User(name="alice", password="", role=0),
                Job(app_id=1, name="nightly"),
                ScriptVersion(job_id=1, script_type="GLUE_SHELL", source="", remark=""),
            ]
            session.add_all(made)
            session.flush()
            ids = [row.id for row in made]
            for row in made:
                session.delete(row)
            return ids

        first, second = database.write(make), database.write(make)

        assert all(old < new for old, new in zip(first, second, strict=True))

    def test_upgrading_again_changes_nothing(self, database: Database) -> None:
        before = database.read(cluster.cluster_id)

        version = migration.upgrade(database)

        assert version == schema.newest_version()
        assert database.read(cluster.cluster_id) == before
        schema.check(database)

    def test_two_upgrades_at_once_make_one_schema(self, any_database_url: str) -> None:
        databases = [Database(any_database_url) for _ in range(2)]

        side_by_side(*[lambda it=database: migration.upgrade(it) for database in databases])

        schema.check(databases[0])
        assert databases[0].read(cluster.cluster_id)

    @only_mysql  # which commit each change of a table
    def test_an_upgrade_that_was_killed_halfway_can_be_made_again(
        self, mariadb_database: Database
    ) -> None:
        execute(
            mariadb_database,
            "DELETE FROM alembic_version",
            "DELETE FROM warren_cluster",
            "DELETE FROM warren_sequence",
            "DELETE FROM warren_uptime",
            "DROP TABLE xxl_job_user",
            "ALTER TABLE xxl_job_log DROP INDEX i_kill",
        )

        migration.upgrade(mariadb_database)

        schema.check(mariadb_database)

    def test_an_upgrade_killed_between_two_statements_can_be_made_again(
        self, mariadb_url: str
    ) -> None:
        database = Database(mariadb_url)

        for statements in (2, 20, 50):
            with pytest.raises(Killed), killed_after(statements):
                migration.upgrade(database)
        migration.upgrade(database)

        schema.check(database)

    def test_tables_of_somebody_else_are_left_alone(self, any_database_url: str) -> None:
        database = Database(any_database_url)
        execute(
            database,
            "CREATE TABLE xxl_job_group (id INT PRIMARY KEY, app_name VARCHAR(64))",
            "CREATE TABLE xxl_job_lock (lock_name VARCHAR(50) PRIMARY KEY)",
            "INSERT INTO xxl_job_lock VALUES ('schedule_lock')",
        )

        with pytest.raises(SchemaMismatch, match="table xxl_job_lock with rows"):
            migration.upgrade(database)

        assert {"xxl_job_group", "xxl_job_lock"} <= tables(database)
        assert "xxl_job_log" not in tables(database)

    @pytest.mark.parametrize(
        ("version", "words"),
        [
            ("9999_7.1.0", "got: 9999, made by Warren 7.1.0: use that version or a later one"),
            ("9999", "got: 9999, made by a newer Warren: use that one or a later one"),
        ],
    )
    def test_a_newer_schema_is_left_alone_and_says_who_made_it(
        self, database: Database, version: str, words: str
    ) -> None:
        execute(database, f"UPDATE alembic_version SET version_num = '{version}'")

        for refusing in (migration.upgrade, schema.check):
            with pytest.raises(SchemaMismatch, match=f"{words}$"):
                refusing(database)

    @pytest.mark.parametrize("version", ["0001", "0002", "0018"])
    def test_a_schema_of_an_unreleased_version_is_left_alone_and_says_the_way(
        self, any_database_url: str, version: str
    ) -> None:
        """Their numbers are in use again, and 0001 had other columns then."""
        database = Database(any_database_url)
        first_schema.seed(database)
        execute(
            database,
            "ALTER TABLE xxl_job_info DROP COLUMN catch_up_most",
            "DROP TABLE warren_hold",
            f"UPDATE alembic_version SET version_num = '{version}'",
        )
        before = tables(database)

        for refusing in (migration.upgrade, schema.check):
            with pytest.raises(SchemaMismatch, match="made by an unreleased version") as caught:
                refusing(database)

            assert "export the jobs with that version" in str(caught.value)
            assert "db upgrade" not in str(caught.value)
        assert tables(database) == before

    def test_versions_from_0003_on_name_the_release_that_they_came_with(self) -> None:
        config = migration._config()
        steps = [step.revision for step in ScriptDirectory.from_config(config).walk_revisions()]
        later = sorted(set(steps) - {"0001", "0002"})

        assert steps[0] == schema.newest_revision()
        assert [one for one in later if not re.fullmatch(r"\d{4}_\d+\.\d+\.\d+", one)] == []

    def test_each_database_has_a_cluster_id_of_its_own(
        self, sqlite_database: Database, mariadb_database: Database
    ) -> None:
        ids = {each.read(cluster.cluster_id) for each in (sqlite_database, mariadb_database)}

        assert len(ids) == 2
        assert all(20 < len(cluster_id) <= 36 for cluster_id in ids)

    def test_a_server_that_is_away_is_said_so(self) -> None:
        with pytest.raises(DatabaseUnavailable):
            migration.upgrade(Database("mysql+pymysql://warren:secret@127.0.0.1:1/warren"))


class TestScript:
    def test_a_written_schema_is_what_an_upgrade_makes(self, any_database_url: str) -> None:
        database = Database(any_database_url)

        load(database, migration.upgrade_script(database))

        schema.check(database)
        plan(database, new_run())

    def test_a_script_gives_each_database_a_cluster_id_of_its_own(
        self, sqlite_url: str, mariadb_url: str
    ) -> None:
        for url in (sqlite_url, mariadb_url):
            database = Database(url)
            made = {migration.upgrade_script(database) for _ in range(2)}

            assert len(made) == 1
            load(database, made.pop())
            assert len(database.read(cluster.cluster_id)) > 20

    def test_a_script_holds_no_password(self, mariadb_url: str) -> None:
        database = Database(mariadb_url)

        assert str(database.url.password) not in migration.upgrade_script(database)


class TestCheck:
    def test_the_newest_schema_passes(self, database: Database) -> None:
        schema.check(database)

    @pytest.mark.parametrize(
        ("damage", "complaint"),
        [
            ("UPDATE alembic_version SET version_num = '0000'", "got: 0000"),
            ("DELETE FROM alembic_version", "no schema yet; run: warren db upgrade"),
            ("DROP TABLE alembic_version", "no schema yet; run: warren db upgrade"),
            ("DROP TABLE warren_skip", "lost its table warren_skip"),
            ("DELETE FROM warren_sequence", "lost its counter of run ids"),
        ],
    )
    def test_damage_is_named_in_one_line(
        self, database: Database, damage: str, complaint: str
    ) -> None:
        execute(database, damage)

        with pytest.raises(SchemaMismatch, match=complaint) as caught:
            schema.check(database)

        assert "\n" not in str(caught.value)

    def test_an_empty_database_has_no_schema(self, any_database_url: str) -> None:
        with pytest.raises(SchemaMismatch, match="no schema yet"):
            schema.check(Database(any_database_url))

    def test_a_counter_behind_the_runs_begins_an_epoch(self, database: Database) -> None:
        [run_id] = plan(database, new_run())
        execute(database, f"UPDATE warren_sequence SET next_id = {run_id}")

        schema.check(database)

        assert plan(database, new_run(job_id=2)) > [run_id + LEFT_OUT]
        schema.check(database)
        assert len(database.read(all_epochs)) == 1

    def test_runs_that_others_plan_meanwhile_are_no_damage(
        self, mariadb_database: Database
    ) -> None:
        plan(mariadb_database, new_run())
        planned: list[int] = []

        def plan_another(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            if not planned and ("max(" in statement or "next_id" in statement):
                planned.append(0)
                planned.extend(plan(mariadb_database, new_run(job_id=2)))

        event.listen(mariadb_database.engine, "after_cursor_execute", plan_another)

        schema.check(mariadb_database)

        assert len(planned) == 2
        assert mariadb_database.read(all_epochs) == []

    def test_a_lost_index_is_named(self, sqlite_database: Database) -> None:
        execute(sqlite_database, "DROP INDEX i_status_due")

        with pytest.raises(
            SchemaMismatch,
            match=r"table xxl_job_log has lost its index i_status_due \(status, job_group, due_at",
        ):
            schema.check(sqlite_database)

    @only_mysql
    @pytest.mark.parametrize(
        "damage",
        [
            "DROP INDEX i_tick",
            "DROP INDEX i_tick, ADD INDEX i_tick (job_id, scheduled_at, origin_id)",
            "DROP INDEX i_tick, ADD UNIQUE i_tick (job_id, scheduled_at, origin_id, shard_index)",
        ],
    )
    def test_a_key_that_keeps_ticks_apart_no_longer_is_named(
        self, mariadb_database: Database, damage: str
    ) -> None:
        execute(mariadb_database, f"ALTER TABLE xxl_job_log {damage}")

        with pytest.raises(SchemaMismatch, match="xxl_job_log has lost its unique index i_tick"):
            schema.check(mariadb_database)

"""Units of work on MariaDB: retried whole when that helps, refused in one line when it does not."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError
from sqlalchemy.orm import Session

from tests.support import sql_rows
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.ports import free_port
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.processes import stop
from tests.support.server_words import (
    ON_POSTGRESQL,
    connection_id,
    kill,
    only_mysql,
    wait_briefly,
    words_of,
)
from tests.support.sql_rows import new_run, side_by_side
from warren.sql.dialects.mysql import PING_AFTER_SECONDS
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.ids import RunIds
from warren.sql.models import App
from warren.sql.run_status import Kind
from warren.sql.runs import planned_runs, transitions
from warren.sql.schema import migration, version

DatabaseServer: TypeAlias = PrivateMariaDB | PrivatePostgreSQL

#: Computes for minutes. MySQL ends a SLEEP by itself, without an error.
SLOW = (
    "SELECT COUNT(*) FROM information_schema.collations a, information_schema.collations b,"
    " information_schema.collations c, information_schema.collations d"
    " WHERE a.id + b.id + c.id + d.id < 0"
)


@pytest.fixture
def database(mariadb_url: str) -> Iterator[Database]:
    """An empty table of numbers, by name."""
    database = Database(mariadb_url)
    create = "CREATE TABLE numbers (name VARCHAR(9) PRIMARY KEY, value INT NOT NULL)"
    database.write(lambda session: session.execute(text(create)))
    insert = "INSERT INTO numbers VALUES ('a', 0), ('b', 0)"
    database.write(lambda session: session.execute(text(insert)))
    yield database
    database.close()


def add_one(session: Session, name: str) -> None:
    session.execute(text("UPDATE numbers SET value = value + 1 WHERE name = :n"), {"n": name})


def values(database: Database) -> dict[str, int]:
    query = text("SELECT name, value FROM numbers")
    return database.read(lambda session: {row.name: row.value for row in session.execute(query)})


def connection_tries(database: Database) -> list[int]:
    """Return what will hold the thread of each try to connect from now on."""
    tries: list[int] = []

    def note(*_: object) -> None:
        tries.append(threading.get_ident())

    event.listen(database.engine, "do_connect", note)
    return tries


def read_id(database: Database, how: Callable[..., int] = Database.read) -> int:
    return how(database, lambda session: connection_id(session, database))


def answers(database: Database) -> bool:
    try:
        return read_id(database) > 0
    except DatabaseUnavailable:
        return False


def freeze(server: DatabaseServer) -> None:
    for process in server.processes():
        stop(process.pid)


def thaw(server: DatabaseServer) -> None:
    for process in server.processes():
        os.kill(process.pid, signal.SIGCONT)


class TestSessions:
    @only_mysql
    def test_every_connection_is_set_up_alike(self, database: Database) -> None:
        query = text(
            "SELECT @@session.wait_timeout, @@session.innodb_lock_wait_timeout, "
            "@@session.time_zone, @@session.sql_mode LIKE '%STRICT_TRANS_TABLES%', "
            "@@session.character_set_client"
        )
        arrived = threading.Barrier(5)

        def look(session: Session) -> tuple[object, ...]:
            level = session.connection().get_isolation_level()
            arrived.wait(30)  # five connections at once
            return (level, *session.execute(query).one())

        found = side_by_side(*[lambda: database.read(look)] * 5)

        assert set(found) == {("READ COMMITTED", 9, 4, "+00:00", 1, "utf8mb4")}

    @only_mysql
    def test_a_lax_server_does_not_cut_what_does_not_fit(self, database: Database) -> None:
        with database.engine.connect() as connection:
            connection.exec_driver_sql("SET GLOBAL sql_mode = ''")
        try:
            fresh = Database(database.url.render_as_string(hide_password=False))
            insert = text("INSERT INTO numbers VALUES ('much too long', 1)")
            with pytest.raises(DataError):
                fresh.write(lambda session: session.execute(insert))
        finally:
            with database.engine.connect() as connection:
                connection.exec_driver_sql("SET GLOBAL sql_mode = DEFAULT")
            fresh.close()

    def test_parameters_stay_out_of_error_texts(self, database: Database) -> None:
        insert = text("INSERT INTO numbers VALUES (:name, 1)")

        with pytest.raises(DataError) as caught:
            database.write(
                lambda session: session.execute(insert, {"name": "the secret parameter"})
            )

        assert "secret" not in str(caught.value)


class TestUnits:
    def test_a_unit_that_raises_leaves_nothing(self, database: Database) -> None:
        def unit(session: Session) -> None:
            add_one(session, "a")
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            database.write(unit)

        assert values(database)["a"] == 0

    def test_what_a_read_changes_is_not_kept(self, database: Database) -> None:
        database.read(lambda session: add_one(session, "a"))

        assert values(database)["a"] == 0

    def test_what_a_read_returned_can_be_used_afterwards(self, mariadb_database: Database) -> None:
        def make(session: Session) -> None:
            session.add(App(name="demo", title="Demo"))

        mariadb_database.write(make)

        app = mariadb_database.read(lambda session: session.query(App).one())

        assert (app.name, app.title) == ("demo", "Demo")

    def test_a_unit_that_takes_itself_back_is_no_error(self, database: Database) -> None:
        def unit(session: Session) -> str:
            add_one(session, "a")
            session.rollback()
            return "shown"

        assert database.write(unit) == "shown"
        assert values(database)["a"] == 0

    def test_a_lock_wait_makes_the_whole_unit_run_again(self, database: Database) -> None:
        tries = 0
        with database.engine.connect() as other:
            other.exec_driver_sql("SELECT * FROM numbers WHERE name = 'b' FOR UPDATE")

            def unit(session: Session) -> None:
                nonlocal tries
                tries += 1
                wait_briefly(session, database)
                add_one(session, "a")
                if tries == 2:
                    other.rollback()
                add_one(session, "b")

            database.write(unit)

        # 1205 does not roll back by itself: without our rollback `a` would count twice.
        assert (tries, values(database)) == (2, {"a": 1, "b": 1})

    def test_a_deadlock_makes_the_loser_run_again(self, database: Database) -> None:
        both_hold_one = threading.Barrier(2)
        tries = {"ab": 0, "ba": 0}

        def unit(session: Session, order: str) -> None:
            tries[order] += 1
            add_one(session, order[0])
            if tries[order] == 1:
                both_hold_one.wait(30)
            add_one(session, order[1])

        side_by_side(
            *[
                lambda order=order: database.write(lambda session: unit(session, order))
                for order in tries
            ]
        )

        assert sum(tries.values()) == 3
        assert values(database) == {"a": 2, "b": 2}

    def test_a_connection_killed_in_the_middle_makes_the_unit_run_again(
        self, database: Database
    ) -> None:
        tries = 0

        def unit(session: Session) -> None:
            nonlocal tries
            tries += 1
            add_one(session, "a")
            if tries == 1:
                kill(database, connection_id(session, database))
            add_one(session, "b")

        database.write(unit)

        assert (tries, values(database)) == (2, {"a": 1, "b": 1})

    @pytest.mark.parametrize("idle_seconds", [0, PING_AFTER_SECONDS + 0.1])
    def test_a_connection_killed_while_idle_is_replaced(
        self, database: Database, monkeypatch: pytest.MonkeyPatch, idle_seconds: float
    ) -> None:
        tries = 0
        outside = Database(database.url.render_as_string(hide_password=False))
        victim = read_id(database)
        later = time.time() + idle_seconds
        kill(outside, victim)
        outside.close()
        monkeypatch.setattr(time, "time", lambda: later)

        def unit(session: Session) -> None:
            nonlocal tries
            tries += 1
            add_one(session, "a")

        side_by_side(*[lambda: database.write(unit)] * 3)

        assert values(database)["a"] == 3
        # One that was used a moment ago is not pinged: its unit of work runs again, whole.
        # PostgreSQL has said good-bye, which costs nothing to see.
        assert tries == (3 if idle_seconds or ON_POSTGRESQL else 4)

    @pytest.mark.parametrize(
        ("statement", "error"),
        [
            ("INSERT INTO numbers VALUES ('much too long', 1)", DataError),
            ("INSERT INTO numbers VALUES ('a', 1)", IntegrityError),
            ("SELEC 1", ProgrammingError),
        ],
    )
    def test_a_faulty_statement_is_not_tried_again(
        self, database: Database, statement: str, error: type[Exception]
    ) -> None:
        tries = 0

        def unit(session: Session) -> None:
            nonlocal tries
            tries += 1
            add_one(session, "a")
            session.execute(text(statement))

        with pytest.raises(error):
            database.write(unit)

        assert (tries, values(database)["a"]) == (1, 0)

    def test_a_unit_that_keeps_failing_is_given_up(self, database: Database) -> None:
        tries = 0

        def unit(session: Session) -> None:
            nonlocal tries
            tries += 1
            kill(database, connection_id(session, database))
            add_one(session, "a")

        with pytest.raises(DatabaseUnavailable, match="cannot use the database"):
            database.write(unit)

        assert (tries, values(database)["a"]) == (5, 0)

    def test_a_frozen_holder_loses_its_locks(self, database: Database) -> None:
        with database.engine.connect() as frozen:
            frozen.exec_driver_sql(words_of(database).short_idle)
            frozen.exec_driver_sql("SELECT * FROM numbers WHERE name = 'a' FOR UPDATE")

            database.write(lambda session: add_one(session, "a"))

            frozen.invalidate()
        assert values(database)["a"] == 1


class TestCommitOutcomeUnknown:
    """The commit is done, but its answer is lost with the connection."""

    @pytest.fixture
    def cut(self, mariadb_database: Database) -> list[str]:
        """Cut the connection of the first commit from now on, right after it."""
        done: list[str] = []

        def commit_and_cut(connection: Connection) -> None:
            if not done and connection.get_execution_options().get("warren_writing"):
                done.append("cut")
                ask = f"SELECT {words_of(mariadb_database).connection_id}"
                number = connection.exec_driver_sql(ask).scalar_one()
                driver = connection.connection.dbapi_connection
                assert driver is not None
                driver.commit()
                kill(mariadb_database, int(number))
                if ON_POSTGRESQL:
                    driver.close()  # it would not send a second COMMIT

        event.listen(mariadb_database.engine, "commit", commit_and_cut)
        return done

    def test_ticks_are_not_planned_twice(self, mariadb_database: Database, cut: list[str]) -> None:
        ids = RunIds(mariadb_database)
        tries = 0

        def unit(session: Session) -> list[int]:
            nonlocal tries
            tries += 1
            return planned_runs.plan(session, sql_rows.ticks(3), ids)

        mariadb_database.write(unit)

        assert (cut, tries) == (["cut"], 2)
        assert len(sql_rows.all_runs(mariadb_database)) == 3

    def test_a_run_with_an_id_of_its_own_is_not_planned_twice(
        self, mariadb_database: Database, cut: list[str]
    ) -> None:
        ids = RunIds(mariadb_database)
        ids.reserve()
        cut.clear()
        manual = new_run(kind=Kind.MANUAL, origin_id=None, run_id=ids.take_one())

        mariadb_database.write(lambda session: planned_runs.plan(session, [manual], ids))

        assert cut == ["cut"]
        assert [row.id for row in sql_rows.all_runs(mariadb_database)] == [manual.run_id]


class TestUnavailable:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"password": "wr0ng-secret"}, "Access denied|authentication failed"),
            ({"username": "nobody"}, "Access denied|authentication failed"),
            ({"database": "absent"}, "Unknown database|does not exist"),
            ({"port": 0}, "Can't connect|Connection refused"),
        ],
    )
    def test_a_refusal_comes_at_once_in_one_line_without_the_password(
        self, mariadb: DatabaseServer, change: dict[str, object], words: str
    ) -> None:
        if "port" in change:
            change = {"port": free_port()}
        known = Database(mariadb.create_database()).url
        url = known.set(**change).render_as_string(hide_password=False)
        database = Database(url)
        tries = connection_tries(database)

        with pytest.raises(DatabaseUnavailable) as caught:
            read_id(database, Database.write)

        assert len(tries) == 1
        complaint = str(caught.value)
        assert re.search(words, complaint)
        assert "\n" not in complaint
        assert str(database.url.password) not in complaint

    def test_every_connection_taken_is_said_so(self, mariadb_url: str) -> None:
        database = Database(mariadb_url, pool_size=1)

        with (
            database.engine.connect(),
            pytest.raises(DatabaseUnavailable, match="every connection is taken"),
        ):
            read_id(database, Database.write)

        assert read_id(database, Database.write) > 0
        database.close()

    def test_a_frozen_server_is_given_up_and_used_again_when_it_thaws(
        self, own_mariadb: DatabaseServer
    ) -> None:
        database = Database(own_mariadb.create_database(), answer_seconds=2)
        migration.upgrade(database)
        sql_rows.plan(database, new_run())
        freeze(own_mariadb)
        try:
            started = time.monotonic()
            with pytest.raises(
                DatabaseUnavailable, match=r"Lost connection|timed out|connection timeout"
            ):
                database.write(lambda session: transitions.claim(session, [1]))

            # The last try begins within 10 s: a ping, then a new connection, 2 s each.
            assert time.monotonic() - started < 60
        finally:
            thaw(own_mariadb)

        rows = database.write(lambda session: transitions.claim(session, [1]))
        assert [row.id for row in rows] == [1]
        database.close()

    def test_a_server_that_died_is_used_again_when_it_is_back(
        self, own_mariadb: DatabaseServer
    ) -> None:
        database = Database(own_mariadb.create_database())
        migration.upgrade(database)
        sql_rows.plan(database, new_run())
        own_mariadb.kill()
        with pytest.raises(DatabaseUnavailable, match=r"Can't connect|Connection refused"):
            sql_rows.all_runs(database)

        own_mariadb.start()

        assert len(sql_rows.all_runs(database)) == 1
        database.close()

    @pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "killed"])
    def test_the_impatient_wait_for_a_lost_server_once_and_have_it_back_by_themselves(
        self, own_mariadb: DatabaseServer, *, is_frozen: bool
    ) -> None:
        database = Database(
            own_mariadb.create_database(), answer_seconds=1, retry_seconds=0.5, fail_fast=True
        )
        assert read_id(database) > 0
        if is_frozen:
            freeze(own_mariadb)
        else:
            own_mariadb.kill()
        try:
            started = time.monotonic()
            with pytest.raises(DatabaseUnavailable):
                read_id(database)
            assert time.monotonic() - started < 30

            tries = connection_tries(database)
            for _ in range(100):
                with pytest.raises(DatabaseUnavailable, match="connect"):
                    read_id(database, Database.write)
            assert threading.get_ident() not in tries  # so nothing was waited for
        finally:
            if is_frozen:
                thaw(own_mariadb)
        if not is_frozen:
            own_mariadb.start()

        eventually(lambda: answers(database), every=0.05)
        assert read_id(database, Database.write) > 0
        database.close()

    @only_mysql
    def test_one_slow_statement_keeps_no_impatient_one_out(self, mariadb_url: str) -> None:
        database = Database(mariadb_url, statement_seconds=1, retry_seconds=0.1, fail_fast=True)

        with pytest.raises(DatabaseUnavailable):
            database.read(lambda session: session.execute(text(SLOW)))

        assert read_id(database) > 0
        database.close()

    @only_mysql
    def test_a_waiting_upgrade_goes_on_when_the_other_one_is_done(self, mariadb_url: str) -> None:
        database = Database(mariadb_url)
        other = database.engine.connect()
        other.exec_driver_sql("SELECT GET_LOCK(CONCAT('warren.', DATABASE()), 1)")
        thread = threading.Thread(target=lambda: migration.upgrade(database))
        thread.start()

        eventually(
            lambda: other.exec_driver_sql(
                "SELECT COUNT(*) FROM information_schema.processlist "
                "WHERE db = DATABASE() AND info LIKE 'SELECT GET_LOCK%%'"
            ).scalar()
        )
        assert other.exec_driver_sql("SHOW TABLES").all() == []
        other.exec_driver_sql("SELECT RELEASE_LOCK(CONCAT('warren.', DATABASE()))")
        thread.join(30)

        version.check(database)
        other.close()
        database.close()

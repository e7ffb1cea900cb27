"""What is PostgreSQL's own: its sessions, refusals, rights, TLS, servers without writes."""

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, insert, select, text
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session

from tests.integration.broker.certificates import Authority
from tests.support import sql_rows
from tests.support.eventually import eventually
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.processes import stop
from tests.support.schemas import differences
from tests.support.sql_rows import new_run, plan, side_by_side
from warren.sql import limits
from warren.sql.batch import Guard, update_each
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.epochs import all_epochs
from warren.sql.errors import DatabaseUnavailable, SchemaMismatch
from warren.sql.metrics import keep_successes
from warren.sql.models import App, Job, Limit, Run, Uptime
from warren.sql.registry import uptimes
from warren.sql.run_status import RunStatus
from warren.sql.runs import due_runs
from warren.sql.schema import migration, version
from warren.sql.schema.version import grants


@pytest.fixture
def database(postgresql_database: Database) -> Database:
    return postgresql_database


@pytest.fixture
def empty(postgresql: PrivatePostgreSQL) -> Iterator[Callable[..., str]]:
    """Make databases, by what follows CREATE DATABASE and a name."""
    made: list[str] = []

    def make(how: str = "") -> str:
        made.append(f"warren_own_{os.getpid()}_{len(made)}")
        postgresql.execute(f'CREATE DATABASE "{made[-1]}" {how}')
        return postgresql.url(made[-1])

    yield make
    for name in made:
        postgresql.drop_database(name)


def documented(postgresql: PrivatePostgreSQL, program: str, database: str, folder: Path) -> None:
    """Run the command of a program as the page on deployment has it, for a database."""
    page = (Path(__file__).parents[4] / "docs/deploy.md").read_text()
    [line] = re.findall(rf"^ *({program} .*?)(?: +#.*)?$", page, re.MULTILINE)
    words = re.sub(r"\bwarren\b(?!\.)", database, line)
    subprocess.run(words, shell=True, cwd=folder, env=postgresql.environment(), check=True)


def whole(url: URL, **changes: Any) -> str:
    return url.set(**changes).render_as_string(hide_password=False)


def test_every_session_is_set_up_alike(database: Database) -> None:
    names = ("lock_timeout", "idle_in_transaction_session_timeout", "TimeZone", "client_encoding")
    ask = text("SELECT " + ", ".join(f"current_setting('{name}')" for name in names))

    def look(session: Session) -> tuple[object, ...]:
        return (session.connection().get_isolation_level(), *session.execute(ask).one())

    found = [database.read(look), database.write(look)]

    assert set(found) == {("READ COMMITTED", "4s", "9s", "UTC", "UTF8")}


def test_the_environment_leads_no_connection_elsewhere(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    monkeypatch.setenv("PGPORT", str(database.url.port))
    led = Database(whole(database.url), fail_fast=True)
    without_port = Database(whole(database.url).replace(f":{database.url.port}/", "/"))

    assert led.read(database_now_ms)
    with pytest.raises(DatabaseUnavailable, match="port 5432 failed"):
        without_port.read(database_now_ms)
    led.close()
    without_port.close()


def test_a_frozen_console_holds_its_locks_for_three_seconds(database: Database) -> None:
    console = Database(whole(database.url), fail_fast=True)
    ask = text("SELECT current_setting('idle_in_transaction_session_timeout')")

    limits = [how(lambda s: s.execute(ask).scalar_one()) for how in (console.write, console.read)]

    assert limits == ["3s", "9s"]
    console.close()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(database: Database) -> None:
    impatient = Database(whole(database.url), statement_seconds=1, fail_fast=True)
    slow = text("SELECT count(*) FROM generate_series(1, 1000000000)")

    with pytest.raises(DatabaseUnavailable, match="canceling statement due to statement timeout"):
        impatient.read(lambda session: session.execute(slow))

    assert impatient.read(database_now_ms) > 0
    impatient.close()


def test_a_backend_that_stands_still_is_given_up(postgresql: PrivatePostgreSQL) -> None:
    url = postgresql.create_database()
    database = Database(url, answer_seconds=1, retry_seconds=0)
    ask = text("SELECT pg_backend_pid()")
    backend = database.read(lambda session: int(session.execute(ask).scalar_one()))
    stop(backend)
    began = time.monotonic()
    try:
        with pytest.raises(DatabaseUnavailable, match="the answer timed out"):
            database.read(lambda session: session.execute(ask))
    finally:
        os.kill(backend, 18)

    assert time.monotonic() - began < 30
    assert database.read(lambda session: int(session.execute(ask).scalar_one())) != backend
    database.close()
    postgresql.drop_database(url.rpartition("/")[2])


def test_every_connection_to_a_server_that_takes_no_writes_is_given_up(database: Database) -> None:
    ask = text("SELECT pg_backend_pid()")
    before = database.read(lambda session: session.execute(ask).scalar_one())

    def refuse(session: Session) -> None:
        session.execute(text("SET TRANSACTION READ ONLY"))
        session.execute(insert(App), [{"name": "a", "title": "a"}])

    with pytest.raises(DatabaseUnavailable, match="read-only transaction"):
        database.write(refuse)

    assert database.read(lambda session: session.execute(ask).scalar_one()) != before


def test_a_transaction_that_lost_a_unique_key_goes_on(database: Database) -> None:
    def unit(session: Session) -> int:
        statement = database.dialect.insert_or_ignore(App, App.name)
        for title in ("first", "second"):
            session.execute(statement, [{"name": "same", "title": title}])
        return session.execute(select(func.count()).select_from(App)).scalar_one()

    assert database.write(unit) == 1


def test_schedulers_that_come_back_at_once_record_one_downtime(database: Database) -> None:
    def count() -> int:
        return database.read(lambda s: s.execute(select(func.count(Uptime.id))).scalar_one())

    now_ms = database.read(database_now_ms)
    gone = Uptime(down_since=0, since_at=0, until_at=now_ms - 60_000, is_settled=1)
    database.write(lambda session: session.add(gone))
    before = count()

    def come_back(session: Session) -> int:
        return uptimes.extend(session, now_ms=lambda: now_ms, gap_ms=5_000)

    waiting = "wait_event_type = 'Lock' AND datname = current_database()"
    ask = text(f"SELECT count(*) FROM pg_stat_activity WHERE {waiting}")
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(database.write(come_back)))
    with Session(database.engine) as first:
        assert come_back(first) == 60_000
        other.start()
        eventually(lambda: database.read(lambda session: session.execute(ask).scalar_one()))
        first.commit()
    other.join()

    assert found == [0]
    assert count() == before + 1


def test_a_number_too_large_for_a_column_is_found_in_no_row(database: Database) -> None:
    found = database.read(lambda s: s.execute(select(Job.id).where(Job.id == 2**40)).all())

    assert found == []


def test_a_text_that_does_not_fit_is_refused_in_one_line(database: Database) -> None:
    with pytest.raises(Exception, match="value too long") as caught:
        sql_rows.add_job(database, "x" * 256)

    assert "xxxx" not in str(caught.value)


def test_however_many_rows_there_are_the_driver_gets_them_as_one_value(database: Database) -> None:
    run_ids = sql_rows.planned_in(database, RunStatus.SENT, 500)
    rows = [{"id": run_id, "address": f"a-{run_id}"} for run_id in run_ids]

    with sql_rows.statements(database) as sent:
        count = database.write(lambda s: update_each(s, Run, rows, guard=Guard("id > {}", [0])))
        database.write(lambda s: keep_successes(s, dict.fromkeys(run_ids, 1)))

    assert count == 500
    assert [len(values) for words, values in sent if not words.startswith("SELECT")] == [2, 1]


def test_old_versions_of_runs_have_room_and_are_removed_early(database: Database) -> None:
    ask = text("SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE relname = :name")
    options = database.read(lambda s: s.execute(ask, {"name": "xxl_job_log"}).scalar_one())

    assert "fillfactor=80" in options
    assert "autovacuum_vacuum_scale_factor=0.02" in options
    assert database.read(differences) == []


def _add_runs_that_are_over(session: Session) -> None:
    """Add 20,000 of them, like the first run but for its key."""
    changed = {"id": "number", "job_id": "number", "status": "'SUCCEEDED'"}
    names = [column.name for column in Run.__table__.columns]
    values = ", ".join(changed.get(name, f"run.{name}") for name in names)
    session.execute(
        text(
            f"INSERT INTO xxl_job_log ({', '.join(names)}) SELECT {values} FROM xxl_job_log AS run,"
            " generate_series(1001, 21000) AS number WHERE run.job_id = 1"
        )
    )


def test_claims_read_what_is_due_from_the_index_alone_without_a_hint(database: Database) -> None:
    plan(database, *[new_run(job_id=number, app_id=1) for number in range(1, 21)])
    database.write(_add_runs_that_are_over)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE xxl_job_log")
    plans: list[str] = []

    def explain(connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        if statement.startswith("SELECT") and not plans:
            rows = connection.connection.dbapi_connection.execute(f"EXPLAIN {statement}", values)
            plans.append("\n".join(row[0] for row in rows))

    def peek(session: Session) -> list[int]:
        event.listen(session.connection(), "before_cursor_execute", explain)
        return due_runs.peek_due(session, 1, since_ms=0, until_ms=2**50, limit=10)

    found = database.read(peek)

    assert len(found) == 10
    assert "Index Only Scan using i_status_due" in plans[0]
    assert "Sort" not in plans[0]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0", "UTF8, got: SQL_ASCII; create it"),
        ("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", "UTF8, got: LATIN1; create it with"),
    ],
)
def test_a_database_in_another_encoding_is_refused_in_one_line(
    empty: Callable[..., str], how: str, words: str
) -> None:
    database = Database(empty(how + " LOCALE_PROVIDER libc"))

    with pytest.raises(SchemaMismatch, match=words) as caught:
        migration.upgrade(database)

    assert "\n" not in str(caught.value)
    database.close()


def test_an_account_with_the_granted_rights_can_work_and_not_rewrite_the_trail(
    empty: Callable[..., str], postgresql: PrivatePostgreSQL
) -> None:
    owner = Database(empty())
    migration.upgrade(owner)
    name = f"warren_user_{os.getpid()}"
    postgresql.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    for statement in grants(owner.dialect, str(owner.url.database), name):
        owner.write(lambda session, words=statement: session.execute(text(words)))
    user = Database(whole(owner.url, username=name, password="x"))

    version.check(user)
    assert migration.upgrade(user) == version.newest_version()  # as `warren db restored` does
    job_id = sql_rows.add_job(user, "a")
    plan(user, new_run(job_id=job_id))
    user.write(
        lambda s: user.dialect.skip_given_ids(
            s.connection(), Job.metadata.tables[Job.__tablename__]
        )
    )
    with pytest.raises(DatabaseUnavailable, match="permission denied for table warren_trail"):
        user.write(lambda session: session.execute(text("DELETE FROM warren_trail")))
    with pytest.raises(DatabaseUnavailable, match="permission denied for schema public"):
        user.write(lambda session: session.execute(text("CREATE TABLE other (id INT)")))

    user.close()
    owner.write(lambda session: session.execute(text(f"DROP OWNED BY {name}")))
    owner.close()
    postgresql.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("is_its_own", [True, False], ids=["its own", "an empty one"])
def test_a_dump_is_loaded_as_documented_into(
    empty: Callable[..., str],
    postgresql: PrivatePostgreSQL,
    tmp_path: Path,
    *,
    is_its_own: bool,
) -> None:
    database = Database(empty())
    migration.upgrade(database)
    database.write(lambda session: session.execute(insert(App), [{"name": "dumped", "title": "x"}]))
    documented(postgresql, "pg_dump", str(database.url.database), tmp_path)
    database.write(lambda session: session.execute(insert(App), [{"name": "later", "title": "x"}]))
    target = database if is_its_own else Database(empty())

    documented(postgresql, "pg_restore", str(target.url.database), tmp_path)

    names = target.read(lambda session: session.scalars(select(App.name)).all())
    database.close()
    target.close()
    assert names == ["dumped"]


def test_two_upgrades_at_once_make_one_schema(empty: Callable[..., str]) -> None:
    databases = [Database(url) for url in [empty()] * 3]

    made = side_by_side(*[lambda one=one: migration.upgrade(one) for one in databases])

    assert set(made) == {version.newest_version()}
    version.check(databases[0])
    for one in databases:
        one.close()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePostgreSQL]:
    if not PrivatePostgreSQL.is_installed():
        pytest.skip("PostgreSQL is not installed: make services")
    server = PrivatePostgreSQL(tmp_path_factory.mktemp("own-postgresql"))
    server.start()
    yield server
    server.close()


def test_what_is_copied_to_another_server_begins_an_epoch(
    own_server: PrivatePostgreSQL, database: Database
) -> None:
    """As after a promotion or a restore: the tables name the server that they were written on."""
    database.read(database_now_ms)
    first = database.look_at_servers()[0][1]
    other = Database(own_server.create_database())
    migration.upgrade(other)
    assert first.facts is not None
    other.write(lambda s: s.execute(text(f"UPDATE warren_cluster SET server = '{first.recorded}'")))
    other.close()

    promoted = Database(whole(other.url))
    [epoch] = promoted.read(all_epochs)

    assert epoch.cause == "PROMOTED"
    assert epoch.next_id > 10**9
    assert promoted.epoch == epoch.began_at
    promoted.close()


@pytest.mark.parametrize(
    ("host", "days", "words"),
    [
        ("127.0.0.1", 1, ""),
        ("127.0.0.2", 1, 'server certificate for "127.0.0.2" does not match host name'),
        ("127.0.0.1", -1, "certificate has expired|certificate verify failed"),
    ],
    ids=["right", "another host", "expired"],
)
def test_a_server_proves_itself_or_is_refused(
    own_server: PrivatePostgreSQL, tmp_path: Path, host: str, days: int, words: str
) -> None:
    authority = Authority(tmp_path)
    own_server.use_certificate(authority.server_file(host, days=days))
    url = own_server.create_database()

    database = Database(f"{url}?sslrootcert={authority.file}", retry_seconds=0)
    ask = text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    if words:
        with pytest.raises(DatabaseUnavailable, match=words):
            database.read(lambda session: session.execute(ask))
    else:
        assert database.read(lambda session: session.execute(ask).scalar_one()) is True
    database.close()


def test_a_limit_with_a_rate_is_locked_with_its_tokens(database: Database) -> None:
    row = {"name": "calls", "rate": 3, "per_ms": 1_000, "tokens": 2.5, "changed_at": 0}
    database.write(lambda session: session.execute(insert(Limit).values(row)))

    [found] = database.write(lambda session: limits.lock(session, range(9)))

    assert (found.rate, found.tokens) == (3, 2.5)

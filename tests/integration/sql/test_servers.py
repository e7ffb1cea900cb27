"""The servers behind a database's URLs: which one is used, and which one is refused."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import func, select, text, update
from structlog.testing import capture_logs

from tests.integration.broker.proxy import Proxy
from tests.support.acting import acting
from tests.support.eventually import eventually
from tests.support.replicated import Replicated
from warren.command_line.server_checks import check_database
from warren.scheduler.alarms.events import NO_TARGETS
from warren.scheduler.alarms.watches import EpochWatch
from warren.scheduler.membership.roster import Roster
from warren.settings.settings import Settings
from warren.sql.alarms import incidents
from warren.sql.clock import DatabaseClock, database_now_ms
from warren.sql.engine import Database
from warren.sql.epochs import LEFT_OUT, Cause, all_epochs
from warren.sql.errors import DatabaseUnavailable
from warren.sql.ids import RunIds
from warren.sql.models import Cluster, Pause
from warren.sql.schema import migration, version

Open = Callable[..., Database]


@pytest.fixture(scope="module")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    servers = Replicated(tmp_path_factory.mktemp("replicated"))
    try:
        servers.start()
        yield servers
    finally:
        servers.close()


@pytest.fixture
def servers(_servers: Replicated) -> Replicated:
    """A primary, and a replica that takes no writes, with the tables of Warren."""
    _servers.renew()
    database = Database(_servers.urls)
    migration.upgrade(database)
    version.check(database)
    database.close()
    _servers.await_copy()
    return _servers


@pytest.fixture
def open_database(servers: Replicated) -> Iterator[Open]:
    """Open the database, as processes do; by default by both URLs."""
    with ExitStack() as opened:

        def open_it(urls: str = "", **options: bool) -> Database:
            database = Database(urls or servers.urls, **options)  # type: ignore[arg-type]
            opened.callback(database.close)
            return database

        yield open_it


def port_of(database: Database) -> int:
    return database.read(lambda s: int(s.execute(text("SELECT @@port")).scalar_one()))


def note(database: Database) -> None:
    database.write(lambda s: s.add(Pause(app_id=0, since_at=0, paused_by="a test", reason="")))


def can_write(database: Database) -> bool:
    """Try it; how often it is possible is not known."""
    try:
        note(database)
    except DatabaseUnavailable:
        return False
    return True


def notes(database: Database) -> int:
    return database.read(lambda s: int(s.execute(select(func.count(Pause.id))).scalar_one()))


def fail_over(servers: Replicated) -> None:
    """Promote the replica, as a tool does once the primary takes no more writes."""
    servers.first.execute("SET GLOBAL read_only = 1")
    servers.await_copy()
    servers.promote(servers.second)


def test_every_pool_follows_a_promotion_and_one_epoch_begins(
    servers: Replicated, open_database: Open
) -> None:
    each = [open_database(), open_database(fail_fast=True), open_database()]
    assert {port_of(database) for database in each} == {servers.first.port}
    ids = RunIds(each[0])
    ids.reserve()
    busy = each[0].engine.connect()
    busy.exec_driver_sql("SELECT 1")

    fail_over(servers)
    for database in each:
        eventually(partial(can_write, database), seconds=30)
    busy.close()

    assert {port_of(database) for database in each} == {servers.second.port}
    assert {database.read_autocommit(_port) for database in each} == {servers.second.port}
    [epoch] = each[0].read(all_epochs)
    assert epoch.cause == Cause.PROMOTED
    assert epoch.told_by == f"server 2 at 127.0.0.1:{servers.second.port}, before it server 1"
    assert {database.epoch for database in each} == {epoch.began_at}
    assert ids.take_one() > LEFT_OUT


def _port(session: object) -> int:
    return int(session.execute(text("SELECT @@port")).scalar_one())  # type: ignore[attr-defined]


def test_an_old_primary_that_can_be_written_again_is_refused(
    servers: Replicated, open_database: Open
) -> None:
    before = open_database()
    note(before)
    fail_over(servers)
    eventually(partial(can_write, before))
    servers.first.execute("SET GLOBAL read_only = 0")
    servers.second.stop()

    with pytest.raises(
        DatabaseUnavailable, match=f"{servers.first.port}: it is of the first epoch"
    ):
        note(before)
    servers.second.start()

    eventually(partial(can_write, before))
    fresh = open_database()
    assert port_of(fresh) == servers.second.port
    assert notes(fresh) >= 3
    assert notes(open_database(servers.url(servers.first))) == 1


def test_behind_a_proxy_a_promoted_server_is_admitted_and_the_old_one_is_not(
    servers: Replicated, open_database: Open
) -> None:
    with Proxy(servers.first.port) as proxy:
        port = f":{servers.first.port}/"
        proxied = open_database(servers.url(servers.first).replace(port, f":{proxy.port}/"))
        note(proxied)

        proxy.lead_to(servers.second.port)
        with pytest.raises(DatabaseUnavailable, match="it takes no writes"):
            note(proxied)
        servers.await_copy()
        servers.promote(servers.second)
        note(proxied)
        proxy.lead_to(servers.first.port)

        with pytest.raises(DatabaseUnavailable, match="another server has taken its place"):
            note(proxied)
    direct = open_database(servers.url(servers.second))
    assert [epoch.cause for epoch in direct.read(all_epochs)] == [Cause.PROMOTED]


def test_a_server_is_refused_once_somebody_has_seen_a_newer_epoch(
    servers: Replicated, open_database: Open
) -> None:
    database = open_database(servers.url(servers.first))
    note(database)

    database.learn_epoch(1_790_000_000_000, "demo/one")

    refused = pytest.raises(DatabaseUnavailable, match=r"demo/one has seen that of 2026-09-21T")
    with capture_logs() as events, refused:
        note(database)
    assert "database_server_refused" in [event["event"] for event in events]


def test_an_old_primary_that_comes_back_is_logged_while_the_new_one_is_used(
    servers: Replicated, open_database: Open
) -> None:
    database = open_database()
    note(database)
    with capture_logs() as events:
        fail_over(servers)
        eventually(partial(can_write, database))
        servers.first.execute("SET GLOBAL read_only = 0")

        database.watch_servers()

    name = f"127.0.0.1:{servers.first.port}"
    refused = [event for event in events if event["event"] == "database_server_refused"]
    assert [event["server"] for event in refused] == [name]
    assert database.replaced_servers == (name,)


def test_an_old_primary_that_comes_back_opens_one_incident(
    servers: Replicated, open_database: Open
) -> None:
    database = open_database()
    note(database)
    fail_over(servers)
    eventually(partial(can_write, database))
    servers.first.execute("SET GLOBAL read_only = 0")

    for _ in range(2):  # two schedulers
        watch = EpochWatch(database=database, roster=Roster(), defaults=NO_TARGETS)
        watch.run_round(database.read(database_now_ms))

    found = database.read(incidents.listing)
    assert {(one.rule, one.job_id, one.due_at) for one in found} == {
        (incidents.DATABASE, 0, database.epoch),
        (incidents.SERVER, 0, database.epoch),
    }
    [about] = [one for one in found if one.rule == incidents.SERVER]
    assert about.expected == f"127.0.0.1:{servers.first.port}: read-only"

    acting(database, who="ops").incidents.acknowledge(about.id, note="it is rebuilt")
    still_open = database.read(lambda session: incidents.listing(session, only_open=True))
    assert [one.rule for one in still_open] == [incidents.DATABASE]


def test_who_only_reads_leaves_a_primary_that_has_become_read_only(
    servers: Replicated, open_database: Open
) -> None:
    database = open_database(fail_fast=True)
    clock = DatabaseClock(database, monotonic=time.monotonic)
    fail_over(servers)

    clock.run_round()

    assert port_of(database) == servers.second.port


def test_what_is_only_read_may_be_a_replica(servers: Replicated, open_database: Open) -> None:
    reader = open_database(servers.url(servers.second), for_writing=False)

    assert notes(reader) == 0
    assert not reader.read(all_epochs)


def test_a_replica_that_can_be_written_is_not_taken_for_a_promoted_server(
    servers: Replicated, open_database: Open
) -> None:
    servers.second.execute("SET GLOBAL read_only = 0")
    database = open_database()
    note(database)
    servers.first.execute("SET GLOBAL read_only = 1")

    with pytest.raises(DatabaseUnavailable, match="it is a replica of another server"):
        note(database)


def test_a_check_says_whether_the_server_takes_writes(servers: Replicated) -> None:
    settings = Settings(database_url=servers.url(servers.first))
    assert check_database(settings).endswith(f"schema {version.newest_version()}")
    servers.first.execute("SET GLOBAL read_only = 1")

    with pytest.raises(ValueError, match=f"127.0.0.1:{servers.first.port} takes no writes"):
        check_database(settings)


def test_a_check_of_a_file_names_no_servers(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/warren.db")
    database = Database(settings.needed_database_url())
    migration.upgrade(database)
    database.close()

    assert check_database(settings).endswith(f"warren.db, schema {version.newest_version()}")


def test_without_a_recorded_server_the_next_process_records_its_own(
    servers: Replicated, open_database: Open
) -> None:
    database = open_database()
    database.write(lambda s: s.execute(update(Cluster).values(server=None)))

    version.check(open_database())

    assert database.read(lambda s: s.execute(select(Cluster.server)).scalar()) == "server 1"
    assert not database.read(all_epochs)


def test_a_list_waits_for_no_server_that_refuses_connections(
    servers: Replicated, open_database: Open
) -> None:
    servers.second.stop()
    try:
        assert port_of(open_database()) == servers.first.port
    finally:
        servers.second.start()

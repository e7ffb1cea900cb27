"""What tests ask for by name: real services of their own, and the check that nothing is left."""

import gc
import os
import signal
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.cheap_parts import hash_passwords_quickly, share_compiled_statements
from tests.support.command import end_warm_commands
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.processes import SESSION_MARK, Process, processes_with_env, started
from tests.support.rabbitmq import PrivateRabbit
from tests.support.restored_logs import restored_logs
from tests.support.running_order import SHARED, running_order
from tests.support.schemas import ServerSchemas, SQLiteSchema
from tests.support.server_words import ON_POSTGRESQL, DatabaseServer
from tests.support.shared_services import SharedServices

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["restored_logs"]

#: A variable with the id of the process that runs the tests, for its workers.
_CONTROLLER = "TEST_CONTROLLER"
#: 700 is usual; looking at objects that often is a twentieth of what tests compute.
_OBJECTS_BETWEEN_COLLECTIONS = 20_000


def pytest_configure() -> None:
    """Let signals end what the tests start, even if whoever started the tests ignores them."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # How long an example takes says how busy the machine is.
    settings.register_profile(
        "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep thousands of tests, and all that they import, from the collector of garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Leave needless twins out; begin with what takes long."""
    if os.environ.get("TEST_TWINS") != "all":
        needless = [
            item
            for item in items
            if item.get_closest_marker("twin") and not item.get_closest_marker("both")
        ]
        config.hook.pytest_deselected(items=needless)
        items[:] = [item for item in items if item not in set(needless)]
    items[:] = running_order(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Function | None) -> None:
    """End shared processes after the last test in a row that wants them."""
    for name in SHARED:
        if name in item.fixturenames and (nextitem is None or name not in nextitem.fixturenames):
            item._fixtureinfo.name2fixturedefs[name][-1].finish(item._request)  # type: ignore[arg-type]


@pytest.fixture(scope="session", autouse=True)
def _cheap_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        hash_passwords_quickly(patch)
        share_compiled_statements(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def _end_of_the_resource_tracker() -> Iterator[None]:
    """Let the tracker go that spawning a zygote has started: it ends with its last pipe."""
    yield
    tracker = resource_tracker._resource_tracker  # type: ignore[attr-defined]
    if tracker._fd is not None:
        os.close(tracker._fd)
        eventually(lambda: os.waitpid(tracker._pid, os.WNOHANG)[0])
        tracker._fd = tracker._pid = None


@pytest.fixture(scope="session", autouse=True)
def _end_of_the_warm_commands() -> Iterator[None]:
    yield
    end_warm_commands()


@pytest.fixture(scope="session")
def _shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SharedServices:
    return _shared_services(request.config, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def rabbitmq(_shared: SharedServices) -> PrivateRabbit:
    """The run's broker; nobody may stop, block or kill it: that is for `own_rabbitmq`."""
    _require("RabbitMQ", installed=PrivateRabbit.is_installed())
    return _shared.rabbitmq()


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> DatabaseServer:
    """The run's database server; nobody may stop it: that is for `own_mariadb`.

    With TEST_DATABASE it is another one, and so is what is made from it.
    """
    kind = "postgresql" if ON_POSTGRESQL else "mysql_server"
    server: DatabaseServer = request.getfixturevalue(kind)
    return server


@pytest.fixture(scope="session")
def mysql_server(_shared: SharedServices) -> PrivateMariaDB:
    """A MariaDB, or MySQL, whatever Warren's own database is; nobody may stop it."""
    _require("MariaDB", installed=PrivateMariaDB.is_installed())
    return _shared.mariadb()


@pytest.fixture(scope="session")
def postgresql(_shared: SharedServices) -> PrivatePostgreSQL:
    """The run's PostgreSQL; nobody may stop it."""
    _require("PostgreSQL", installed=PrivatePostgreSQL.is_installed())
    return _shared.postgresql()


@pytest.fixture(scope="session")
def _broken_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRabbit]:
    yield from _broker(tmp_path_factory.mktemp("broken-rabbitmq"))


@pytest.fixture(scope="session")
def _broken_mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseServer]:
    yield from _database_server(tmp_path_factory.mktemp("broken-mariadb"))


@pytest.fixture
def own_rabbitmq(_broken_rabbitmq: PrivateRabbit) -> Iterator[PrivateRabbit]:
    """A second broker, to be stopped, killed, blocked, wiped.

    It is one per worker, in order and empty again for each test: its start costs 5 s, that nothing.
    Not one per run, as tests that harm it last up to 20 s, and others would wait for them.
    """
    yield _broken_rabbitmq
    _broken_rabbitmq.heal()


@pytest.fixture
def own_mariadb(_broken_mariadb: DatabaseServer) -> Iterator[DatabaseServer]:
    """A second database server, to be stopped and killed; one per worker, like `own_rabbitmq`."""
    yield _broken_mariadb
    _broken_mariadb.heal()


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    """A browser; what tests do in it they do in contexts of their own, which cost little.

    It ends with the last test in a row that wants it: until then no event loop may run here.
    """
    from tests.support.browser import browser, require_chromium  # noqa: PLC0415 - few need it

    require_chromium()
    with browser() as found:
        yield found


@pytest.fixture
def vhost(rabbitmq: PrivateRabbit) -> str:
    """The AMQP URL of a vhost that no other test has."""
    return rabbitmq.vhost_url(rabbitmq.add_vhost())


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'warren.db'}"


@pytest.fixture
def mariadb_url(mariadb: DatabaseServer) -> Iterator[str]:
    """The URL of an empty database on the session's MariaDB, dropped after the test."""
    url = mariadb.create_database()
    yield url
    mariadb.drop_database(url.rpartition("/")[2])


@pytest.fixture(params=["sqlite", "mariadb"])
def any_database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database; the test runs once for each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def sqlite_schema(tmp_path_factory: pytest.TempPathFactory) -> SQLiteSchema:
    """What makes SQLite databases with the newest schema and no rows."""
    return SQLiteSchema(tmp_path_factory.mktemp("schema"))


@pytest.fixture
def sqlite_schema_url(sqlite_schema: SQLiteSchema, tmp_path: Path) -> str:
    """The URL of an SQLite database with the newest schema and no rows."""
    return sqlite_schema.copy(tmp_path / "warren.db")


@pytest.fixture(scope="session")
def _mariadb_schemas(mariadb: DatabaseServer) -> ServerSchemas:
    return ServerSchemas(mariadb)


@pytest.fixture
def mariadb_schema_url(_mariadb_schemas: ServerSchemas) -> Iterator[str]:
    """The URL of a database with the newest schema and no rows, on the session's MariaDB."""
    url = _mariadb_schemas.lend()
    yield url
    _mariadb_schemas.take_back(url)


@pytest.fixture(scope="session")
def _postgresql_schemas(postgresql: PrivatePostgreSQL) -> ServerSchemas:
    return ServerSchemas(postgresql)


@pytest.fixture
def postgresql_schema_url(_postgresql_schemas: ServerSchemas) -> Iterator[str]:
    """The URL of a database with the newest schema and no rows, on the session's PostgreSQL."""
    url = _postgresql_schemas.lend()
    yield url
    _postgresql_schemas.take_back(url)


@pytest.fixture
def schema_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database with the newest schema: MariaDB, or "sqlite" by parametrisation."""
    url: str = request.getfixturevalue(f"{getattr(request, 'param', 'mariadb')}_schema_url")
    return url


@pytest.fixture(params=["sqlite", "mariadb"])
def any_schema_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database with the newest schema; the test runs once for each kind."""
    url: str = request.getfixturevalue(f"{request.param}_schema_url")
    return url


def _shared_services(config: pytest.Config, folder: Path) -> SharedServices:
    """Return the services of the whole run: those of the process that started the workers."""
    if _is_worker(config):
        return SharedServices(folder.parent / "services", int(os.environ[_CONTROLLER]))
    return SharedServices(folder / "services", os.getpid())


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def _broker(folder: Path) -> Iterator[PrivateRabbit]:
    _require("RabbitMQ", installed=PrivateRabbit.is_installed())
    broker = PrivateRabbit(folder)
    broker.start()
    yield broker
    broker.close()


def _database_server(folder: Path) -> Iterator[DatabaseServer]:
    kind, name = (PrivatePostgreSQL, "PostgreSQL") if ON_POSTGRESQL else (PrivateMariaDB, "MariaDB")
    _require(name, installed=kind.is_installed())
    server = kind(folder)
    server.start()
    yield server
    server.close()


def _require(what: str, *, installed: bool) -> None:
    """Skip the test on a machine without the service, except in CI: there it must be."""
    if installed:
        return
    reason = f"{what} is not installed: make services"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Mark this session, so that whatever it starts can be told from everything else."""
    os.environ[SESSION_MARK] = uuid.uuid4().hex
    if not _is_worker(session.config):
        os.environ[_CONTROLLER] = str(os.getpid())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session when a process that its tests started still lives; then end that."""
    if not _is_worker(session.config):
        folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        _shared_services(session.config, folder).end()
    if session.config.pluginmanager.has_plugin("dsession"):
        left = session.config.stash.get(_LEFT, [])  # the workers have looked, each for its own
    else:
        left = _end_left_over()
        session.config.stash[_LEFT] = left
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = left
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist found left behind."""
    left = node.config.stash.setdefault(_LEFT, [])
    left.extend(getattr(node, "workeroutput", {}).get("left", []))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the processes that tests left behind."""
    for line in config.stash.get(_LEFT, []):
        terminalreporter.write_line(f"FAILED: a test left a process behind: {line}", red=True)


_LEFT = pytest.StashKey[list[str]]()


def _end_left_over() -> list[str]:
    left = _left_over()
    words = [f"{p.pid} {p.name} {_command_line(p)}" for p in left]
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    return words


def _left_over() -> list[Process]:
    marked = processes_with_env(SESSION_MARK, os.environ[SESSION_MARK])
    known = {process.pid: process for process in [*started, *marked] if process.is_alive}
    known.pop(os.getpid(), None)
    return list(known.values())


def _command_line(process: Process) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        return b" ".join(words).decode(errors="replace")
    return ""

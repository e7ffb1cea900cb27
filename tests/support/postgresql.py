"""A private PostgreSQL on 127.0.0.1: its own data folder, port and password.

It is stopped after the tests. It refuses to be root, so it runs as the user that its package makes.
"""

import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import Process, descendants
from tests.support.service import Service

with suppress(ModuleNotFoundError):  # the extra [postgresql]; without it, nothing here is used
    import psycopg

#: The name of the server's process.
SERVER = "postgres"
#: Who runs it in place of root.
_USER = "postgres"
#: Where Debian has the programs, the newest last.
_FOLDERS = "/usr/lib/postgresql/*/bin"
# Fully durable (commits are flushed), with little memory.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "max_connections": "1000",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
    "lc_messages": "C",
    "log_min_error_statement": "panic",  # some have a thousand rows
}


class PrivatePostgreSQL:
    """One server; after `stop` or `kill`, `start` finds the same data at the same port.

    With `owner` it ends with that process. With the `facts` of a running one it is that one. A
    standby has the `password` of its primary.
    """

    def __init__(
        self,
        folder: Path,
        *,
        owner: int | None = None,
        facts: dict[str, Any] | None = None,
        password: str = "",
    ) -> None:
        self._folder = folder
        self._owner = owner
        #: Options of its next start, besides those of every test.
        self.options: tuple[str, ...] = ()
        self._names = (f"warren_{os.getpid()}_{number}" for number in itertools.count(1))
        self._service: Service | None = None
        self._keeper: int = facts["keeper"] if facts else 0
        self._data = _place_of(folder)
        if facts is None:
            self.port, self._server = free_port(), 0
            self._password = password or secrets.token_hex(8)
        else:
            self.port, self._password = facts["port"], facts["password"]
            self._server = facts["pid"]

    def facts(self) -> dict[str, Any]:
        """Return what another process needs to use this running server, but not to end it."""
        assert self._service is not None
        return {
            "port": self.port,
            "password": self._password,
            "pid": self._server,
            "keeper": self._service.keeper,
        }

    @staticmethod
    def is_installed() -> bool:
        """Whether server and driver are installed."""
        return _program(SERVER) is not None and "psycopg" in globals()

    @property
    def pid(self) -> int:
        """The id of the server's process, for signals."""
        return self._server

    @property
    def password(self) -> str:
        """The password of root."""
        return self._password

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database for the user root."""
        return f"postgresql+psycopg://root:{self._password}@127.0.0.1:{self.port}/{database}"

    def processes(self) -> list[Process]:
        """Return its live processes; empty if it is stopped."""
        if self._keeper:
            return descendants(self._keeper)
        return self._service.processes() if self._service else []

    def start(self) -> None:
        """Start the server and wait until it answers: 2 s the first time, later half a second."""
        assert self._service is None, "started twice"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._open_way()
        if not self._data.exists():
            self._install()
        self._service = Service(
            self._command(),
            # One that is shared is never stopped, only ended, and by whoever comes last.
            env={"REMOVED_AT_END": str(self._data)} if self._owner else {},
            output=self._folder / "output.log",
            owner=self._owner,
        )
        try:
            eventually(self._answers, seconds=180.0, every=0.02)
        except BaseException:
            self._service.end()
            self._service = None
            raise
        self._server = self._service.pid_of(SERVER)

    def stop(self) -> None:
        """Stop cleanly: open transactions are rolled back, all data is written."""
        self._end_by(signal.SIGINT)

    def close(self) -> None:
        """End it at once and for good, without flushing its data."""
        service, self._service = self._service, None
        if service is not None:
            service.end()
        shutil.rmtree(self._data, ignore_errors=True)

    def kill(self) -> None:
        """Kill it by SIGKILL; the processes of its connections end with it."""
        self._end_by(signal.SIGKILL)

    def freeze(self) -> None:
        """Let all its processes stand still, until `thaw`."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let those that stand still go on."""
        self._signal_all(signal.SIGCONT)

    def heal(self) -> None:
        """Restore its first state: its own options, and no databases of tests."""
        if self.options:
            self.stop()
            self.options = ()
        if self._service is None:
            self.start()
        self.thaw()
        for (name,) in self.execute("SELECT datname FROM pg_database WHERE datname LIKE 'warren%'"):
            self.drop_database(str(name))

    def use_certificate(self, file: Path) -> None:
        """Start again with a certificate and its key."""
        self.stop()
        copy = self._data / "server.pem"
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o600)
        self._give(copy)
        self.options = ("ssl=on", "ssl_cert_file=server.pem", "ssl_key_file=server.pem")
        self.start()

    def create_database(self, name: str | None = None) -> str:
        """Create an empty database and return its URL; by default with a unique name."""
        name = name or next(self._names)
        self.execute(f'CREATE DATABASE "{name}" STRATEGY WAL_LOG')
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, even if it is in use."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def is_in_use(self, name: str) -> bool:
        """Return whether a database has connections."""
        return bool(self.execute(f"SELECT 1 FROM pg_stat_activity WHERE datname = '{name}'"))

    def execute(self, statement: str, *, database: str | None = None) -> list[tuple[object, ...]]:
        """Run one statement as root, by default in no database of tests, and return its rows.

        Raises:
            psycopg.OperationalError: the server does not let anybody in, for 5 s if it is silent.

        """
        with self._connect(database) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def add_account(self, name: str, password: str, database: str) -> None:
        """Create an account that owns a database."""
        self.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        self.execute(f'ALTER DATABASE "{database}" OWNER TO {name}')

    def add_role(self, name: str, password: str) -> str:
        """Create an account without rights; return what statements call it."""
        self.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        return name

    def end_sessions(self, database: str) -> None:
        """End every session of a database."""
        named = f"FROM pg_stat_activity WHERE datname = '{database}'"
        self.execute(f"SELECT pg_terminate_backend(pid) {named}")

    def environment(self) -> dict[str, str]:
        """Return what lets its own programs, such as psql, find it and be root there."""
        programs = Path(str(_program(SERVER))).parent
        return {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": "root",
            "PGPASSWORD": self._password,
        }

    def _connect(self, database: str | None = None) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            password=self._password,
            dbname=database or "postgres",
            connect_timeout=5,
            autocommit=True,
            sslmode="disable",
        )

    def _install(self) -> None:
        """Make the data folder; its user owns it, and may go there through the tests' folders."""
        self._data.mkdir(mode=0o700)
        password = self._data.with_name(f"{self._data.name}.password")
        password.touch(mode=0o600)
        password.write_text(self._password)
        for path in (self._data, password):
            self._give(path)
        self._run(
            "initdb",
            f"--pgdata={self._data}",
            "--username=root",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            # One that orders texts otherwise than by code point.
            "--locale=C.UTF-8",
            "--locale-provider=icu",
            "--icu-locale=en",
            "--no-sync",
        )
        password.unlink()

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program of the package, as the server's user."""
        done = subprocess.run(
            [*_as_user(), str(_program(program)), *arguments],
            env=os.environ | {"PGPASSWORD": self._password},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd="/",
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def _give(self, path: Path) -> None:
        """Let the server's user own it."""
        if os.geteuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(path, user.pw_uid, user.pw_gid)

    def _open_way(self) -> None:
        """Let the server's user reach its folder, which is in some that only we may enter."""
        if os.geteuid() == 0:
            for folder in self._data.parents:
                mode = folder.stat().st_mode
                if not mode & 0o001:
                    folder.chmod(mode | 0o001)

    def _command(self) -> list[str]:
        settings = {**_SETTINGS, "port": str(self.port)}
        return [
            *_as_user(),
            str(_program(SERVER)),
            "-D",
            str(self._data),
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            *(part for option in self.options for part in ("-c", option)),
        ]

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the server, then to what it has started."""
        pids = {self._server} | {process.pid for process in self.processes()}
        for pid in sorted(pids, key=lambda one: one != self._server):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end_by(self, number: signal.Signals) -> None:
        service, self._service = self._service, None
        if service is None:
            return
        service.signal(self._server, number)
        for process in service.processes():  # one that stands still could not end
            service.signal(process.pid, signal.SIGCONT)
        service.wait(60.0)
        service.end()

    def _answers(self) -> bool:
        assert self._service is not None
        if self._service.has_ended:
            text = f"PostgreSQL ended at its start: {self._service.last_words()}"
            raise RuntimeError(text)
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True


def _program(name: str) -> str | None:
    newest = sorted(Path("/").glob(_FOLDERS[1:]), key=lambda path: path.parent.name)
    places = [*map(str, reversed(newest)), os.environ["PATH"], "/usr/bin"]
    return shutil.which(name, path=":".join(places))


def _as_user() -> Sequence[str]:
    """Return what makes a command the package's user, and ends it with its parent all the same."""
    if os.geteuid() != 0:
        return []
    groups = f"--regid={pwd.getpwnam(_USER).pw_gid}"
    return ["setpriv", f"--reuid={_USER}", groups, "--clear-groups", "--pdeathsig", "KILL"]


def _place_of(folder: Path) -> Path:
    """Return where its data go.

    pytest closes its folders to other users whenever it starts, unless it was told where they are.
    """
    if not any(parent.name.startswith("pytest-of-") for parent in folder.parents):
        return folder / "data"
    return Path(tempfile.gettempdir()) / f"warren-postgresql-{os.getpid()}-{secrets.token_hex(4)}"

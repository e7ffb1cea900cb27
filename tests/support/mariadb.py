"""A private MariaDB on 127.0.0.1: its own data folder, port and password; stopped after the tests.

With TEST_DATABASE=mysql it is a MySQL instead.
"""

import itertools
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import Process, descendants
from tests.support.service import Service

# Fully durable (commits are flushed), with little memory. The binary log is off, as by default.
_OPTIONS = (
    "--bind-address=127.0.0.1",
    "--innodb-buffer-pool-size=128M",
    "--innodb-flush-log-at-trx-commit=1",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_unicode_ci",
    "--skip-name-resolve",
    "--max-connections=1000",
    "--default-time-zone=+00:00",
)


@dataclass(frozen=True)
class _Product:
    """A database server, and how it creates a data folder whose root has no password."""

    server: str
    dump: str
    installer: str
    install: Sequence[str]
    options: Sequence[str] = ()


_MARIADB = _Product(
    server="mariadbd",
    dump="mariadb-dump",
    installer="mariadb-install-db",
    # --force: otherwise it fails if this machine's own name cannot be resolved.
    install=("--auth-root-authentication-method=normal", "--skip-test-db", "--force"),
)
_MYSQL = _Product(
    server="mysqld",
    dump="mysqldump",
    installer="mysqld",
    install=("--initialize-insecure",),
    # The folder of its default for files need not exist.
    options=("--skip-log-bin", "--mysqlx=OFF", "--secure-file-priv=NULL"),
)
_PRODUCT = _MYSQL if os.environ.get("TEST_DATABASE") == "mysql" else _MARIADB
#: The name of the server's process.
SERVER = _PRODUCT.server
#: The program that writes dumps.
DUMP_PROGRAM = _PRODUCT.dump


class PrivateMariaDB:
    """One server; after `stop` or `kill`, `start` finds the same data at the same port.

    With `owner` it ends with that process. With the `facts` of a running one it is that one. Nodes
    that get each other's data have one `password`.
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
        #: Options of its next start, besides those of every test, and variables.
        self.options: tuple[str, ...] = ()
        self.environment: dict[str, str] = {}
        self._data = folder / "data"
        self._names = (f"warren_{os.getpid()}_{number}" for number in itertools.count(1))
        self._service: Service | None = None
        self._keeper: int = facts["keeper"] if facts else 0
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
        """Whether the server is installed."""
        return None not in (_program(_PRODUCT.server), _program(_PRODUCT.installer))

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
        return f"mysql+pymysql://root:{self._password}@127.0.0.1:{self.port}/{database}"

    def processes(self) -> list[Process]:
        """Return its live processes; empty if it is stopped."""
        if self._keeper:
            return descendants(self._keeper)
        return self._service.processes() if self._service else []

    def start(self) -> None:
        """Start the server and wait until it answers: 2 s the first time, later half a second."""
        assert self._service is None, "started twice"
        if not self._data.exists():
            self._install()
        self._service = Service(
            self._command(),
            env=self.environment,
            output=self._folder / "output.log",
            owner=self._owner,
        )
        try:
            eventually(self._answers, seconds=180.0, every=0.02)
        except BaseException:
            self._service.end()
            self._service = None
            raise
        self._server = self._service.pid_of(_PRODUCT.server)

    def stop(self) -> None:
        """Stop cleanly: open transactions are rolled back, all data is written."""
        self._end_by(signal.SIGTERM)

    def close(self) -> None:
        """End it at once and for good, without flushing its data."""
        service, self._service = self._service, None
        if service is not None:
            service.end()

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        self._end_by(signal.SIGKILL)

    def heal(self) -> None:
        """Restore its first state: its own options, and no databases of tests."""
        if self.options:
            self.stop()
            self.options = ()
        if self._service is None:
            self.start()
        os.kill(self._server, signal.SIGCONT)
        for (name,) in self.execute("SHOW DATABASES LIKE 'warren%'"):
            self.drop_database(str(name))

    def create_database(self, name: str | None = None) -> str:
        """Create an empty database and return its URL; by default with a unique name."""
        name = name or next(self._names)
        self.execute(f"CREATE DATABASE `{name}`")
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, even if it is in use."""
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def is_in_use(self, name: str) -> bool:
        """Return whether a database has connections."""
        # MySQL cannot select from this list while a statement in it has an emoji, and the short
        # form may cut one in two.
        listed = self.execute("SHOW FULL PROCESSLIST")
        return any(database == name for _, _, _, database, *_ in listed)

    def execute(
        self, statement: str, *, database: str | None = None, patience: float | None = None
    ) -> list[tuple[object, ...]]:
        """Run one statement as root, by default outside every database, and return its rows.

        With `patience` it raises pymysql.MySQLError if that many seconds bring no answer.
        """
        with self._connect(patience, database) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            connection.commit()
            return list(cursor.fetchall())

    def add_account(self, name: str, password: str, database: str) -> None:
        """Create an account that may do everything in a database."""
        self.execute(f"CREATE USER {name} IDENTIFIED BY '{password}'")
        self.execute(f"GRANT ALL ON `{database}`.* TO {name}")

    def add_role(self, name: str, password: str) -> str:
        """Create an account without rights; return what statements call it."""
        account = f"'{name}'@'127.0.0.1'"
        self.execute(f"CREATE USER {account} IDENTIFIED BY '{password}'")
        return account

    def end_sessions(self, database: str) -> None:
        """End every session of a database."""
        named = f"information_schema.processlist WHERE db = '{database}'"
        for (number,) in self.execute(f"SELECT id FROM {named}"):
            with suppress(pymysql.MySQLError):  # it has ended
                self.execute(f"KILL {number}")

    def _connect(
        self, patience: float | None = None, database: str | None = None
    ) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            password=self._password,
            database=database,
            connect_timeout=5,
            read_timeout=patience,
            ssl_disabled=True,  # loading this machine's CA certificates takes 40 ms
        )

    def _install(self) -> None:
        done = subprocess.run(
            [
                str(_program(_PRODUCT.installer)),
                "--no-defaults",
                *_PRODUCT.install,
                f"--datadir={self._data}",
                *_as_root(),
            ],
            env=os.environ | {"TMPDIR": str(self._temporary())},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{_PRODUCT.installer}: {done.stdout}{done.stderr}"
        self._first_statements.write_text(
            "SET sql_log_bin = 0;\n"  # a replica has its own
            f"ALTER USER root@localhost IDENTIFIED BY '{self._password}';\n"
            "CREATE USER IF NOT EXISTS root@127.0.0.1;\n"
            f"ALTER USER root@127.0.0.1 IDENTIFIED BY '{self._password}';\n"
            "GRANT ALL ON *.* TO root@127.0.0.1 WITH GRANT OPTION;\n"
        )

    @property
    def _first_statements(self) -> Path:
        """A file of statements that it runs at its start."""
        return self._folder / "init.sql"

    def _command(self, *more: str) -> list[str]:
        return [
            str(_program(_PRODUCT.server)),
            "--no-defaults",
            *_OPTIONS,
            *_PRODUCT.options,
            *self._places(),
            *self.options,
            *more,
        ]

    def _places(self) -> list[str]:
        first = self._first_statements
        return [
            f"--datadir={self._data}",
            f"--tmpdir={self._temporary()}",
            f"--port={self.port}",
            # Relative to the data folder, as an absolute path may be too long for a socket.
            "--socket=socket",
            "--pid-file=pid",
            *([f"--init-file={first}"] if first.exists() else []),
            *_as_root(),
        ]

    def _temporary(self) -> Path:
        """Each server needs its own: on start it deletes temporary tables there."""
        folder = self._folder / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _end_by(self, number: signal.Signals) -> None:
        service, self._service = self._service, None
        if service is None:
            return
        service.signal(self._server, number)
        service.wait(60.0)
        service.end()

    def _answers(self) -> bool:
        assert self._service is not None
        if self._service.has_ended:
            text = f"MariaDB ended at its start: {self._service.last_words()}"
            raise RuntimeError(text)
        try:
            self._connect().close()
        except pymysql.MySQLError:
            return False
        return True


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin")


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []

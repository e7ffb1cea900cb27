"""A MariaDB and its asynchronous replica; either can be the primary.

Warren's account is an ordinary one: root may write to a server that is read-only.
"""

from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.mariadb import SERVER, PrivateMariaDB

_ACCOUNT, _PASSWORD = "warren", "hush"


class Replicated:
    """Two servers in a folder. `renew` makes the first the primary, with an empty database."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = (
            PrivateMariaDB(folder / "first"),
            PrivateMariaDB(folder / "second"),
        )
        for number, server in enumerate((self.first, self.second), start=1):
            server.options = (f"--server-id={number}", "--log-bin=binlog", "--skip-slave-start")
        self.database = ""
        self._count = 0

    @property
    def urls(self) -> str:
        """The URLs of both servers, as Warren's setting has them."""
        return f"{self.url(self.first)},{self.url(self.second)}"

    def url(self, server: PrivateMariaDB) -> str:
        return f"mysql+pymysql://{_ACCOUNT}:{_PASSWORD}@127.0.0.1:{server.port}/{self.database}"

    def start(self) -> None:
        if SERVER != "mariadbd":
            pytest.skip("the replica is set up in MariaDB's words")
        for server in (self.first, self.second):
            server.start()

    def close(self) -> None:
        for server in (self.first, self.second):
            server.close()

    def renew(self) -> None:
        """Let the second server replicate a new, empty database of the first."""
        for server in (self.first, self.second):
            server.execute("STOP SLAVE")
            server.execute("RESET SLAVE ALL")
            server.execute("SET GLOBAL read_only = 0")
            server.execute(f"DROP DATABASE IF EXISTS `{self.database or 'warren'}`")
        self._count += 1
        self.database = f"warren_{self._count}"
        for server in (self.first, self.second):
            server.execute(f"DROP USER IF EXISTS {_ACCOUNT}@127.0.0.1")
            server.execute("RESET MASTER")
        self.first.execute(f"CREATE DATABASE `{self.database}`")
        self.first.execute(f"CREATE USER {_ACCOUNT}@127.0.0.1 IDENTIFIED BY '{_PASSWORD}'")
        self.first.execute(f"GRANT ALL ON `{self.database}`.* TO {_ACCOUNT}@127.0.0.1")
        self.second.execute("SET GLOBAL gtid_slave_pos = ''")
        self.replicate(self.second, source=self.first)

    def replicate(self, server: PrivateMariaDB, *, source: PrivateMariaDB) -> None:
        """Let a server take the changes of another one, and no others."""
        server.execute("SET GLOBAL read_only = 1")
        server.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={source.port}, "
            f"MASTER_USER='root', MASTER_PASSWORD='{source.password}', "
            "MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1"
        )
        server.execute("START SLAVE")
        self.await_copy()

    def await_copy(self) -> None:
        """Wait until the second server has what the first has."""
        [(position,)] = self.first.execute("SELECT @@gtid_binlog_pos")
        eventually(lambda: self.second.execute("SELECT @@gtid_slave_pos") == [(position,)])

    def promote(self, server: PrivateMariaDB) -> None:
        """Let a replica take writes, as tools for failover do."""
        server.execute("STOP SLAVE")
        server.execute("RESET SLAVE ALL")
        server.execute("SET GLOBAL read_only = 0")

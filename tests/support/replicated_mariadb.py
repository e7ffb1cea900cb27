"""A private MariaDB with a replica on 127.0.0.1, and what operators do when the primary is lost."""

import secrets
import shutil
from contextlib import suppress
from pathlib import Path

import pymysql
from pymysql.cursors import DictCursor

from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB

#: For how many seconds a server may stand still that is asked how it is.
PATIENCE = 1
_OPTIONS = (
    "--log-bin=binlog",
    "--log-slave-updates=ON",
    "--relay-log=relay",
    "--binlog-format=ROW",
    "--slave-parallel-threads=4",
)
_LOSSLESS = (
    "--rpl-semi-sync-master-enabled=ON",
    "--rpl-semi-sync-slave-enabled=ON",
    "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
    # While there is no replica, after a failover, the primary goes on alone.
    "--rpl-semi-sync-master-wait-no-slave=OFF",
)


class ReplicatedMariaDB:
    """A primary and its replica, which change places.

    By default a commit waits until the replica has it. With a delay the replica is behind by so
    many seconds, and a failover loses them.
    """

    def __init__(self, folder: Path, delay_seconds: int = 0) -> None:
        self._delay_seconds = delay_seconds
        self.is_lossless = not delay_seconds
        password = secrets.token_hex(8)
        self.nodes = [
            _Node(folder / f"node-{number}", password, number, is_lossless=self.is_lossless)
            for number in (1, 2)
        ]
        self._primary, self._replica = self.nodes

    def start(self) -> None:
        """Start the primary, then its replica."""
        self._primary.start()
        self._replica.start()
        self._follow()
        eventually(self.is_whole, every=0.1)

    def is_whole(self) -> bool:
        """Whether the replica follows, and has every commit unless it is to be behind."""
        committed = self._primary.committed()
        told = self._replica.following()
        if (told.get("Slave_IO_Running"), told.get("Slave_SQL_Running")) != ("Yes", "Yes"):
            return False
        if self._delay_seconds:
            return int(str(told["Seconds_Behind_Master"] or 0)) <= self._delay_seconds + 1
        has_all = committed is not None and _number_of(told["Gtid_IO_Pos"]) >= committed
        return has_all and self._primary.waits_for_replicas()

    def serving(self) -> PrivateMariaDB:
        """Return the primary."""
        return self._primary

    def fail_over(self) -> PrivateMariaDB:
        """Kill the primary, and let the replica take its place; return the old primary."""
        lost, new = self._primary, self._replica
        lost.kill()
        if not self._delay_seconds:
            new.apply_all()
        new.promote()
        self._primary, self._replica = new, lost
        return lost

    def follow_again(self) -> None:
        """Make the old primary, whose data are of no use, the replica of the new one."""
        self._replica.empty()
        self._replica.start()
        self._follow()

    def close(self) -> None:
        """End everything at once and for good."""
        for node in self.nodes:
            node.close()

    def _follow(self) -> None:
        self._replica.follow(self._primary, self._delay_seconds)


class _Node(PrivateMariaDB):
    def __init__(self, folder: Path, password: str, number: int, *, is_lossless: bool) -> None:
        super().__init__(folder, password=password)
        self._number = number
        self._settings = (*_OPTIONS, *(_LOSSLESS if is_lossless else ()))

    def start(self) -> None:
        self.options = (*self._settings, f"--server-id={self._number}")
        super().start()

    def follow(self, primary: PrivateMariaDB, delay_seconds: int) -> None:
        self.execute(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port},"
            f" MASTER_USER = 'root', MASTER_PASSWORD = '{self._password}',"
            " MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1,"
            f" MASTER_DELAY = {delay_seconds}"
        )
        self.execute("START SLAVE")
        self.execute("SET GLOBAL read_only = ON")

    def following(self) -> dict[str, object]:
        """Return what it says of its replication; nothing if it does not answer or has none."""
        try:
            with self._connect(PATIENCE) as connection, connection.cursor(DictCursor) as cursor:
                cursor.execute("SHOW SLAVE STATUS")
                return dict(cursor.fetchone() or {})
        except (pymysql.MySQLError, OSError):
            return {}

    def committed(self) -> int | None:
        """Return the number of its newest transaction; None if it does not answer."""
        with suppress(pymysql.MySQLError, OSError):
            [(position,)] = self.execute("SELECT @@gtid_binlog_pos", patience=PATIENCE)
            return _number_of(position)
        return None

    def waits_for_replicas(self) -> bool:
        """Whether each of its commits waits for a replica now, also for one that is behind."""
        with suppress(pymysql.MySQLError, OSError):
            found = dict(
                self.execute("SHOW STATUS LIKE 'Rpl_semi_sync_master_%'", patience=PATIENCE)
            )
            return (
                found["Rpl_semi_sync_master_status"] == "ON"
                and int(str(found["Rpl_semi_sync_master_clients"])) > 0
            )
        return False

    def apply_all(self) -> None:
        """Apply all that it has received."""
        received = self.following()["Gtid_IO_Pos"]
        assert self.execute(f"SELECT MASTER_GTID_WAIT('{received}', 60)") == [(0,)], received

    def promote(self) -> None:
        """Stop following, for good."""
        self.execute("STOP SLAVE")
        self.execute("RESET SLAVE ALL")
        self.execute("SET GLOBAL read_only = OFF")

    def empty(self) -> None:
        """End it, and delete all its data."""
        self.kill()
        shutil.rmtree(self._data)
        self._number += 2  # a replica leaves out what has its own number


def _number_of(position: object) -> int:
    """Return the number of the last transaction at a position `DOMAIN-SERVER-NUMBER`."""
    return int(str(position).rpartition("-")[2] or 0)

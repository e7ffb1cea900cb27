"""A private PostgreSQL and its synchronous standby on 127.0.0.1, and how they change places."""

import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.postgresql import PrivatePostgreSQL

with suppress(ModuleNotFoundError):  # the extra [postgresql]; without it, nothing here is used
    import psycopg

#: Whether each commit waits for a standby now, which has applied all that there is.
_IS_FOLLOWED = """
SELECT count(*) FROM pg_stat_replication
WHERE state = 'streaming' AND sync_state = 'sync' AND replay_lsn >= pg_current_wal_flush_lsn()
"""


class ReplicatedPostgreSQL:
    """A primary and its synchronous standby, which change places.

    A commit waits until the standby has it on its disk. While there is no standby, after a
    failover, the new primary goes on alone.
    """

    is_lossless = True

    def __init__(self, folder: Path) -> None:
        password = secrets.token_hex(8)
        self.nodes = [_Node(folder / f"node-{number}", password=password) for number in (1, 2)]
        self._primary, self._standby = self.nodes

    def start(self) -> None:
        """Start the primary, then its standby."""
        self._primary.start()
        self._follow()
        eventually(self.is_whole, every=0.1)

    def is_whole(self) -> bool:
        """Whether each commit waits for the standby, and the standby has all of them."""
        with suppress(psycopg.OperationalError):
            return self._primary.execute(_IS_FOLLOWED) == [(1,)]
        return False

    def serving(self) -> PrivatePostgreSQL:
        """Return the primary."""
        return self._primary

    def fail_over(self) -> PrivatePostgreSQL:
        """Kill the primary, and let the standby take its place; return the old primary."""
        lost, new = self._primary, self._standby
        lost.kill()
        new.wait_for_standbys("")
        assert new.execute("SELECT pg_promote(true, 60)") == [(True,)]
        self._primary, self._standby = new, lost
        return lost

    def follow_again(self) -> None:
        """Make the old primary, whose data are of no use, the standby of the new one."""
        self._standby.kill()
        self._follow()

    def close(self) -> None:
        """End everything at once and for good."""
        for node in self.nodes:
            node.close()

    def _follow(self) -> None:
        self._standby.copy_of(self._primary)
        self._standby.start()
        self._primary.wait_for_standbys("*")


class _Node(PrivatePostgreSQL):
    def wait_for_standbys(self, names: str) -> None:
        """Let each commit wait for one of these standbys; without any, for none."""
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.execute("SELECT pg_reload_conf()")

    def copy_of(self, primary: PrivatePostgreSQL) -> None:
        """Take the primary's data in place of its own, and follow it from its next start on."""
        shutil.rmtree(self._data, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._data.mkdir(mode=0o700)
        self._open_way()
        self._give(self._data)
        self._run(
            "pg_basebackup",
            f"--pgdata={self._data}",
            "--host=127.0.0.1",
            f"--port={primary.port}",
            "--username=root",
            "--checkpoint=fast",
            "--wal-method=stream",
            "--write-recovery-conf",
            "--no-sync",
        )

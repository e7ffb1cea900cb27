"""The database servers that are measured, and what is asked of each in its own words."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks import cpu
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.server_words import DatabaseServer

#: The memory that a server for millions of rows would have at least.
MEMORY = "1GB"
#: A server that has written all but so many changed pages is no longer busy with the filling.
_DIRTY_PAGES = 100


class Sizes(NamedTuple):
    """Bytes of the table of runs with its indexes, and of all other tables; dead rows in each.

    Dead rows are old versions that have not been removed; None = the server does not tell.
    """

    runs: int
    others: int
    dead_runs: int | None = None
    dead_others: int | None = None


class MeasuredDatabase(Protocol):
    """One server. `process` is the name of its processes in tables."""

    process: str
    #: Statements that make the server note when a row of a run changes; SQL for that in epoch ms.
    note_changes: Sequence[str]
    changed_ms: str

    def words(self) -> str:
        """Return product and version."""

    def processor_seconds(self) -> float:
        """Return the processor time used so far."""

    def rows_read(self) -> int:
        """Return how many rows it has read so far, for all clients."""

    def sizes(self, database: str) -> "Sizes":
        """Return what a database takes on the disk now."""

    def take_memory(self) -> None:
        """Let it use MEMORY."""

    def settle(self, database: str) -> None:
        """Wait until it has done what follows the filling of a database."""


class MeasuredMariaDB:
    """See `MeasuredDatabase`."""

    process = "mariadbd"
    note_changes = (
        """ALTER TABLE xxl_job_log ADD COLUMN IF NOT EXISTS
        changed_at TIMESTAMP(3) NULL ON UPDATE CURRENT_TIMESTAMP(3)""",
    )
    changed_ms = "UNIX_TIMESTAMP(changed_at) * 1000"

    def __init__(self, server: PrivateMariaDB) -> None:
        self._server = server

    def words(self) -> str:
        """Ask for the version."""
        return f"MariaDB {self._server.execute('SELECT VERSION()')[0][0]}"

    def processor_seconds(self) -> float:
        """Return that of its only process."""
        return cpu.own(self._server.pid)

    def rows_read(self) -> int:
        """Add up its counters, by the way that rows were read."""
        statement = "SHOW GLOBAL STATUS LIKE 'Handler_read%'"
        return sum(int(str(count)) for _, count in self._server.execute(statement))

    def sizes(self, database: str) -> Sizes:
        """Ask for the files, as what the tables tell of themselves is seldom brought up to date."""
        files = (
            "SELECT IFNULL(SUM(IF(name = '{0}/xxl_job_log', file_size, 0)), 0),"
            " IFNULL(SUM(IF(name = '{0}/xxl_job_log', 0, file_size)), 0)"
            " FROM information_schema.innodb_sys_tablespaces WHERE name LIKE '{0}/%'"
        )
        [(runs, others)] = self._server.execute(files.format(database))
        return Sizes(int(str(runs)), int(str(others)))

    def take_memory(self) -> None:
        """Enlarge the buffer pool."""
        self._server.execute(f"SET GLOBAL innodb_buffer_pool_size = {1 << 30}")

    def settle(self, _database: str) -> None:
        """Wait until changed pages are on disk."""
        self._server.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        dirty = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'"
        eventually(
            lambda: int(str(self._server.execute(dirty)[0][1])) < _DIRTY_PAGES, 600, every=0.1
        )
        self._server.execute("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT")


class MeasuredPostgreSQL:
    """See `MeasuredDatabase`."""

    process = "postgres"
    note_changes = (
        "ALTER TABLE xxl_job_log ADD COLUMN IF NOT EXISTS changed_at TIMESTAMPTZ",
        """CREATE OR REPLACE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.changed_at = clock_timestamp(); RETURN NEW; END $$""",
        """CREATE OR REPLACE TRIGGER note_change BEFORE UPDATE ON xxl_job_log
        FOR EACH ROW EXECUTE FUNCTION note_change()""",
    )
    changed_ms = "EXTRACT(EPOCH FROM changed_at) * 1000"

    def __init__(self, server: PrivatePostgreSQL) -> None:
        self._server = server

    def words(self) -> str:
        """Ask for the version, without the name of its package."""
        [(version,)] = self._server.execute("SHOW server_version")
        return f"PostgreSQL {str(version).split()[0]}"

    def processor_seconds(self) -> float:
        """Add up those of its processes, one for each connection, ended ones included."""
        return cpu.own(self._server.pid) + cpu.below(self._server.pid)

    def rows_read(self) -> int:
        """Add up the counters of all databases, which are a second behind."""
        [(count,)] = self._server.execute("SELECT sum(tup_returned) FROM pg_stat_database")
        return int(str(count))

    def sizes(self, database: str) -> Sizes:
        """Ask for its files, and for what autovacuum goes by."""
        found = self._server.execute(
            "SELECT relname = 'xxl_job_log', CAST(sum(pg_total_relation_size(relid)) AS bigint),"
            " CAST(sum(n_dead_tup) AS bigint) FROM pg_stat_user_tables GROUP BY 1 ORDER BY 1 DESC",
            database=database,
        )
        (_, runs, dead_runs), (_, others, dead_others) = found
        return Sizes(*(int(str(figure)) for figure in (runs, others, dead_runs, dead_others)))

    def take_memory(self) -> None:
        """Start it again with more."""
        self._server.stop()
        self._server.options = (f"shared_buffers={MEMORY}",)
        self._server.start()

    def settle(self, database: str) -> None:
        """Do what autovacuum would do in its time, and write changed pages to disk."""
        self._server.execute("VACUUM ANALYZE", database=database)
        self._server.execute("CHECKPOINT")


#: The servers that can be chosen.
_KINDS: dict[str, type[DatabaseServer]] = {
    "mariadb": PrivateMariaDB,
    "postgresql": PrivatePostgreSQL,
}


def measured(server: DatabaseServer) -> MeasuredDatabase:
    """Return what is asked of a server."""
    if isinstance(server, PrivatePostgreSQL):
        return MeasuredPostgreSQL(server)
    return MeasuredMariaDB(server)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--database`, whose value `server` takes."""
    words = f"{' or '.join(_KINDS)}; default mariadb"
    parser.add_argument("--database", choices=_KINDS, default="mariadb", help=words)


def server(kind: str, folder: Path) -> DatabaseServer:
    """Return a private server, not yet started."""
    return _KINDS[kind](folder / kind)

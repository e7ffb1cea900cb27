"""Ready-made databases with the newest schema and no rows: migrating takes half a second."""

import shutil
import uuid
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import delete, text, update
from sqlalchemy.orm import Session

from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.models import Cluster, Model, Uptime
from warren.sql.schema import migration
from warren.sql.schema.version import version_of

#: Tables filled by the migration; their rows are kept.
_FILLED = ("warren_sequence", "warren_cluster")


class SQLiteSchema:
    """A migrated file, for copying."""

    def __init__(self, folder: Path) -> None:
        self._made = folder / "made.db"
        database = Database(f"sqlite:///{self._made}")
        migration.upgrade(database)
        with database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()

    def copy(self, path: Path) -> str:
        """Create a database at `path` and return its URL."""
        shutil.copy(self._made, path)
        url = f"sqlite:///{path}"
        _renew(url)
        return url


class ServerSchemas:
    """Migrated databases of one server, emptied after each test and used again."""

    def __init__(self, server: PrivateMariaDB | PrivatePostgreSQL) -> None:
        self._server = server
        self._free: list[str] = []

    def lend(self) -> str:
        """Return the URL of a database for exclusive use."""
        if self._free:
            url = self._free.pop()
            _renew(url)
            return url
        url = self._server.create_database()
        database = Database(url)
        migration.upgrade(database)
        database.close()
        return url

    def take_back(self, url: str) -> None:
        """Empty a database for the next test; drop it if it still has connections."""
        name = url.rpartition("/")[2]
        if self._server.is_in_use(name):
            self._server.drop_database(name)
            return
        database = Database(url, pool_size=1)
        database.write(empty)
        database.close()
        self._free.append(url)


def differences(session: Session) -> list[Any]:
    """Return how the tables differ from the models."""
    options = {"compare_type": True, "compare_server_default": True}
    context = MigrationContext.configure(session.connection(), opts=options)
    return list(compare_metadata(context, Model.metadata))


def ensure(database: Database) -> None:
    """Migrate a database that has no schema yet; checking costs less than migrating again."""
    with database.engine.connect() as connection:
        version = version_of(connection)
    if version is None:
        migration.upgrade(database)


def empty(session: Session) -> None:
    """Delete all rows but those of the migration, which are reset."""
    for table in Model.metadata.sorted_tables:
        if table.name not in _FILLED:
            session.execute(table.delete())
    session.execute(text("DELETE FROM warren_sequence WHERE name <> 'run'"))
    session.execute(text("UPDATE warren_sequence SET next_id = 1"))


def _renew(url: str) -> None:
    """Make the database a cluster of its own, whose first uptime begins now."""
    database = Database(url, pool_size=1)

    def unit(session: Session) -> None:
        now_ms = database_now_ms(session)
        session.execute(delete(Uptime))
        session.add(Uptime(down_since=now_ms, since_at=now_ms, until_at=now_ms, is_settled=1))
        session.execute(
            update(Cluster).values(
                cluster_id=uuid.uuid4().hex, secret_fingerprint=None, other_fingerprint=None
            )
        )

    database.write(unit)
    database.close()

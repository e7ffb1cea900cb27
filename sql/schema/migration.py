"""Migrates the schema to the newest version, with Alembic."""

import io

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import of
from warren.sql.engine import Database
from warren.sql.errors import SchemaMismatch
from warren.sql.models import Model
from warren.sql.schema.version import (
    MIGRATIONS,
    newest_version,
    version_of,
    version_problem,
    why_no_upgrade,
)

#: How long an upgrade waits for another one.
_LOCK_SECONDS = 60
#: How long one statement of a migration may take, such as an index on many millions of runs.
_ANSWER_SECONDS = 3_600


def upgrade(database: Database) -> str:
    """Migrate the schema to the newest version and return it; safe to run concurrently.

    Raises:
        SchemaMismatch: the server is too old, the schema is newer than this Warren or older than
            0.1.0, the database has tables with rows but no schema version, or another upgrade takes
            over a minute.
        DatabaseUnavailable: the database did not answer, or another upgrade of SQLite takes over
            25 s.

    """
    if problem := database.read(version_problem):
        raise SchemaMismatch(problem)
    migrating = Database(
        database.url.render_as_string(hide_password=False),
        pool_size=1,
        answer_seconds=_ANSWER_SECONDS,
        retry_seconds=_LOCK_SECONDS,  # on SQLite, another upgrade locks the whole file
    )
    try:
        migrating.write(_upgrade)
    finally:
        # The lock of an upgrade ends with its connection, so close it after the commit.
        migrating.close()
    return newest_version()


def upgrade_script(database: Database) -> str:
    """Return the SQL that creates the newest schema in an empty database of this kind."""
    out = io.StringIO()
    config = _config(output_buffer=out)
    config.attributes["url"] = database.engine.url
    command.upgrade(config, "head", sql=True)
    return out.getvalue()


def _config(**options: io.StringIO) -> Config:
    config = Config(**options)  # type: ignore[arg-type]
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _upgrade(session: Session) -> None:
    connection = session.connection()
    if not of(session).lock_upgrade(connection, _LOCK_SECONDS):
        raise SchemaMismatch("cannot upgrade the schema: another upgrade is under way")
    config = _config()
    version = version_of(connection)
    if version is None:
        _clear_unfinished(connection)
    elif problem := why_no_upgrade(connection, version):
        raise SchemaMismatch(problem)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _clear_unfinished(connection: Connection) -> None:
    """Drop the tables of a first upgrade that was killed; MySQL commits each table by itself.

    Such tables are empty. If one has rows, it belongs to another program, and nothing is dropped.

    Raises:
        SchemaMismatch: a table has rows.

    """
    existing = set(inspect(connection).get_table_names())
    tables = [table for table in Model.metadata.sorted_tables if table.name in existing]
    for table in tables:
        if connection.execute(select(func.count()).select_from(table)).scalar():
            raise SchemaMismatch(
                f"cannot make the schema: the database holds a table {table.name} with rows "
                "and no schema version; use an empty database"
            )
    Model.metadata.drop_all(connection, tables=tables)

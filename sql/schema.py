"""The schema's version: upgrading it, and refusing to work with another one."""

import io
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.orm import Session

from sql.engine import Database
from sql.errors import SchemaMismatch
from sql.models import Model

_MIGRATIONS = Path(__file__).parent / "migrations"
#: MySQL's and MariaDB's name for "somebody migrates"; one upgrade at a time.
_LOCK = "warren_migration"
_LOCK_SECONDS = 60


def upgrade(database: Database) -> str:
    """Bring the schema to the newest version; return that version. Safe to run at the same time.

    Raises:
        SchemaMismatch: somebody else has been migrating for over a minute.
        DatabaseUnavailable: the database did not answer.

    """
    database.write(lambda session: _upgrade(session.connection()))
    return newest_version()


def upgrade_script(database: Database) -> str:
    """Return the SQL that makes the newest schema in an empty database of this kind."""
    out = io.StringIO()
    config = _config(output_buffer=out)
    config.set_main_option("sqlalchemy.url", database.url.render_as_string().replace("%", "%%"))
    command.upgrade(config, "head", sql=True)
    return out.getvalue()


def check(database: Database) -> None:
    """Raise SchemaMismatch unless the schema is exactly the one this version needs."""
    problem = database.read(_problem)
    if problem:
        raise SchemaMismatch(problem)


def newest_version() -> str:
    """Return the schema version that this version of Warren needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    return str(head)


def _config(**options: io.StringIO) -> Config:
    config = Config(**options)  # type: ignore[arg-type]
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def _upgrade(connection: Connection) -> None:
    mysql = connection.dialect.name != "sqlite"
    if (
        mysql
        and not connection.exec_driver_sql(
            "SELECT GET_LOCK(%s, %s)", (_LOCK, _LOCK_SECONDS)
        ).scalar()
    ):
        raise SchemaMismatch("cannot upgrade the schema: another upgrade holds its lock")
    try:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    finally:
        if mysql:
            connection.exec_driver_sql("SELECT RELEASE_LOCK(%s)", (_LOCK,))


def _problem(session: Session) -> str | None:
    connection = session.connection()
    version = MigrationContext.configure(connection).get_current_revision()
    if version is None:
        return "the database has no schema yet; run: warren db upgrade"
    if version != newest_version():
        return (
            f"expected schema version {newest_version()}, got: {version}; "
            "run: warren db upgrade (or use the Warren that belongs to it)"
        )
    return _missing_index(connection)


def _missing_index(connection: Connection) -> str | None:
    inspector = inspect(connection)
    for table in Model.metadata.sorted_tables:
        found = {index["name"] for index in inspector.get_indexes(table.name)}
        found |= {index["name"] for index in inspector.get_unique_constraints(table.name)}
        wanted = {str(index.name) for index in table.indexes}
        wanted |= {
            str(constraint.name) for constraint in table.constraints if "i_" in str(constraint.name)
        }
        if missing := sorted(wanted - found):
            return f"table {table.name} has lost its index {missing[0]}; restore it before starting"
    return None

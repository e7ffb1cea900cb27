"""The schema's version: upgrading it, and refusing to work with another one."""

import io
from collections.abc import Iterator
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, Inspector, Table, UniqueConstraint, func, inspect, select
from sqlalchemy.orm import Session

from sql.engine import Database
from sql.errors import SchemaMismatch
from sql.models import Model, Run, Sequence
from sql.server_version import problem as version_problem

_MIGRATIONS = Path(__file__).parent / "migrations"
#: How long one upgrade waits for another one.
_LOCK_SECONDS = 60
#: How long one statement of a migration may take: an index on many millions of runs.
_ANSWER_SECONDS = 3_600


def upgrade(database: Database) -> str:
    """Bring the schema to the newest version; return that version. Safe to run at the same time.

    Raises:
        SchemaMismatch: the server is too old, the database holds tables that are not ours, or
            somebody else has been migrating for over a minute.
        DatabaseUnavailable: the database did not answer.

    """
    if problem := database.read(lambda session: version_problem(session.connection().dialect)):
        raise SchemaMismatch(problem)
    patient = Database(
        database.url.render_as_string(hide_password=False),
        pool_size=1,
        answer_seconds=_ANSWER_SECONDS,
    )
    try:
        patient.write(_upgrade)
    finally:
        # The lock of an upgrade ends with its connection, so after the commit.
        patient.close()
    return newest_version()


def upgrade_script(database: Database) -> str:
    """Return the SQL that makes the newest schema in an empty database of this kind."""
    out = io.StringIO()
    config = _config(output_buffer=out)
    config.attributes["dialect_name"] = database.url.get_backend_name()
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
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


def _upgrade(session: Session) -> None:
    connection = session.connection()
    _lock(connection)
    config = _config()
    version = MigrationContext.configure(connection).get_current_revision()
    if version is None:
        _clear_unfinished(connection)
    elif version not in {step.revision for step in _steps(config)}:
        raise SchemaMismatch(_another_version(version))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _steps(config: Config) -> Iterator[Script]:
    return ScriptDirectory.from_config(config).walk_revisions()


def _another_version(version: str) -> str:
    return (
        f"expected schema version {newest_version()}, got: {version}; "
        "run: warren db upgrade (or use the Warren that belongs to it)"
    )


def _lock(connection: Connection) -> None:
    """Keep other upgrades of this database out; on SQLite the transaction itself does."""
    if connection.dialect.name == "sqlite":
        return
    # The lock's name holds for the whole server and may have 64 characters.
    name = f"warren.{connection.engine.url.database}"[:64]
    statement = "SELECT GET_LOCK(%s, %s)"
    if not connection.exec_driver_sql(statement, (name, _LOCK_SECONDS)).scalar():
        raise SchemaMismatch("cannot upgrade the schema: another upgrade is under way")


def _clear_unfinished(connection: Connection) -> None:
    """Drop what a first upgrade left that was killed: MySQL commits each table by itself.

    Such tables are empty. One with rows is somebody's, and nothing is touched.
    """
    found = set(inspect(connection).get_table_names())
    ours = [table for table in Model.metadata.sorted_tables if table.name in found]
    for table in ours:
        if connection.execute(select(func.count()).select_from(table)).scalar():
            raise SchemaMismatch(
                f"cannot make the schema: the database holds a table {table.name} with rows "
                "and no schema version; use an empty database"
            )
    Model.metadata.drop_all(connection, tables=ours)


def _problem(session: Session) -> str | None:
    connection = session.connection()
    if problem := version_problem(connection.dialect):
        return problem
    version = MigrationContext.configure(connection).get_current_revision()
    if version is None:
        return "the database has no schema yet; run: warren db upgrade"
    if version != newest_version():
        return _another_version(version)
    return _missing_part(inspect(connection)) or _stale_counter(session)


def _missing_part(inspector: Inspector) -> str | None:
    there = set(inspector.get_table_names())
    for table in Model.metadata.sorted_tables:
        if table.name not in there:
            return f"the database has lost its table {table.name}; restore it before starting"
        found = _indexes(inspector, table.name)
        for name, columns, unique in sorted(_wanted_indexes(table)):
            if (name, columns, unique) not in found:
                what = "unique index" if unique else "index"
                return (
                    f"table {table.name} has lost its {what} {name} ({', '.join(columns)}); "
                    "restore it before starting"
                )
    return None


def _indexes(inspector: Inspector, table: str) -> set[tuple[str, tuple[str, ...], bool]]:
    found = {
        (str(index["name"]), tuple(map(str, index["column_names"])), bool(index["unique"]))
        for index in inspector.get_indexes(table)
    }
    return found | {
        (str(key["name"]), tuple(key["column_names"]), True)
        for key in inspector.get_unique_constraints(table)
    }


def _wanted_indexes(table: Table) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    for index in table.indexes:
        yield str(index.name), tuple(column.name for column in index.columns), bool(index.unique)
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield str(constraint.name), tuple(column.name for column in constraint.columns), True


def _stale_counter(session: Session) -> str | None:
    """Return a complaint when run ids would be given again, as after restoring some tables only.

    The unique key of ticks would then swallow new runs in silence.
    """
    next_id = session.execute(
        select(Sequence.next_id).where(Sequence.name == "run")
    ).scalar_one_or_none()
    newest = session.execute(select(func.max(Run.id))).scalar_one() or 0
    if next_id is not None and next_id > newest:
        return None
    return f"expected the counter of run ids to be over {newest}, got: {next_id}"

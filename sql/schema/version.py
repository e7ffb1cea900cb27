"""Checks the schema's version, tables and indexes, and lists the rights that an account needs.

The minimal rights of schedulers, consoles and commands do not include changing tables, or changing
and deleting entries of the audit log.

This module does not import Alembic, which takes as long to import as a whole command may take.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from sqlalchemy import (
    Connection,
    Table,
    UniqueConstraint,
    func,
    inspect,
    select,
)
from sqlalchemy.orm import Session

from warren.sql.dialects.dialect import Dialect
from warren.sql.dialects.supported import of
from warren.sql.engine import Database
from warren.sql.epochs import Cause
from warren.sql.errors import SchemaMismatch
from warren.sql.models import AuditEntry, Model, Run, Sequence

MIGRATIONS = Path(__file__).parents[1] / "migrations"
#: The table in which Alembic stores the version.
VERSION_TABLE = "alembic_version"
#: The table and the column that came last before 0.1.0. Unreleased versions had schemas without it,
#: whose numbers, 0001 to 0018, are in use again.
_FIRST_RELEASE = ("xxl_job_info", "catch_up_most")
_REVISION = re.compile(r'^revision = "(.+)"$', re.MULTILINE)


def check(database: Database) -> None:
    """Raise SchemaMismatch unless the schema is complete and of the version needed here.

    If run ids would be given out again, as after restoring only some tables, a new epoch begins.
    """
    problem = database.read(_problem)
    if problem:
        raise SchemaMismatch(problem)
    if database.read(_is_counter_stale):
        database.begin_epoch(Cause.COUNTER)


def newest_version() -> str:
    """Return the number of the schema that this version of Warren needs, such as 0003."""
    return _number(_versions()[-1])


def version_of(connection: Connection) -> str | None:
    """Return the version of a database's schema; None if it has none.

    It is the number; from 0003 on followed by the version of Warren that came with it: 0003_0.2.0.
    """
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    rows = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant
    version = rows.scalar()
    return None if version is None else str(version)


def why_no_upgrade(connection: Connection, version: str) -> str | None:
    """Return why the schema, of this version, cannot be upgraded; None if it can."""
    if _is_unreleased(connection):
        return (
            f"{_expected(version)}, made by an unreleased version, which cannot be upgraded: "
            "export the jobs with that version, and import them into an empty database"
        )
    if version in _versions():
        return None
    _, _, release = version.partition("_")
    made_by = f"Warren {release}: use that version" if release else "a newer Warren: use that one"
    return f"{_expected(version)}, made by {made_by} or a later one"


def _expected(version: str) -> str:
    return f"expected schema version {newest_version()}, got: {_number(version)}"


def _number(version: str) -> str:
    return version.partition("_")[0]


@lru_cache
def _versions() -> tuple[str, ...]:
    """Return all schema versions, in order."""
    files = sorted(MIGRATIONS.glob("versions/v*_*.py"))
    return tuple(one for path in files for one in _REVISION.findall(path.read_text()))


def newest_revision() -> str:
    """Return the schema version that this version of Warren needs, as the database stores it."""
    return _versions()[-1]


def _is_unreleased(connection: Connection) -> bool:
    """Whether an unreleased version made the schema."""
    table, column = _FIRST_RELEASE
    found = inspect(connection)
    return found.has_table(table) and column not in {
        each["name"] for each in found.get_columns(table)
    }


def version_problem(session: Session) -> str | None:
    """Return why the server of a session cannot be used; None if it can."""
    return of(session).version_problem(session.connection().dialect)


def _problem(session: Session) -> str | None:
    connection = session.connection()
    if problem := version_problem(session):
        return problem
    version = version_of(connection)
    if version is None:
        return "the database has no schema yet; run: warren db upgrade"
    if version != newest_revision():
        upgradable = f"{_expected(version)}; run: warren db upgrade"
        return why_no_upgrade(connection, version) or upgradable
    if missing := _missing_part(connection, of(session).indexes):
        return why_no_upgrade(connection, version) or missing
    return _missing_counter(session)


def _missing_part(connection: Connection, indexes: str) -> str | None:
    tables = set(inspect(connection).get_table_names())
    existing = {
        (table, name, tuple((columns or "").split(",")), bool(unique))
        for table, name, unique, columns in connection.exec_driver_sql(indexes)
    }
    for table in Model.metadata.sorted_tables:
        if table.name not in tables:
            return f"the database has lost its table {table.name}; restore it before starting"
        for name, columns, unique in sorted(_wanted_indexes(table)):
            if not {(table.name, part, columns, unique) for part in (name, None)} & existing:
                what = "unique index" if unique else "index"
                return (
                    f"table {table.name} has lost its {what} {name} ({', '.join(columns)}); "
                    "restore it before starting"
                )
    return None


def _wanted_indexes(table: Table) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    for index in table.indexes:
        yield str(index.name), tuple(column.name for column in index.columns), bool(index.unique)
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield str(constraint.name), tuple(column.name for column in constraint.columns), True


def _missing_counter(session: Session) -> str | None:
    counter = select(Sequence.next_id).where(Sequence.name == "run")
    if session.execute(counter).scalar_one_or_none() is None:
        return "the database has lost its counter of run ids; restore it before starting"
    return None


def _is_counter_stale(session: Session) -> bool:
    """Whether runs have ids that the counter has yet to give out.

    The counter is read last: others reserve and insert ids meanwhile, and it never falls.
    """
    newest = session.execute(select(func.max(Run.id))).scalar_one() or 0
    counter = select(Sequence.next_id).where(Sequence.name == "run")
    return int(session.execute(counter).scalar_one()) <= newest


_ALL = "SELECT, INSERT, UPDATE, DELETE"
_RIGHTS = {AuditEntry.__tablename__: "SELECT, INSERT", VERSION_TABLE: "SELECT"}


def grants(dialect: Dialect, database: str, user: str, host: str = "%") -> list[str]:
    """Return the statements that grant an account its rights, one for each table.

    Raises:
        ValueError: a name needs quoting, or the database has no accounts.

    """
    tables = [VERSION_TABLE, *sorted(Model.metadata.tables)]
    rights = {table: _RIGHTS.get(table, _ALL) for table in tables}
    return dialect.grants(rights, database, user, host)

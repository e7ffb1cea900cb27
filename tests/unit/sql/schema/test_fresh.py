"""A schema made from the models is the one that the migrations make."""

from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from warren.sql.dialects.url_forms import file_url
from warren.sql.engine import Database
from warren.sql.schema import migration
from warren.sql.schema.fresh import make_schema
from warren.sql.schema.version import check

#: A cluster's id is random, and its uptime begins when it is made.
DIFFER = {"warren_cluster": "id", "warren_uptime": "is_settled"}


def contents(database: Database) -> dict[str, object]:
    """Return columns, indexes and rows of each table; columns added later stand at its end."""

    def read(session: Session) -> dict[str, object]:
        execute = session.connection().exec_driver_sql
        tables = execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").all()
        return {
            name: (
                {tuple(row)[1:] for row in execute(f"PRAGMA table_xinfo({name})")},
                "AUTOINCREMENT" in sql,
                [tuple(row) for row in execute(f"SELECT {DIFFER.get(name, '*')} FROM {name}")],
            )
            for name, sql in tables
        } | {"indexes": {tuple(row) for row in execute(database.dialect.indexes)}}

    return database.read(read)


def test_a_fresh_schema_is_that_of_the_migrations(tmp_path: Path) -> None:
    fresh, migrated = (Database(file_url(tmp_path / name)) for name in ("fresh.db", "old.db"))
    make_schema(fresh)
    migration.upgrade(migrated)

    assert contents(fresh) == contents(migrated)
    check(fresh)


def test_only_an_embedded_database_is_made_so() -> None:
    server = Database("mysql+pymysql://warren:x@127.0.0.1:9/warren")
    with pytest.raises(ValueError, match="expected an embedded database"):
        make_schema(server)

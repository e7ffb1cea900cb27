"""Which database servers have what the statements here need: SKIP LOCKED, UPDATE ... FROM."""

import sqlite3

from sqlalchemy import Dialect

MARIADB = (10, 6)
MYSQL = (8, 0)
SQLITE = (3, 33)


def problem(dialect: Dialect) -> str | None:
    """Return what is wrong with the server that this dialect has connected to, None if nothing."""
    if dialect.name == "sqlite":
        return too_old("SQLite", sqlite3.sqlite_version_info, SQLITE)
    version = tuple(part for part in dialect.server_version_info or () if isinstance(part, int))
    if getattr(dialect, "is_mariadb", False):
        return too_old("MariaDB", version, MARIADB)
    return too_old("MySQL", version, MYSQL)


def too_old(name: str, version: tuple[int, ...], needed: tuple[int, ...]) -> str | None:
    """Return a complaint about a version below the one that is needed."""
    if version >= needed:
        return None
    return f"expected {name} to be {_text(needed)} or newer, got: {_text(version)}"


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))

"""The supported databases; a port adds its class here."""

from sqlalchemy.orm import Session

from warren.sql.dialects.dialect import Dialect
from warren.sql.dialects.mysql import MySQL
from warren.sql.dialects.sqlite import SQLite

SUPPORTED: tuple[Dialect, ...] = (MySQL(), SQLite())
_BY_NAME = {dialect.name: dialect for dialect in SUPPORTED}


def named(name: str) -> Dialect:
    """Return the dialect with this SQLAlchemy name.

    Raises:
        ValueError: the database is not supported.

    """
    if name not in _BY_NAME:
        raise ValueError(f"expected a database of {', '.join(sorted(_BY_NAME))}, got: {name}")
    return _BY_NAME[name]


def of(session: Session) -> Dialect:
    """Return the dialect of a session's database."""
    return named(session.get_bind().dialect.name)

"""Classifies database errors: try again, unavailable, or a fault of the statement."""

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from warren.sql.dialects.dialect import Dialect
from warren.sql.errors import DatabaseUnavailable


def is_retryable(error: DBAPIError | PoolTimeout, dialect: Dialect) -> bool:
    """Whether the same unit of work may succeed if it is tried again now."""
    return isinstance(error, DBAPIError) and dialect.is_retryable(error)


def is_loss(error: DBAPIError | PoolTimeout, dialect: Dialect) -> bool:
    """Whether the database's server is unreachable or stuck, for all queries."""
    return isinstance(error, DBAPIError) and dialect.is_loss(error)


def is_schema_fault(error: Exception, dialect: Dialect) -> bool:
    """Whether a table or column is missing, told by an error or by what it was raised from."""
    cause = error.__cause__ if isinstance(error, DatabaseUnavailable) else error
    return isinstance(cause, DBAPIError) and dialect.is_schema_fault(cause)


def unavailable(
    error: DBAPIError | PoolTimeout, url: URL, dialect: Dialect
) -> DatabaseUnavailable | None:
    """Return a one-line error for an unavailable database; None if the statement is at fault."""
    where = url.set(query={}).render_as_string(hide_password=True)
    if isinstance(error, PoolTimeout):
        return DatabaseUnavailable(f"cannot use the database {where}: every connection is taken")
    if not dialect.is_unavailable(error):
        return None
    return DatabaseUnavailable(f"cannot use the database {where}: {_words(error)}")


def _words(error: DBAPIError) -> str:
    arguments = getattr(error.orig, "args", ())
    return " ".join(str(arguments[-1] if arguments else error.orig).split())

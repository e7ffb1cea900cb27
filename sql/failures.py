"""What a database's error means: try again, give up for now, or a fault of the statement."""

import sqlite3

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sql.errors import DatabaseUnavailable

#: MySQL's and MariaDB's codes after which the same unit of work may succeed: lock wait (1205),
#: deadlock (1213), changed since read (1020), NOWAIT (3572), connection killed (1927) or lost
#: (2006, 2013, 2055, 4031).
PASSING_CODES = frozenset({1205, 1213, 1020, 3572, 1927, 2006, 2013, 2055, 4031})
#: Codes for a server that works for nobody now: disk or table full (1021, 1030, 1114), too many
#: connections (1040), shutting down (1053), no right (1044, 1142, 1143), lock table full (1206),
#: read-only (1290, 1836), interrupted (1317, 1969, 3024).
REFUSING_CODES = frozenset(
    {1021, 1030, 1040, 1044, 1053, 1114, 1142, 1143, 1206, 1290, 1317, 1836, 1969, 3024}
)
#: Codes for a server that is not there: no connection (2002, 2003), too many (1040), shutting
#: down (1053), lost (2006, 2013, 2055, 4031).
LOSS_CODES = frozenset({2002, 2003, 1040, 1053, 2006, 2013, 2055, 4031})


def may_pass(error: DBAPIError | PoolTimeout) -> bool:
    """Whether the same unit of work may succeed when it is tried again now."""
    if isinstance(error, PoolTimeout):
        return False
    if isinstance(error.orig, sqlite3.OperationalError):
        return "locked" in str(error.orig) or "busy" in str(error.orig)
    return error.connection_invalidated or _code(error) in PASSING_CODES


def is_loss(error: DBAPIError | PoolTimeout) -> bool:
    """Whether MySQL or MariaDB itself is gone or stands still, whoever asks it whatever."""
    return isinstance(error, DBAPIError) and _code(error) in LOSS_CODES


def unavailable(error: DBAPIError | PoolTimeout, url: URL) -> DatabaseUnavailable | None:
    """Return the error that says so in one line, None when the statement itself is at fault."""
    where = url.set(query={}).render_as_string(hide_password=True)
    if isinstance(error, PoolTimeout):
        return DatabaseUnavailable(f"cannot use the database {where}: every connection is taken")
    if not _is_out_of_order(error):
        return None
    return DatabaseUnavailable(f"cannot use the database {where}: {_words(error)}")


def _is_out_of_order(error: DBAPIError) -> bool:
    if isinstance(error.orig, sqlite3.Error):
        damaged = type(error.orig) is sqlite3.DatabaseError
        return damaged or isinstance(error.orig, sqlite3.OperationalError)
    # Connecting and committing have no statement.
    at_work = error.statement is not None
    return not at_work or may_pass(error) or _code(error) in REFUSING_CODES


def _code(error: DBAPIError) -> int:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def _words(error: DBAPIError) -> str:
    arguments = getattr(error.orig, "args", ())
    return " ".join(str(arguments[-1] if arguments else error.orig).split())

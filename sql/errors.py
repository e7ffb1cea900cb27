"""The errors of this package.

SqlError
├── DatabaseUnavailable   it does not answer, refuses us, or keeps failing
├── SchemaMismatch        another schema version, or a missing index
├── NotFound              no such job, run, app, executor, user or token
├── Conflict              the row changed meanwhile, or the name is ambiguous or taken
└── NotAllWon             an all-or-nothing update matched only some rows
"""


class SqlError(Exception):
    """Root of the package's errors."""


class DatabaseUnavailable(SqlError):
    """The database does not answer, refuses us, or keeps failing."""


class SchemaMismatch(SqlError):
    """The database has another schema version, or an index is missing."""


class NotFound(SqlError):
    """There is no such job, run, app, executor, user or token."""


class Conflict(SqlError):
    """The row changed meanwhile, or the name is ambiguous or taken."""


class NotAllWon(SqlError):
    """An all-or-nothing update matched only some rows; its transaction must be rolled back."""

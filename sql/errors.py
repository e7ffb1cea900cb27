"""What can go wrong with the database.

SqlError
├── DatabaseUnavailable   it does not answer, refuses us, or keeps failing
├── SchemaMismatch        another schema version, or a missing index
├── NotFound              no such job, run, app or executor
├── Conflict              the row changed meanwhile, or the name is taken
└── NotAllWon             a statement for all or none would have changed only some rows
"""


class SqlError(Exception):
    """Root of the package's errors."""


class DatabaseUnavailable(SqlError):
    """The database does not answer, refuses us, or keeps failing."""


class SchemaMismatch(SqlError):
    """The database has another schema version, or an index is missing."""


class NotFound(SqlError):
    """There is no such job, run, app or executor."""


class Conflict(SqlError):
    """The row changed meanwhile, or the name is taken."""


class NotAllWon(SqlError):
    """A statement for all or none would have changed only some rows: undo its transaction."""

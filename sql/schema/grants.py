"""The minimal rights of the account of schedulers, consoles and commands.

They do not include changing tables, or changing and deleting entries of the audit log.
"""

from warren.sql.dialects.dialect import Dialect
from warren.sql.models import AuditEntry, Model
from warren.sql.schema.version import VERSION_TABLE

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

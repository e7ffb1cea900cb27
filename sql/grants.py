"""What the account of schedulers, consoles and commands needs in MariaDB or MySQL, and no more.

Not among it: to change tables, and to change or delete what stands in the audit trail.
"""

import re

from sql.models import Model, TrailEntry
from sql.schema import VERSION_TABLE

_ALL = "SELECT, INSERT, UPDATE, DELETE"
_RIGHTS = {TrailEntry.__tablename__: "SELECT, INSERT", VERSION_TABLE: "SELECT"}
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_HOST = re.compile(r"[A-Za-z0-9_.:%/-]{1,255}")


def grants(database: str, user: str, host: str = "%") -> list[str]:
    """Return the statements that give an account its rights, one for each table.

    Raises:
        ValueError: a name has characters that would need quoting.

    """
    for what, pattern, name in (
        ("database", _NAME, database),
        ("user", _NAME, user),
        ("host", _HOST, host),
    ):
        if not pattern.fullmatch(name):
            raise ValueError(f"expected {what} to be a name like {pattern.pattern}, got: {name!r}")
    tables = [VERSION_TABLE, *sorted(Model.metadata.tables)]
    return [
        f"GRANT {_RIGHTS.get(table, _ALL)} ON `{database}`.`{table}` TO '{user}'@'{host}';"
        for table in tables
    ]

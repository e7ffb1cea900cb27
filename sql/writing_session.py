"""The session of a unit of work that writes: rows of the records are inserted together.

MySQL has no INSERT … RETURNING, so the ORM would send it one statement for each row, to learn its
id. Nobody asks for the ids of these rows.
"""

from typing import Any

from sqlalchemy import event, insert
from sqlalchemy.orm import Session

from warren.sql.models import AuditEntry, History

_RECORDS = (AuditEntry, History)


class WritingSession(Session):
    """A session that inserts all rows of a record by one statement for each flush."""


@event.listens_for(WritingSession, "before_flush")
def _insert_together(session: WritingSession, _context: object, _instances: object) -> None:
    for record in _RECORDS:
        rows = [row for row in session.new if isinstance(row, record)]
        for row in rows:
            session.expunge(row)
        if rows:
            session.execute(insert(record), [_values(row) for row in rows])


def _values(row: AuditEntry | History) -> dict[str, Any]:
    names = row.__mapper__.column_attrs.keys()
    return {name: getattr(row, name) for name in names if name in row.__dict__}

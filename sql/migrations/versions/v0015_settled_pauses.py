"""Pauses that are over stay for the audit: whether one is settled is in its row."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_TABLE, _COLUMN = "warren_pause", "is_settled"
_OLD, _NEW = "i_pause_app", "i_pause_open"


def upgrade() -> None:
    """Add the column, and change the index to one that leads to what is not settled."""
    # MySQL commits each step by itself, so a killed upgrade may have made some.
    columns, indexes = _found()
    if _COLUMN not in columns:
        op.add_column(
            _TABLE, sa.Column(_COLUMN, sa.SmallInteger(), server_default="0", nullable=False)
        )
    if _NEW not in indexes:
        op.create_index(_NEW, _TABLE, [_COLUMN, "app_id"], unique=False)
    if _OLD in indexes:
        op.drop_index(_OLD, _TABLE)


def _found() -> tuple[set[str], set[str]]:
    """Return the names of the table's columns and indexes; as they were, where nobody can look."""
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return set(), {_OLD}
    inspector = sa.inspect(context.connection)
    return (
        {column["name"] for column in inspector.get_columns(_TABLE)},
        {str(index["name"]) for index in inspector.get_indexes(_TABLE)},
    )

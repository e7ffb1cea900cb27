"""The index of the audit log by object begins with the action, as triggers outnumber changes."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_TABLE, _OLD, _NEW = "warren_trail", "i_trail_object_id", "i_trail_action"


def upgrade() -> None:
    """Replace the index."""
    names = _names()
    if _NEW not in names:
        op.create_index(_NEW, _TABLE, ["action", "object_id", "id"], unique=False)
    if _OLD in names:
        op.drop_index(_OLD, _TABLE)


def _names() -> set[str]:
    # MySQL commits each index by itself, so a killed upgrade may have made or dropped one.
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return {_OLD}
    return {str(one["name"]) for one in sa.inspect(context.connection).get_indexes(_TABLE)}

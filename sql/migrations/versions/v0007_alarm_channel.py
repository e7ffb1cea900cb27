"""An index of alarms by channel, so that queries for webhooks do not read e-mails."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_TABLE, _INDEX = "warren_alarm", "i_alarm_channel"


def upgrade() -> None:
    """Make the index."""
    if not _is_there():
        op.create_index(_INDEX, _TABLE, ["status", "channel", "next_try_at"], unique=False)


def _is_there() -> bool:
    # MySQL commits an index by itself, so a killed upgrade may have made it.
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return False
    found = sa.inspect(context.connection).get_indexes(_TABLE)
    return any(index["name"] == _INDEX for index in found)

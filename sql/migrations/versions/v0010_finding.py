"""Tags of jobs, favourites and saved filters, and an index of the audit log by object id."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import AUTO_ID, TABLE_OPTIONS

revision = "0010"
down_revision = "0009"

_JOBS, _SEARCH = "xxl_job_info", "i_search"
_SEARCHED = ["job_group", "job_desc", "executor_handler", "author", "tags", "trigger_status"]
_TRAIL, _BY_ID = "warren_trail", "i_trail_object_id"


def upgrade() -> None:
    """Add the column and the tables; the index of what jobs are found by has the tags too."""
    # MySQL commits each step by itself, so a killed upgrade may have made some.
    if "tags" not in _names(_JOBS, "columns"):
        op.add_column(_JOBS, sa.Column("tags", sa.String(128), nullable=True))
    if _SEARCH in _names(_JOBS, "indexes"):
        op.drop_index(_SEARCH, _JOBS)
    op.create_index(_SEARCH, _JOBS, _SEARCHED, unique=False)
    if _BY_ID not in _names(_TRAIL, "indexes"):
        op.create_index(_BY_ID, _TRAIL, ["kind", "object_id", "id"], unique=False)
    for table in ("warren_favourite", "warren_filter"):
        op.execute(f"DROP TABLE IF EXISTS {table}")
    op.create_table(
        "warren_favourite",
        sa.Column("user_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "job_id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_favourite_job", "warren_favourite", ["job_id"], unique=False)
    op.create_table(
        "warren_filter",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("page", sa.String(16), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("query", sa.String(1024), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "page", "name", name="i_filter_name"),
        **TABLE_OPTIONS,
    )


def _names(table: str, what: str) -> set[str]:
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return {_SEARCH} if (table, what) == (_JOBS, "indexes") else set()
    inspector = sa.inspect(context.connection)
    found = inspector.get_columns(table) if what == "columns" else inspector.get_indexes(table)
    return {str(one["name"]) for one in found}

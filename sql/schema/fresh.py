"""Makes the newest schema in an empty SQLite file at once, from the models.

A test's stack begins with one. Alembic makes the same, but takes longer to be imported.
"""

from sqlalchemy.orm import Session

from warren.sql.dialects.dialect import Dialect
from warren.sql.dialects.supported import of
from warren.sql.engine import Database
from warren.sql.models import Model
from warren.sql.schema.version import VERSION_TABLE, newest_revision

#: As Alembic makes it.
_VERSION = (
    f"CREATE TABLE {VERSION_TABLE} (\n\tversion_num VARCHAR(32) NOT NULL, "
    f"\n\tCONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num)\n)\n\n"
)
_UPTIME = "down_since, since_at, until_at, is_settled"


def make_schema(database: Database) -> None:
    """Make all tables and the first rows in an empty embedded database.

    Raises:
        ValueError: the database is a server's, which others may be upgrading meanwhile.

    """
    if not database.dialect.is_embedded:
        raise ValueError("expected an embedded database, got that of a server")

    def unit(session: Session) -> None:
        connection = session.connection()
        connection.exec_driver_sql(_VERSION)
        Model.metadata.create_all(connection, checkfirst=False)
        for statement in first_rows(of(session)):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{newest_revision()}')")  # noqa: S608 - constants of ours

    database.write(unit)


def first_rows(dialect: Dialect) -> tuple[str, ...]:
    """Return the INSERTs of a run counter at 1, a new cluster id, and an uptime from now on.

    The first migration executes them too, so they name only columns that 0.1.0 had.
    """
    now = dialect.now_ms
    return (
        "INSERT INTO warren_sequence (name, next_id) VALUES ('run', 1)",
        # Made by the database, so that a written script gives each database an id of its own.
        f"INSERT INTO warren_cluster (id, cluster_id) VALUES (1, {dialect.random_id})",  # noqa: S608 - constants of ours
        # What is planned counts as late from now on at the earliest.
        f"INSERT INTO warren_uptime ({_UPTIME}) VALUES ({now}, {now}, {now}, 1)",  # noqa: S608 - constants of ours
    )

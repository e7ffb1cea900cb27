"""`warren db …`: the tables."""

import click

from sql import migration
from sql.engine import Database
from warren.options import examples, takes_settings
from warren.settings import Settings


@click.group()
def db() -> None:
    """Make or upgrade the tables."""


@db.command(epilog=examples("warren db upgrade", "warren db upgrade --sql > schema.sql"))
@click.option("--sql", "as_sql", is_flag=True, help="Print the SQL for an empty database instead.")
@takes_settings("database_url")
def upgrade(settings: Settings, as_sql: bool) -> None:
    """Bring the database's tables to this version; doing it again changes nothing."""
    database = Database(settings.needed_database_url())
    try:
        if as_sql:
            print(migration.upgrade_script(database))
        else:
            print(f"the schema is at version {migration.upgrade(database)}")
    finally:
        database.close()

"""`warren db …`: the tables."""

import click

from sql import migration
from sql.database_url import MYSQL, parse
from sql.engine import Database
from sql.grants import grants as statements_for
from warren.errors import CommandError
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


@db.command(epilog=examples("warren db grants warren --host 10.0.0.% > grants.sql"))
@click.argument("user")
@click.option("--host", default="%", show_default=True, help="Where the account connects from.")
@takes_settings("database_url")
def grants(settings: Settings, user: str, host: str) -> None:
    """Print the GRANT statements for the account that everything but an upgrade uses.

    It may only add to the audit trail and may not change tables. Make the account first; give it
    these rights again after each upgrade, as there may be new tables.
    """
    url = parse(settings.needed_database_url())
    if url.drivername != MYSQL:
        raise CommandError("SQLite has no accounts; grants are for MariaDB and MySQL")
    try:
        print("\n".join(statements_for(url.database or "", user, host)))
    except ValueError as error:
        raise CommandError(str(error)) from error

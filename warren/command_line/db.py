"""`warren db …`: creates and upgrades the tables, and says that they were restored."""

import click

from warren.command_options import examples, takes_settings
from warren.errors import CommandError
from warren.local_client import operator
from warren.settings.settings import Settings
from warren.sql.dialects.database_url import parse_all
from warren.sql.dialects.supported import named
from warren.sql.engine import Database
from warren.sql.epochs import Cause, all_epochs
from warren.sql.schema import migration
from warren.sql.schema.version import grants as statements_for


@click.group()
def db() -> None:
    """Create or upgrade the tables, or say that they were restored."""


@db.command(epilog=examples("warren db upgrade", "warren db upgrade --sql > schema.sql"))
@click.option("--sql", "as_sql", is_flag=True, help="Print the SQL for an empty database instead.")
@takes_settings("database_url")
def upgrade(settings: Settings, as_sql: bool) -> None:
    """Upgrade the database's tables to this version. Running it again changes nothing."""
    database = Database(settings.needed_database_url())
    try:
        if as_sql:
            print(migration.upgrade_script(database))
        else:
            print(f"the schema is at version {migration.upgrade(database)}")
    finally:
        database.close()


@db.command(epilog=examples("warren db restored"))
@takes_settings("database_url")
def restored(settings: Settings) -> None:
    """Say that the database was restored from a backup, after loading it.

    Upgrades the tables, and continues with run ids far beyond all that were used since the backup
    was made, so that no log, result or webhook of an old run is mistaken for a new run's.
    """
    database = Database(settings.needed_database_url())
    try:
        migration.upgrade(database)
        database.begin_epoch(Cause.RESTORED, told_by=operator())
        epoch = database.read(all_epochs)[-1]
    finally:
        database.close()
    print(f"run ids continue at {epoch.next_id} instead of {epoch.found_id}")


@db.command(epilog=examples("warren db grants warren --host 10.0.0.% > grants.sql"))
@click.argument("user")
@click.option("--host", default="%", show_default=True, help="Where the account connects from.")
@takes_settings("database_url")
def grants(settings: Settings, user: str, host: str) -> None:
    """Print the GRANT statements for the account that everything except upgrades uses.

    The account can add to the audit log but not change it, and cannot change the schema. Create it
    first. Run the grants again after each upgrade, which may have added tables.
    """
    url = parse_all(settings.needed_database_url())[0]
    dialect = named(url.get_backend_name())
    try:
        print("\n".join(statements_for(dialect, url.database or "", user, host)))
    except ValueError as error:
        raise CommandError(str(error)) from error

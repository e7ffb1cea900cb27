"""`warren secrets …`: prints derived keys, and makes an old master secret invalid."""

from typing import Any

import click

from warren.broker.signing import ClusterKeys, app_key, webhook_secret
from warren.command_options import examples, takes_settings
from warren.settings.home import known_secret
from warren.settings.settings import Settings


@click.group()
def secrets() -> None:
    """Print the keys of apps; make an old or lost master secret invalid."""


@secrets.command(
    "app", epilog=examples("warren secrets app reports", "warren secrets app reports > reports.key")
)
@click.argument("name")
@takes_settings()
def app_secret(settings: Settings, name: str) -> None:
    """Print the WARREN_APP_SECRET for executors of the app NAME.

    It is derived from WARREN_SECRET, is the same each time, and is valid for this app only.
    WARREN_SECRET cannot be computed from it.
    """
    print(app_key(known_secret(settings), name))


@secrets.command("webhook", epilog=examples("warren secrets webhook reports"))
@click.argument("name")
@takes_settings()
def webhook(settings: Settings, name: str) -> None:
    """Print the key with which receivers verify webhooks of the app NAME.

    It is derived from WARREN_SECRET and is the same each time. Neither WARREN_SECRET nor another
    app's key can be computed from it.
    """
    print(webhook_secret(known_secret(settings), name))


@secrets.command("retire", epilog=examples("warren secrets retire"))
@takes_settings("database_url")
def retire(settings: Settings) -> None:
    """Refuse from now on to start processes with another secret than WARREN_SECRET.

    Run this at the end of a change of the secret, when no process has the old one any more.
    """
    # Imported here, as SQLAlchemy is missing where only an executor is installed.
    from warren.sql.registry import cluster  # noqa: PLC0415

    count = _with_fingerprint(settings, cluster.retire)
    print("the previous secret is no longer accepted" if count else "no other secret was in use")


@secrets.command("reset", epilog=examples("warren secrets reset --yes"))
@click.option("--yes", is_flag=True, help="Do it: processes with another secret cannot start.")
@takes_settings("database_url")
def reset(settings: Settings, yes: bool) -> None:
    """Make WARREN_SECRET the cluster's only secret, because the one in use is lost.

    Restart every scheduler, console and API process with it, and give executors new keys.
    """
    from warren.sql.registry import cluster  # noqa: PLC0415 - see above

    if not yes:
        raise click.UsageError(
            "every process that has another secret will be refused; if that is meant: --yes"
        )

    _with_fingerprint(settings, cluster.reset)
    print("WARREN_SECRET is now the cluster's secret; restart processes with another one")


def _with_fingerprint(settings: Settings, unit: Any) -> Any:
    """Call `unit` in a transaction with the fingerprint of WARREN_SECRET."""
    from warren.database_access import open_database  # noqa: PLC0415 - see above
    from warren.sql.registry import cluster  # noqa: PLC0415

    keys = ClusterKeys(known_secret(settings))
    with open_database(settings, for_writing=True) as database:
        [own] = keys.fingerprints(database.read(cluster.cluster_id))
        return database.write(lambda session: unit(session, own))

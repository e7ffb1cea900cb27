"""`warren secrets …`: prints keys that are derived from the master secret."""

import click

from warren.broker.keys import app_key, webhook_secret
from warren.command_options import examples, takes_settings
from warren.settings.home import known_secret
from warren.settings.settings import Settings


@click.group()
def secrets() -> None:
    """Print apps' keys, for their executors and for receivers of webhooks."""


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

"""`warren secrets …`: keys that follow from the master secret."""

import click

from broker.keys import app_key, webhook_secret
from warren.command_options import examples, takes_settings
from warren.settings.settings import Settings, needed_secret


@click.group()
def secrets() -> None:
    """Print the keys of apps, which executors and receivers of webhooks hold."""


@secrets.command(
    "app", epilog=examples("warren secrets app reports", "warren secrets app reports > reports.key")
)
@click.argument("name")
@takes_settings()
def app_secret(settings: Settings, name: str) -> None:
    """Print WARREN_APP_SECRET of the app NAME's executors, made from WARREN_SECRET.

    The same each time. It is good for this app only, and WARREN_SECRET cannot be found from it.
    """
    print(app_key(needed_secret(settings), name))


@secrets.command("webhook", epilog=examples("warren secrets webhook reports"))
@click.argument("name")
@takes_settings()
def webhook(settings: Settings, name: str) -> None:
    """Print what receivers check the signatures of the app NAME's webhooks with.

    Made from WARREN_SECRET, and the same each time; neither that nor another app's key can be found
    from it.
    """
    print(webhook_secret(needed_secret(settings), name))

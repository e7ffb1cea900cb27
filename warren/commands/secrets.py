"""`warren secrets …`: keys that follow from the master secret."""

import click

from broker.keys import app_key
from warren.command_options import examples, takes_settings
from warren.settings.settings import Settings, needed_secret


@click.group()
def secrets() -> None:
    """Print the keys of apps, which executors hold instead of the master secret."""


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

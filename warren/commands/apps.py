"""`warren apps …`: the groups that executors register under."""

import click

from warren.actions.trigger import open_client
from warren.command_options import examples, takes_settings
from warren.scheduler.jobs.spec import AppSpec
from warren.settings.settings import Settings


@click.group()
def apps() -> None:
    """Add apps. Executors of an unknown app are not admitted."""


@apps.command(
    epilog=examples("warren apps add reports", 'warren apps add reports --title "Daily reports"')
)
@click.argument("name")
@click.option("--title", help="Its display name. Default: its name.")
@takes_settings("database_url")
def add(settings: Settings, name: str, title: str | None) -> None:
    """Add an app. Job files and the console can do this too."""
    with open_client(settings) as client:
        client.commands.apps.add(AppSpec(name=name, title=title))
    print(f"added app {name}; the key of its executors: warren secrets app {name}")

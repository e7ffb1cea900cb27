"""`warren limits` and `warren queue`."""

from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.errands.sending import send
from warren.settings.settings import Settings


@click.group()
def limits() -> None:
    """List, change and delete limits that jobs share."""


@limits.command("list", epilog=examples("warren limits list", "warren limits list --json"))
@as_json
@takes_settings("database_url")
def list_limits(settings: Settings, as_json: bool) -> int:
    """List limits: how full they are, and how many runs wait for them."""
    return send(settings, "limits.list", as_json=as_json)


@limits.command(
    "show", epilog=examples("warren limits show warehouse", "warren limits show warehouse --json")
)
@click.argument("name")
@as_json
@takes_settings("database_url")
def show_limit(settings: Settings, **wanted: Any) -> int:
    """Show a limit, the runs that hold it, and the jobs that take it."""
    return send(settings, "limits.show", **wanted)


@limits.command(
    "apply",
    epilog=examples(
        "warren limits apply warehouse --at-once 3",
        "warren limits apply partner-api --rate 60 --per 1m",
    ),
)
@click.argument("name")
@click.option("--at-once", type=int, help="How much all runs may hold together.")
@click.option("--rate", type=int, help="How much runs may take in each --per.")
@click.option("--per", help="The period of the rate: 30s, 1m, 1h.")
@takes_settings("database_url")
def apply_limit(settings: Settings, **wanted: Any) -> int:
    """Create a limit, or change it to exactly these options.

    Runs that hold more than a lowered limit allows go on; no other starts until they have ended.
    """
    return send(settings, "limits.apply", **wanted)


@limits.command("delete", epilog=examples("warren limits delete warehouse"))
@click.argument("name")
@takes_settings("database_url")
def delete_limit(settings: Settings, name: str) -> int:
    """Delete a limit that no job names and no run holds."""
    return send(settings, "limits.delete", name=name)


@click.command(epilog=examples("warren queue", "warren queue --app reports --json"))
@click.option("--app", help="Only this app. Default: every app.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@as_json
@takes_settings("database_url")
def queue(settings: Settings, **wanted: Any) -> int:
    """List due runs that are not sent yet, the longest waiting first, and what they wait for."""
    return send(settings, "queue", **wanted)

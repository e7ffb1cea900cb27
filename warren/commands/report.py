"""`warren report`: how many runs of each day succeeded, failed and were skipped."""

from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.errands.sending import send
from warren.settings.settings import Settings


@click.command(epilog=examples("warren report", "warren report --since 30d --json"))
@click.option(
    "--since", metavar="T", default="6d", show_default=True, help="First day: ISO 8601, or 30d ago."
)
@as_json
@takes_settings("database_url", "timezone")
def report(settings: Settings, **wanted: Any) -> int:
    """Show how many runs of each day succeeded, failed, were skipped and are running."""
    return send(settings, "report", **wanted)

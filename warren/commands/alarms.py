"""`warren alarms list`: unsent alarms and their errors."""

import click

from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.scheduler.views.alarm_view import AlarmView, alarm_view
from warren.scheduler.views.to_json import to_json
from warren.settings.settings import Settings
from warren.sql.alarms import alarms as alarms_table
from warren.sql.alarms.alarms import UNSENT, AlarmStatus
from warren.views.terminal import print_json, print_table, relative, visible

HEADERS = ("id", "about", "run", "to", "status", "since", "tries", "next try", "error")


@click.group()
def alarms() -> None:
    """Show the alarms."""


@alarms.command("list", epilog=examples("warren alarms list", "warren alarms list --all --json"))
@click.option("--all", "every", is_flag=True, help="Include alarms that were sent.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="At most this many.",
)
@as_json
@takes_settings("database_url")
def list_alarms(settings: Settings, every: bool, limit: int, as_json: bool) -> None:
    """Show unsent alarms, newest first."""
    statuses = tuple(AlarmStatus) if every else UNSENT
    with open_database(settings) as database:
        listed = database.read(
            lambda session: alarms_table.listing(session, statuses=statuses, limit=limit)
        )
        now = now_ms(database)
    rows = [alarm_view(alarm) for alarm in listed]
    if as_json:
        for row in rows:
            print_json(to_json(row))
        return
    lines = [_line(row, now) for row in rows]
    print_table(HEADERS, lines, nothing="no alarm" if every else "no unsent alarms")


def _line(row: AlarmView, now: int) -> tuple[str, ...]:
    about = f"{row.app or '?'}/{row.job}" if row.job else row.app or "?"
    return (
        str(row.id),
        about,
        str(row.run_id or ""),
        visible(row.target),
        row.status,
        relative(row.created_at, now),
        str(row.tries),
        relative(row.next_try_at, now),
        visible(row.error),
    )

"""`warren alarms list`: what has not been told yet, and why."""

from typing import Any
from urllib.parse import urlsplit

import click

from sql import alarms as alarms_table
from sql.alarms import MAIL, UNSENT, AlarmStatus
from sql.rows import AnyRow
from warren.access import now_ms, open_database
from warren.instants import iso
from warren.options import as_json, examples, takes_settings
from warren.settings import Settings
from warren.terminal import print_json, print_table, relative, visible

HEADERS = ("id", "about", "run", "to", "status", "since", "tries", "next try", "error")


@click.group()
def alarms() -> None:
    """Show the alarms."""


@alarms.command("list", epilog=examples("warren alarms list", "warren alarms list --all --json"))
@click.option("--all", "every", is_flag=True, help="Those that were sent too.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, help="How many at most.")
@as_json
@takes_settings("database_url")
def list_alarms(settings: Settings, every: bool, limit: int, as_json: bool) -> None:
    """Show the alarms that are not sent, newest first."""
    statuses = tuple(AlarmStatus) if every else UNSENT
    with open_database(settings) as database:
        rows = database.read(
            lambda session: alarms_table.listing(session, statuses=statuses, limit=limit)
        )
        now = now_ms(database)
    if as_json:
        for row in rows:
            print_json(_json(row))
        return
    lines = [_line(row, now) for row in rows]
    print_table(HEADERS, lines, nothing="no alarm" if every else "no alarm waits")


def _json(row: AnyRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "app": row.app or "",
        "job": row.job or "",
        "run_id": row.run_id or None,
        "channel": row.channel,
        "target": _shown(row),
        "status": row.status,
        "created_at": iso(row.created_at),
        "next_try_at": iso(_next_try_at(row)),
        "tries": row.tries,
        "error": row.error or "",
    }


def _line(row: AnyRow, now: int) -> tuple[str, ...]:
    about = f"{row.app or '?'}/{row.job}" if row.job else row.app or "?"
    return (
        str(row.id),
        about,
        str(row.run_id or ""),
        visible(_shown(row)),
        row.status,
        relative(row.created_at, now),
        str(row.tries),
        relative(_next_try_at(row), now),
        visible(row.error or ""),
    )


def _next_try_at(row: AnyRow) -> int | None:
    waits = row.status in (AlarmStatus.NEW, AlarmStatus.READY, AlarmStatus.HELD)
    return row.next_try_at if waits else None


def _shown(row: AnyRow) -> str:
    """Return a target without the part of a webhook's URL that lets everybody post there."""
    if row.channel == MAIL:
        return str(row.target)
    parts = urlsplit(row.target)
    return f"{parts.scheme}://{parts.hostname or '?'}/…"

"""`warren executors`, `warren schedulers`, `warren pause` and `warren resume`."""

import click

from sql import cluster, presence
from warren.access import open_database
from warren.acting import open_commands
from warren.instants import iso, local
from warren.options import as_json, examples, takes_settings
from warren.registry_view import (
    EXECUTOR_HEADERS,
    SCHEDULER_HEADERS,
    executor_json,
    executor_line,
    registered_executors,
    registrations,
    scheduler_json,
    scheduler_line,
)
from warren.settings import Settings
from warren.terminal import print_json, print_table, relative, visible


@click.group()
def executors() -> None:
    """Show the executors."""


@executors.command("list", epilog=examples("warren executors list", "warren executors list --json"))
@as_json
@takes_settings("database_url")
def list_executors(settings: Settings, as_json: bool) -> None:
    """Show every registered executor: whether it lives, its load, and whether its app lists it."""
    with open_database(settings) as database:
        rows, lists, now = registered_executors(database)
    if as_json:
        for row in rows:
            print_json(executor_json(row, now, lists))
        return
    lines = [executor_line(row, now, lists) for row in rows]
    print_table(EXECUTOR_HEADERS, lines, nothing="no executor has registered")


@click.group()
def schedulers() -> None:
    """Show the schedulers."""


@schedulers.command(
    "list", epilog=examples("warren schedulers list", "warren schedulers list --json")
)
@as_json
@takes_settings("database_url")
def list_schedulers(settings: Settings, as_json: bool) -> None:
    """Show every registered scheduler and whether it lives, and who has paused them."""
    with open_database(settings) as database:
        rows, now = registrations(database, presence.ADMIN)
        paused_at, paused_by = database.read(cluster.pause)
    if as_json:
        paused = {"paused_at": iso(paused_at), "paused_by": paused_by or None}
        for row in rows:
            print_json(scheduler_json(row, now) | paused)
        return
    lines = [scheduler_line(row, now) for row in rows]
    print_table(SCHEDULER_HEADERS, lines, nothing="no scheduler has registered")
    if paused_at:
        since = f"{local(paused_at, settings.zone)} ({relative(paused_at, now)})"
        print(f"paused by {visible(paused_by)} since {since}; to go on: warren resume")


@click.command(epilog=examples("warren pause"))
@takes_settings("database_url")
def pause(settings: Settings) -> None:
    """Stop sending runs, everywhere; they are planned on and wait."""
    with open_commands(settings) as (commands, _):
        changed = commands.pause()
    print("paused; to go on: warren resume" if changed else "it was paused already")


@click.command(epilog=examples("warren resume"))
@takes_settings("database_url")
def resume(settings: Settings) -> None:
    """Go on sending runs; what waited is sent now."""
    with open_commands(settings) as (commands, _):
        changed = commands.resume()
    print("resumed" if changed else "it was not paused")

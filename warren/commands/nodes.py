"""`warren executors`, `warren schedulers`, `warren pause` and `warren resume`."""

import click

from scheduler.views.to_json import to_json
from sql.instants import iso
from sql.registry import cluster
from warren.actions.local_client import open_client
from warren.command_options import as_json, examples, takes_settings
from warren.database_access import open_database
from warren.settings.settings import Settings
from warren.views.instants import local
from warren.views.nodes import (
    EXECUTOR_HEADERS,
    SCHEDULER_HEADERS,
    executor_line,
    registered_executors,
    registered_schedulers,
    scheduler_line,
)
from warren.views.terminal import print_json, print_table, relative, visible


@click.group()
def executors() -> None:
    """List and drain executors."""


@executors.command("list", epilog=examples("warren executors list", "warren executors list --json"))
@as_json
@takes_settings("database_url")
def list_executors(settings: Settings, as_json: bool) -> None:
    """List the registered executors with their state and load."""
    with open_database(settings) as database:
        found, now = registered_executors(database)
    if as_json:
        for one in found:
            print_json(to_json(one))
        return
    lines = [executor_line(one, now) for one in found]
    print_table(EXECUTOR_HEADERS, lines, nothing="no executor has registered")


@executors.command("drain", epilog=examples("warren executors drain reports-1"))
@click.argument("address")
@takes_settings("database_url")
def drain_executor(settings: Settings, address: str) -> None:
    """Drain an executor: it takes no new runs, finishes the running ones and exits.

    Waiting runs go elsewhere. Use APP/ADDRESS if executors of two apps share the address.
    """
    with open_client(settings) as client:
        changed = client.commands.cluster.drain(client.ids.executor(address))
    print(f"{address} is draining" if changed else f"{address} is already draining")


@click.group()
def schedulers() -> None:
    """List schedulers."""


@schedulers.command(
    "list", epilog=examples("warren schedulers list", "warren schedulers list --json")
)
@as_json
@takes_settings("database_url")
def list_schedulers(settings: Settings, as_json: bool) -> None:
    """List the registered schedulers with their state, and who paused them."""
    with open_database(settings) as database:
        found, now = registered_schedulers(database)
        paused_at, paused_by = database.read(cluster.pause)
    if as_json:
        paused = {"paused_at": iso(paused_at), "paused_by": paused_by or None}
        for one in found:
            print_json(to_json(one, without={"failing"}) | paused)
        return
    lines = [scheduler_line(one, now) for one in found]
    print_table(SCHEDULER_HEADERS, lines, nothing="no scheduler has registered")
    if paused_at:
        since = f"{local(paused_at, settings.zone)} ({relative(paused_at, now)})"
        print(f"paused by {visible(paused_by)} since {since}; to go on: warren resume")


@click.command(epilog=examples("warren pause"))
@takes_settings("database_url")
def pause(settings: Settings) -> None:
    """Stop dispatching runs, everywhere. They are still planned, and wait."""
    with open_client(settings) as client:
        changed = client.commands.cluster.pause()
    print("paused; to go on: warren resume" if changed else "it was paused already")


@click.command(epilog=examples("warren resume"))
@takes_settings("database_url")
def resume(settings: Settings) -> None:
    """Resume dispatching runs. Those that waited are sent now."""
    with open_client(settings) as client:
        changed = client.commands.cluster.resume()
    print("resumed" if changed else "it was not paused")

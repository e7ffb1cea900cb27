"""`warren executors`, `warren schedulers`, `warren pause` and `warren resume`."""

from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.errands.sending import send
from warren.settings.settings import Settings


@click.group()
def executors() -> None:
    """List, show and drain executors."""


@executors.command("list", epilog=examples("warren executors list", "warren executors list --json"))
@as_json
@takes_settings("database_url")
def list_executors(settings: Settings, as_json: bool) -> int:
    """List the registered executors with their state and load."""
    return send(settings, "executors.list", as_json=as_json)


@executors.command(
    "show",
    epilog=examples("warren executors show reports-1", "warren executors show reports-1 --json"),
)
@click.argument("address")
@as_json
@takes_settings("database_url")
def show_executor(settings: Settings, **wanted: Any) -> int:
    """Show an executor, and why it gets no new runs if there is a reason.

    Use APP/ADDRESS if executors of two apps share the address.
    """
    return send(settings, "executors.show", **wanted)


@executors.command("drain", epilog=examples("warren executors drain reports-1"))
@click.argument("address")
@takes_settings("database_url")
def drain_executor(settings: Settings, address: str) -> int:
    """Drain an executor: it takes no new runs, finishes the running ones and exits.

    Waiting runs go elsewhere. Use APP/ADDRESS if executors of two apps share the address.
    """
    return send(settings, "executors.drain", address=address)


@click.group()
def schedulers() -> None:
    """List schedulers."""


@schedulers.command(
    "list", epilog=examples("warren schedulers list", "warren schedulers list --json")
)
@as_json
@takes_settings("database_url")
def list_schedulers(settings: Settings, as_json: bool) -> int:
    """List the registered schedulers with their state, and what is paused, by whom and why."""
    return send(settings, "schedulers.list", as_json=as_json)


_of_app = click.option("--app", help="Only this app. Default: every app.")


@click.command(
    epilog=examples(
        "warren pause",
        'warren pause --reason "database upgrade" --for 2h',
        "warren pause --app reports --until 2026-12-01T08:00",
        "warren pause --app reports --no-until",
    )
)
@_of_app
@click.option(
    "--reason", default="", help="Reason for the pause, one line of up to 200 characters."
)
@click.option("--until", help="End the pause at this time (ISO 8601). Default: never.")
@click.option("--for", "span", help="End the pause after this long: 30m, 2h, 1d.")
@click.option("--no-until", "endless", is_flag=True, help="Remove the pause's end time.")
@takes_settings("database_url", "timezone")
def pause(settings: Settings, *, app: str | None, **wanted: Any) -> int:
    """Stop dispatching runs, for all apps or for one. They are still planned, and wait.

    If dispatch is already paused, a new reason or end replaces the old one.
    """
    ends = (wanted["until"] is not None, wanted["span"] is not None, wanted["endless"])
    if sum(ends) > 1:
        raise click.UsageError("give only one of --until, --for and --no-until")
    if app is None:
        return send(settings, "cluster.pause", **wanted)
    return send(settings, "apps.pause", app=app, **wanted)


@click.command(epilog=examples("warren resume", "warren resume --app reports"))
@_of_app
@takes_settings("database_url")
def resume(settings: Settings, app: str | None) -> int:
    """Resume dispatching runs, for all apps or for one.

    Ticks later than their job's limit are left to its misfire policy. Everything else is sent now.
    """
    if app is None:
        return send(settings, "cluster.resume")
    return send(settings, "apps.resume", app=app)

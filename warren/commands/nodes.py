"""`warren executors`, `warren schedulers`, `warren pause` and `warren resume`."""

from zoneinfo import ZoneInfo

import click

from warren.actions.trigger import LocalClient, open_client
from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.scheduler.app_names import Resolver
from warren.scheduler.commands.cluster import NEVER, PauseOutcome
from warren.scheduler.views import blockers
from warren.scheduler.views.process_view import pause_facts
from warren.scheduler.views.to_json import to_json
from warren.settings.settings import Settings
from warren.sql.registry import pauses
from warren.sql.registry.pauses import EVERY_APP, ShownPause
from warren.views.instants import local, read_moment, read_span
from warren.views.nodes import (
    EXECUTOR_HEADERS,
    SCHEDULER_HEADERS,
    blocker_lines,
    executor_facts,
    executor_json,
    executor_line,
    executor_with_blockers,
    handler_lines,
    registered_schedulers,
    scheduler_line,
)
from warren.views.terminal import print_facts, print_json, print_table, relative, visible


@click.group()
def executors() -> None:
    """List, show and drain executors."""


@executors.command("list", epilog=examples("warren executors list", "warren executors list --json"))
@as_json
@takes_settings("database_url")
def list_executors(settings: Settings, as_json: bool) -> None:
    """List the registered executors with their state and load."""
    with open_database(settings) as database:
        now = now_ms(database)
        executor_blockers = database.read(lambda session: blockers.read(session, None, now_ms=now))
    if as_json:
        for executor in executor_blockers.executors:
            print_json(executor_json(executor, executor_blockers.of_executor(executor)))
        return
    lines = [executor_line(executor, now) for executor in executor_blockers.executors]
    print_table(EXECUTOR_HEADERS, lines, nothing="no executor has registered")
    for words in blocker_lines(executor_blockers):
        print(visible(words))


@executors.command(
    "show",
    epilog=examples("warren executors show reports-1", "warren executors show reports-1 --json"),
)
@click.argument("address")
@as_json
@takes_settings("database_url")
def show_executor(settings: Settings, address: str, as_json: bool) -> None:
    """Show an executor, and why it gets no new runs if there is a reason.

    Use APP/ADDRESS if executors of two apps share the address.
    """
    with open_database(settings) as database:
        now, one_id = now_ms(database), Resolver(database).executor(address)
        executor_, why = database.read(lambda session: executor_with_blockers(session, one_id, now))
    if as_json:
        print_json(executor_json(executor_, why))
        return
    print_facts(executor_facts(executor_, why, now))
    for line in handler_lines(executor_):
        print(f"  {line}")


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
    """List the registered schedulers with their state, and what is paused, by whom and why."""
    with open_database(settings) as database:
        views, now = registered_schedulers(database)
        held = database.read(lambda session: pauses.in_force(session, now))
    if as_json:
        paused = pause_facts(next((scheduler for scheduler in held if scheduler.app is None), None))
        for scheduler in views:
            print_json(to_json(scheduler, without={"failing", "rejected"}) | paused)
        return
    lines = [scheduler_line(scheduler, now) for scheduler in views]
    print_table(SCHEDULER_HEADERS, lines, nothing="no scheduler has registered")
    for pause in held:
        _print_pause(pause, settings.zone, now)


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
def pause(
    settings: Settings,
    *,
    app: str | None,
    reason: str,
    until: str | None,
    span: str | None,
    endless: bool,
) -> None:
    """Stop dispatching runs, for all apps or for one. They are still planned, and wait.

    If dispatch is already paused, a new reason or end replaces the old one.
    """
    if sum((until is not None, span is not None, endless)) > 1:
        raise click.UsageError("give only one of --until, --for and --no-until")
    end_ms = NEVER if endless else None
    if until is not None:
        end_ms = read_moment(until, "--until", zone=settings.zone)
    span_ms = None if span is None else read_span(span)
    with open_client(settings) as client:
        if span_ms is not None:
            end_ms = now_ms(client.database) + span_ms
        outcome = client.commands.cluster.pause(
            _paused_id(client, app), reason=reason, until_ms=end_ms
        )
    again = f"warren resume --app {app}" if app else "warren resume"
    print(_PAUSED[outcome].format(resume=again))


@click.command(epilog=examples("warren resume", "warren resume --app reports"))
@_of_app
@takes_settings("database_url")
def resume(settings: Settings, app: str | None) -> None:
    """Resume dispatching runs, for all apps or for one.

    Ticks later than their job's limit are left to its misfire policy. Everything else is sent now.
    """
    with open_client(settings) as client:
        changed = client.commands.cluster.resume(_paused_id(client, app))
    print("resumed" if changed else "it was not paused")


_PAUSED = {
    PauseOutcome.PAUSED: "paused; to go on: {resume}",
    PauseOutcome.CHANGED: "it was paused already; its reason or end has changed",
    PauseOutcome.ALREADY: "it was paused already",
}


def _paused_id(client: LocalClient, app: str | None) -> int:
    return EVERY_APP if app is None else client.ids.app(app)


def _print_pause(shown_pause: ShownPause, zone: ZoneInfo, now: int) -> None:
    what = f"app {shown_pause.app} is paused" if shown_pause.app else "paused"
    since = f"{local(shown_pause.since_at, zone)} ({relative(shown_pause.since_at, now)})"
    until = f" until {local(shown_pause.until_at, zone)}" if shown_pause.until_at else ""
    why = f": {visible(shown_pause.reason)}" if shown_pause.reason else ""
    resume = f"warren resume --app {shown_pause.app}" if shown_pause.app else "warren resume"
    print(
        f"{what} by {visible(shown_pause.paused_by)} since {since}{until}{why}; to go on: {resume}"
    )

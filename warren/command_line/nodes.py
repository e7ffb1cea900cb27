"""`warren executors`, `warren schedulers`, `warren pause` and `warren resume`."""

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import click

from warren.client import ApiError
from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect
from warren.resources.cluster import Blocker, Cluster, Executor, Handler, Pause, Scheduler
from warren.resources.instant import Instant, to_builtins
from warren.settings.settings import Settings
from warren.terminal.output import (
    print_facts,
    print_json,
    print_line,
    print_struct,
    print_table,
    read_moment,
    read_span,
    shown_ago,
    shown_time,
    warn,
)

#: The words for states; JSON has the states themselves.
_STATE_WORDS = {
    "alive": "online",
    "draining": "draining",
    "silent": "offline",
    "absent": "never connected",
}
EXECUTOR_HEADERS = ("app", "address", "state", "up", "beat", "running", "waiting", "cpu", "memory")
SCHEDULER_HEADERS = ("node", "state", "up", "beat")


@click.group()
def executors() -> None:
    """List, show, drain and remove executors."""


@executors.command("list", epilog=examples("warren executors list", "warren executors list --json"))
@as_json
@takes_settings("database_url")
def list_executors(settings: Settings, as_json: bool) -> None:
    """List the registered executors with their state and load."""
    with connect(settings) as client:
        found, cluster = client.executors(handler_facts=as_json), client.cluster()
        now_ms = client.now_ms()
    if as_json:
        for executor in found:
            print_struct(executor)
        return
    lines = [executor_line(executor, now_ms) for executor in found]
    print_table(EXECUTOR_HEADERS, lines, nothing="no executor has registered")
    for words in _blocker_lines(found, cluster):
        print_line(words)


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
    app, bare = _parts(address)
    with connect(settings) as client:
        executor, now_ms = client.executor(bare, app=app), client.now_ms()
    if as_json:
        print_struct(executor)
        return
    line = dict(zip(EXECUTOR_HEADERS, executor_line(executor, now_ms), strict=True))
    print_facts(
        line
        | {
            "boot": executor.boot_id,
            "code": executor.code_version,
            "handlers": ", ".join(sorted(executor.handlers)),
            "scripts": ", ".join(executor.languages),
            "lacking": ", ".join(executor.missing),
            "no new runs": "; ".join(why.message for why in executor.blocked_by),
        }
    )
    for handler in executor.handler_facts:
        if handler.about or handler.module:
            print_line(f"  {_handler_line(handler)}")


@executors.command("drain", epilog=examples("warren executors drain reports-1"))
@click.argument("address")
@takes_settings("database_url")
def drain_executor(settings: Settings, address: str) -> None:
    """Drain an executor: it takes no new runs, finishes the running ones and exits.

    Waiting runs go elsewhere. Use APP/ADDRESS if executors of two apps share the address.
    """
    with connect(settings) as client:
        app, bare = _parts(address)
        # With APP/ADDRESS, a token that may not read is enough.
        is_new = client.drain_executor(app or client.executor(bare).app, bare).changed
    print_line(f"{address} is draining" if is_new else f"{address} is already draining")


@executors.command(
    "forget",
    epilog=examples(
        "warren executors forget reports-7d9f", "warren executors forget --gone --app reports"
    ),
)
@click.argument("addresses", nargs=-1)
@click.option("--gone", is_flag=True, help="All executors that are offline.")
@click.option("--app", help="Only executors of this app.")
@takes_settings("database_url")
def forget_executors(
    settings: Settings, addresses: tuple[str, ...], gone: bool, app: str | None
) -> int:
    """Remove executors that are gone from the list; those with open runs stay.

    They are also removed automatically after a day, or sooner if their app has nearly 1,000
    addresses. Use APP/ADDRESS if executors of two apps share the address.
    """
    if bool(addresses) == gone:
        raise click.UsageError("expected addresses or --gone")
    kept = 0
    with connect(settings) as client:
        named = [_parts(name) for name in addresses]
        found = [client.executor(bare, app=of_app or app) for of_app, bare in named]
        if gone:
            found = [each for each in client.executors(app=app) if each.state == "silent"]
        for each in found:
            try:
                client.forget_executor(each.app, each.address)
            except ApiError as error:
                warn(str(error))
                kept += 1
            else:
                print_line(f"{each.app}/{each.address} is removed")
    if gone and not found:
        print_line("no executor is offline")
    return 1 if kept else 0


def _parts(name: str) -> tuple[str | None, str]:
    """Return the app and the address in ADDRESS or APP/ADDRESS."""
    app, _, address = name.rpartition("/")
    return app or None, address


def executor_line(executor: Executor, now_ms: int) -> tuple[str, ...]:
    """Return an executor as a row of a table with `EXECUTOR_HEADERS`."""
    state = _STATE_WORDS.get(executor.state, executor.state)
    if executor.beat_at is None:
        return executor.app, executor.address, state, *[""] * 6
    unlisted = ", not listed" if executor.listed is False else ""
    is_ill = executor.ailments and executor.is_online
    return (
        executor.app,
        executor.address,
        state + unlisted + (f", problems: {', '.join(executor.ailments)}" if is_ill else ""),
        shown_ago(executor.boot_at, now_ms).removesuffix(" ago"),
        shown_ago(executor.beat_at, now_ms),
        f"{executor.running}/{executor.slots}",
        str(executor.waiting),
        f"{executor.cpu_percent:.0f} %",
        f"{executor.memory_percent:.0f} %",
    )


def _blocker_lines(found: list[Executor], cluster: Cluster) -> Iterator[str]:
    """Yield lines that say why some or all online executors get no runs."""
    for reason in cluster.blocked_by:
        yield f"no new runs start: {reason.message}"
    for executor in found:
        own = [why for why in executor.blocked_by if _is_own(why, cluster)]
        if own and (executor.state == "alive" or "address" in executor.ailments):
            name = f"{executor.app}/{executor.address}"
            yield f"no new runs start on {name}: {own[0].message}"


def _is_own(why: Blocker, cluster: Cluster) -> bool:
    """Whether a reason concerns one executor alone; slots that are taken are in the table."""
    return why.code != "SLOTS_TAKEN" and why not in cluster.blocked_by


def _handler_line(handler: Handler) -> str:
    place = f"{handler.module}:{handler.line}" if handler.line else handler.module
    about = f"  {handler.about}" if handler.about else ""
    return f"{handler.name}  ({place}){about}" if place else f"{handler.name}{about}"


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
    with connect(settings) as client:
        nodes, cluster, now_ms = client.schedulers(), client.cluster(), client.now_ms()
    if as_json:
        paused = {k: v for k, v in to_builtins(cluster).items() if k.startswith("paused_")}
        for node in nodes:
            print_json(to_builtins(node) | paused)
        return
    lines = [scheduler_line(node, now_ms) for node in nodes]
    print_table(SCHEDULER_HEADERS, lines, nothing="no scheduler has registered")
    for node in nodes:
        if node.unreachable and node.state == "alive":
            print_line(f"{node.node} cannot reach the queues of {', '.join(node.unreachable)}")
    for reason in cluster.blocked_by:
        print_line(f"no new runs start: {reason.message}")
    for pause in cluster.pauses:
        print_line(_pause_line(pause, settings.zone, now_ms))


def scheduler_line(node: Scheduler, now_ms: int) -> tuple[str, ...]:
    """Return a scheduler as a row of a table with `SCHEDULER_HEADERS`."""
    is_ill = node.ailments and node.state == "alive"
    return (
        node.node,
        _STATE_WORDS.get(node.state, node.state)
        + (f", problems: {', '.join(node.ailments)}" if is_ill else ""),
        shown_ago(node.boot_at, now_ms).removesuffix(" ago"),
        shown_ago(node.beat_at, now_ms),
    )


def _pause_line(pause: Pause, zone: ZoneInfo, now_ms: int) -> str:
    what = f"app {pause.app} is paused" if pause.app else "paused"
    since = f"{shown_time(pause.since_at, zone)} ({shown_ago(pause.since_at, now_ms)})"
    until = f" until {shown_time(pause.until_at, zone)}" if pause.until_at else ""
    why = f": {pause.reason}" if pause.reason else ""
    return f"{what} by {pause.paused_by} since {since}{until}{why}; to resume: {_resume(pause.app)}"


def _resume(app: str | None) -> str:
    return f"warren resume --app {app}" if app else "warren resume"


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
    end: dict[str, Any] = {"until": None} if endless else {}
    if until is not None:
        end["until"] = Instant.of(read_moment(until, "--until", zone=settings.zone))
    length_ms = None if span is None else read_span(span)
    with connect(settings) as client:
        if length_ms is not None:
            end["until"] = Instant.of(client.now_ms() + length_ms)
        if app is None:
            paused = client.pause_cluster(reason=reason, **end)
        else:
            paused = client.pause_app(app, reason=reason, **end)
    if not paused.changed:
        print_line("it was already paused")
    elif paused.outcome == "CHANGED":
        print_line("it was already paused; its reason or end has changed")
    else:
        print_line(f"paused; to resume: {_resume(app)}")


@click.command(epilog=examples("warren resume", "warren resume --app reports"))
@_of_app
@takes_settings("database_url")
def resume(settings: Settings, app: str | None) -> None:
    """Resume dispatching runs, for all apps or for one.

    Due times later than their job's limit are left to its misfire policy. All others run now.
    """
    with connect(settings) as client:
        print_line("resumed" if client.resume(app) else "it was not paused")

"""`warren limits` and `warren queue`."""

import click

from warren.broker.durations import read_duration
from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect
from warren.errors import CommandError
from warren.resources import limits as operations
from warren.resources.limits import Limit
from warren.resources.runs import list_queue
from warren.settings.settings import Settings
from warren.terminal.output import (
    print_facts,
    print_line,
    print_struct,
    print_table,
    shown_ago,
    warn,
)

_HEADERS = ("name", "limit", "held", "left", "waiting", "jobs")
_QUEUE_HEADERS = ("id", "job", "app", "kind", "due", "waits for")
_DONE = {"create": "created", "update": "updated"}


@click.group()
def limits() -> None:
    """List, change and delete limits that jobs share."""


@limits.command("list", epilog=examples("warren limits list", "warren limits list --json"))
@as_json
@takes_settings("database_url")
def list_limits(settings: Settings, as_json: bool) -> None:
    """List limits: how full they are, and how many runs wait for them."""
    with connect(settings) as client:
        found = client.limits()
    if as_json:
        for limit in found:
            print_struct(limit)
        return
    lines = [
        (
            limit.name,
            limit.allows,
            _held(limit),
            "" if limit.left is None else str(limit.left),
            str(sum(job.waiting for job in limit.jobs)),
            str(len(limit.jobs) + limit.other_jobs),
        )
        for limit in found
    ]
    print_table(_HEADERS, lines, nothing="there are no limits")


@limits.command(
    "show",
    help=operations.show_limit.about,
    epilog=examples("warren limits show warehouse", "warren limits show warehouse --json"),
)
@click.argument("name")
@as_json
@takes_settings("database_url")
def show_limit(settings: Settings, name: str, as_json: bool) -> None:
    with connect(settings) as client:
        limit = client.limit(name)
    if as_json:
        print_struct(limit)
        return
    jobs = [f"{job.app}/{job.job} ({job.weight} each, {job.waiting} waiting)" for job in limit.jobs]
    hidden = f" and {limit.other_jobs} of other apps" if limit.other_jobs else ""
    facts = {
        "limit": limit.name,
        "allows": limit.allows,
        "held": _held(limit),
        "left": "" if limit.left is None else str(limit.left),
        "held by": ", ".join(
            f"{holder.app}/{holder.job} #{holder.run}" if holder.run else "another app"
            for holder in limit.held_by
        ),
        "jobs": ", ".join(jobs) + hidden,
    }
    print_facts(facts)


@limits.command(
    "apply",
    help=operations.set_limit.about,
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
def apply_limit(
    settings: Settings, name: str, at_once: int | None, rate: int | None, per: str | None
) -> None:
    if per is not None and read_duration(per, "--per") % 1:
        raise CommandError(f"expected --per to be whole seconds, got: {per!r}")
    with connect(settings) as client:
        limit = client.set_limit(name, at_once=at_once, rate=rate, per=per)
    print_line(f"{_DONE.get(limit.action, limit.action)} limit {name}: {limit.allows}")
    if at_once is not None and limit.held > at_once:
        warn(f"{limit.held} are held now; no run starts until fewer than {at_once} are")


@limits.command(
    "delete", help=operations.delete_limit.about, epilog=examples("warren limits delete warehouse")
)
@click.argument("name")
@takes_settings("database_url")
def delete_limit(settings: Settings, name: str) -> None:
    with connect(settings) as client:
        client.delete_limit(name)
    print_line(f"deleted limit {name}")


def _held(limit: Limit) -> str:
    return "" if limit.at_once is None else f"{limit.held} of {limit.at_once}"


@click.command(
    help=list_queue.about, epilog=examples("warren queue", "warren queue --app reports --json")
)
@click.option("--app", help="Only this app. Default: every app.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@as_json
@takes_settings("database_url")
def queue(settings: Settings, app: str | None, limit: int, as_json: bool) -> None:
    with connect(settings) as client:
        found, now_ms = client.queue(app=app, limit=limit), client.now_ms()
    if as_json:
        for run in found:
            print_struct(run)
        return
    lines = [
        (
            str(run.id),
            run.job or f"(deleted job {run.job_id})",
            run.app or "",
            run.kind,
            shown_ago(run.due_at, now_ms),
            "; ".join(run.waits_for) or "a scheduler, or an executor with room",
        )
        for run in found
    ]
    print_table(_QUEUE_HEADERS, lines, nothing="nothing waits")

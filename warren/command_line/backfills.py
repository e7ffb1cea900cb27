"""`warren backfill` and `warren backfills`: run a job for a range of dates."""

import time
from typing import Any, get_args
from zoneinfo import ZoneInfo

import click

from warren.client import Client
from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect
from warren.resources import backfills as operations
from warren.resources.backfills import Backfill, BackfillPreview, Only
from warren.settings.settings import Settings
from warren.terminal.output import (
    print_facts,
    print_line,
    print_struct,
    print_table,
    shown_ago,
    shown_time,
    warn,
)

_LARGEST_ID = 2**53 - 1
#: Time between two looks whether a backfill is over.
POLL_SECONDS = 1.0
_HEADERS = ("id", "job", "app", "dates", "state", "done", "failed", "open", "made", "by")
_backfill_id = click.argument("backfill_id", metavar="ID", type=click.IntRange(1, _LARGEST_ID))


@click.command(
    epilog=examples(
        "warren backfill daily --from 2026-11-01 --to 2026-11-30 --at-once 3",
        "warren backfill daily --from 2026-11-01 --to 2026-11-30 --only failed --dry-run",
        "warren backfill daily --from 2026-11-30 --to 2026-11-30 --only all --wait",
        "warren backfill load-day --from 2026-11-01 --to 2026-11-07 --dates",
    )
)
@click.argument("name")
@click.option("--from", "from_date", metavar="DATE", required=True, help="The first run date.")
@click.option("--to", "to_date", metavar="DATE", required=True, help="The last run date.")
@click.option(
    "--dates",
    is_flag=True,
    help="One run for each date, whatever the schedule: for jobs on demand.",
)
@click.option(
    "--at-once", default=1, show_default=True, help="How many due times may be open at once."
)
@click.option("--newest-first", is_flag=True, help="Begin with the last date.")
@click.option(
    "--only",
    type=click.Choice(get_args(Only)),
    default="missing",
    show_default=True,
    help="Due times for which nothing ran, that are unresolved, or all.",
)
@click.option("--stop-on-failure", is_flag=True, help="Pause once a run has failed for good.")
@click.option("--no-children", is_flag=True, help="Do not start the job's children afterwards.")
@click.option("--instead", is_flag=True, help="Stop the job's schedule until the backfill is over.")
@click.option("--param", help="The param of all runs, instead of the job's own.")
@click.option("--key", help="The same key for the same job creates no second backfill.")
@click.option("--dry-run", is_flag=True, help="Show which due times would run.")
@click.option(
    "--wait", is_flag=True, help="Wait until it is over or paused; exit with 0 if none has failed."
)
@as_json
@takes_settings("database_url", "timezone")
def backfill(
    settings: Settings,
    *,
    name: str,
    no_children: bool,
    dry_run: bool,
    wait: bool,
    as_json: bool,
    **asked: Any,
) -> int:
    """Run a job for the due times whose run dates are in a range.

    The schedulers plan a limited number of them at once. Meanwhile, the job's own schedule
    continues.
    """
    if wait and dry_run:
        raise click.UsageError("expected --wait or --dry-run, got both")
    with connect(settings) as client:
        job = str(client.find_job(name))
        if dry_run:
            preview = client.preview_backfill(job, children=not no_children, **asked)
            _print_preview(preview, settings.zone, as_json=as_json)
            return 0
        made = client.backfill(job, children=not no_children, **asked)
        for notice in made.notices:
            warn(notice)
        if not as_json:
            word = "planned" if made.is_new else "exists already"
            times = f"{made.due_times:,} due time{'' if made.due_times == 1 else 's'}"
            seen = f"to see it: warren backfills show {made.id}"
            print_line(f"backfill {made.id} of {times} {word}; {seen}")
        elif not wait:
            print_struct(made)
        if not wait:
            return 0
        while not _is_over(client, made.id):
            time.sleep(POLL_SECONDS)
        ended = client.get_backfill(made.id)
    if as_json:
        print_struct(ended)
    else:
        print_line(_outcome(ended))
    return 0 if ended.state == "DONE" and not ended.failed and not ended.open else 1


def _is_over(client: Client, backfill_id: int) -> bool:
    """Whether a backfill has ended, or waits for a person: it is paused, and has no open run."""
    going = client.backfills(going=True, limit=10_000)
    return not any(one.id == backfill_id and (one.state == "OPEN" or one.open) for one in going)


def _outcome(ended: Backfill) -> str:
    counts = {"succeeded": ended.succeeded, "failed": ended.failed, "skipped": ended.skipped}
    counts |= {"left out": ended.left_out, "to come": ended.to_come}
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    reason = f": {ended.reason}" if ended.reason else ""
    return f"backfill {ended.id} {ended.state}{reason}; {listed or 'no due times'}"


def _print_preview(preview: BackfillPreview, zone: ZoneInfo, *, as_json: bool) -> None:
    for notice in preview.notices:
        warn(notice)
    ticks = preview.due_times
    if as_json:
        for tick in ticks:
            print_struct(tick)
        return
    lines = [
        (
            str(tick.run_date),
            shown_time(tick.scheduled_at, zone),
            tick.state,
            "yes" if tick.runs else "no",
        )
        for tick in ticks
    ]
    print_table(("run date", "due", "so far", "would run"), lines, nothing="no due times")
    print_line(f"{sum(tick.runs for tick in ticks):,} of {len(ticks):,} due times would run")


@click.group()
def backfills() -> None:
    """List, show, pause, resume and cancel backfills."""


@backfills.command(
    "list", epilog=examples("warren backfills list", "warren backfills list --job daily --going")
)
@click.option("--job", help="Only those of this job: NAME, or APP/NAME.")
@click.option("--going", is_flag=True, help="Only those that are open or paused.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="At most this many.",
)
@as_json
@takes_settings("database_url", "timezone")
def list_backfills(
    settings: Settings, job: str | None, going: bool, limit: int, as_json: bool
) -> None:
    """List backfills, newest first."""
    with connect(settings) as client:
        its_job = None if job is None else str(client.find_job(job))
        found = client.backfills(job=its_job, going=going, limit=limit)
        now_ms = client.now_ms()
    if as_json:
        for one in found:
            print_struct(one)
        return
    lines = [
        (
            str(one.id),
            one.job or "(deleted job)",
            one.app,
            one.dates,
            one.state,
            f"{one.done:,} of {one.due_times:,}",
            str(one.failed or ""),
            str(one.open or ""),
            shown_ago(one.made_at, now_ms),
            one.made_by,
        )
        for one in found
    ]
    print_table(_HEADERS, lines, nothing="no such backfills")


@backfills.command(epilog=examples("warren backfills show 71", "warren backfills show 71 --json"))
@_backfill_id
@as_json
@takes_settings("database_url", "timezone")
def show(settings: Settings, backfill_id: int, as_json: bool) -> None:
    """Show a backfill, and how each of its due times ended."""
    with connect(settings) as client:
        shown, now_ms = client.get_backfill(backfill_id, ticks=True), client.now_ms()
    if as_json:
        print_struct(shown)
        return
    print_facts(_facts(shown, settings.zone, now_ms))
    lines = [
        (str(due.run_date), shown_time(due.scheduled_at, settings.zone), due.state, _id(due.run_id))
        for due in shown.ticks or ()
    ]
    print_table(("run date", "due", "state", "run"), lines, nothing="no due times")


def _id(run_id: int | None) -> str:
    return str(run_id or "")


def _facts(shown: Backfill, zone: ZoneInfo, now_ms: int) -> dict[str, str]:
    counts = {
        "succeeded": shown.succeeded,
        "failed": shown.failed,
        "skipped": shown.skipped,
        "open": shown.open,
        "to come": shown.to_come,
        "left out": shown.left_out,
    }
    options = {
        "newest first": shown.newest_first,
        f"only {shown.only}": shown.only != "all",
        "stops on failure": shown.stop_on_failure,
        "no children": not shown.children,
        "instead of the schedule": shown.instead,
    }
    times = {"made": shown.made_at, "expected": shown.expected_at, "ended": shown.ended_at}
    return {
        "backfill": str(shown.id),
        "job": f"{shown.app}/{shown.job}" if shown.job else "(deleted job)",
        "state": f"{shown.state}: {shown.reason}" if shown.reason else shown.state,
        "dates": shown.dates,
        "due times": f"{shown.due_times:,}",
        **{name: f"{count:,}" for name, count in counts.items() if count},
        "at once": str(shown.at_once),
        "options": ", ".join(name for name, is_on in options.items() if is_on),
        "param": shown.param or "",
        "key": shown.key or "",
        "made by": shown.made_by,
        **{
            name: f"{shown_time(at, zone)}  ({shown_ago(at, now_ms)})" if at else ""
            for name, at in times.items()
        },
    }


@backfills.command(
    help=operations.pause_backfill.about, epilog=examples("warren backfills pause 71")
)
@_backfill_id
@takes_settings("database_url")
def pause(settings: Settings, backfill_id: int) -> None:
    with connect(settings) as client:
        client.pause_backfill(backfill_id)
    print_line(f"backfill {backfill_id} is paused; its open runs continue")


@backfills.command(
    help=operations.resume_backfill.about, epilog=examples("warren backfills resume 71")
)
@_backfill_id
@takes_settings("database_url")
def resume(settings: Settings, backfill_id: int) -> None:
    with connect(settings) as client:
        client.resume_backfill(backfill_id)
    print_line(f"backfill {backfill_id} goes on")


@backfills.command(
    help=operations.cancel_backfill.about,
    epilog=examples("warren backfills cancel 71", "warren backfills cancel 71 --kill"),
)
@_backfill_id
@click.option("--kill", is_flag=True, help="Also end its open runs.")
@takes_settings("database_url")
def cancel(settings: Settings, backfill_id: int, kill: bool) -> None:
    with connect(settings) as client:
        killed = client.cancel_backfill(backfill_id, kill=kill).killed
    count = "its" if killed is None else killed
    rest = f"{count} open runs are killed" if kill else "its open runs continue"
    print_line(f"backfill {backfill_id} is cancelled; {rest}")

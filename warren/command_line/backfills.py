"""`warren backfill` and `warren backfills`: run a job for a range of dates."""

import time
from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.errands.sending import open_sender, send
from warren.settings.settings import Settings
from warren.sql.backfill_status import Selection
from warren.terminal.output import print_output

_LARGEST_ID = 2**53 - 1
#: Time between two looks whether a backfill is over.
POLL_SECONDS = 1.0
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
    type=click.Choice([selection.value for selection in Selection]),
    default=Selection.MISSING.value,
    show_default=True,
    help="Due times for which nothing ran, that are failed now, or all.",
)
@click.option("--stop-on-failure", is_flag=True, help="Pause once a run has failed for good.")
@click.option("--no-children", is_flag=True, help="Do not start the job's children afterwards.")
@click.option("--instead", is_flag=True, help="Stop the job's schedule until the backfill is over.")
@click.option("--param", help="The param of all runs, instead of the job's own.")
@click.option("--key", help="A name; the same key of the same job makes no second backfill.")
@click.option("--dry-run", is_flag=True, help="Show which due times would run.")
@click.option(
    "--wait", is_flag=True, help="Wait until it is over or paused; exit with 0 if none has failed."
)
@as_json
@takes_settings("database_url", "timezone")
def backfill(settings: Settings, *, wait: bool, **wanted: Any) -> int:
    """Run a job for the due times whose run dates are in a range.

    The schedulers plan a limited number of them at once. The job's own schedule goes on beside it.
    """
    if not wait:
        return send(settings, "backfill", **wanted)
    if wanted["dry_run"]:
        raise click.UsageError("expected --wait or --dry-run, got both")
    with open_sender(settings) as sender:
        made = sender.send("backfill", is_awaited=True, **wanted)
        print_output(made)
        asked = {"backfill_id": made.facts["backfill_id"], "as_json": wanted["as_json"]}
        while not (over := sender.send("backfills.outcome", **asked)).facts["is_over"]:
            time.sleep(POLL_SECONDS)
    print_output(over)
    return over.status


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
def list_backfills(settings: Settings, **wanted: Any) -> int:
    """List backfills, newest first."""
    return send(settings, "backfills.list", **wanted)


@backfills.command(epilog=examples("warren backfills show 71", "warren backfills show 71 --json"))
@_backfill_id
@as_json
@takes_settings("database_url", "timezone")
def show(settings: Settings, **wanted: Any) -> int:
    """Show a backfill, and what became of each of its due times."""
    return send(settings, "backfills.show", **wanted)


@backfills.command(epilog=examples("warren backfills pause 71"))
@_backfill_id
@takes_settings("database_url")
def pause(settings: Settings, backfill_id: int) -> int:
    """Plan no more runs of a backfill until it is resumed; open ones continue."""
    return send(settings, "backfills.pause", backfill_id=backfill_id)


@backfills.command(epilog=examples("warren backfills resume 71"))
@_backfill_id
@takes_settings("database_url")
def resume(settings: Settings, backfill_id: int) -> int:
    """Let a paused backfill go on, also one that a failure has stopped."""
    return send(settings, "backfills.resume", backfill_id=backfill_id)


@backfills.command(
    epilog=examples("warren backfills cancel 71", "warren backfills cancel 71 --kill")
)
@_backfill_id
@click.option("--kill", is_flag=True, help="End its open runs, too.")
@takes_settings("database_url")
def cancel(settings: Settings, **wanted: Any) -> int:
    """Plan no more runs of a backfill; open ones continue unless they are killed."""
    return send(settings, "backfills.cancel", **wanted)

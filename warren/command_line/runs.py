"""`warren runs …`: show, read, repeat, move, cancel, kill and clear runs; and `warren report`."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.errands.sending import open_sender, send
from warren.settings.settings import Settings
from warren.sql.run_status import FAILURES, RunStatus
from warren.terminal.output import print_output, visible

_LARGEST_ID = 2**53 - 1
#: Options of a list of runs that say what caused them.
_WHOSE = ("outside_flows", "flow_run", "backfill")
#: The most runs that one command repeats or cancels.
MAX_RUNS = 500
_run_id = click.argument("run_id", metavar="ID", type=click.IntRange(1, _LARGEST_ID))
_run_ids = click.argument(
    "run_ids", metavar="ID...", type=click.IntRange(1, _LARGEST_ID), nargs=-1, required=True
)


@click.group()
def runs() -> None:
    """List, show, repeat, move, cancel, kill and clear runs, read their logs."""


@runs.command(
    "list",
    epilog=examples(
        "warren runs list --job nightly-report --since 2h",
        "warren runs list --status FAILED --json",
        "warren runs list --unresolved --since 1d",
        "warren runs list --run-date 2026-12-01 --job nightly-report",
        "warren runs list --backfill 71 --status FAILED",
        "warren runs list --skips --since 1d",
    ),
)
@click.option("--app", help="Only runs of this app.")
@click.option("--job", help="Only runs of this job: NAME, or APP/NAME.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in RunStatus], case_sensitive=False),
    help="Only runs in this status.",
)
@click.option("--since", metavar="T", help="Only runs due since T: ISO 8601, or 10m, 2h, 1d.")
@click.option("--run-date", metavar="DATE", help="Only runs about this date, such as 2026-12-01.")
@click.option(
    "--tick",
    type=click.IntRange(1, _LARGEST_ID),
    metavar="ID",
    help="Only shards and attempts of the same tick as run ID.",
)
@click.option(
    "--unresolved",
    is_flag=True,
    help="Only failures whose due time is failed now: nothing later succeeded or is open.",
)
@click.option("--outside-flows", is_flag=True, help="All but runs of flows' nodes.")
@click.option(
    "--flow-run",
    type=click.IntRange(1, _LARGEST_ID),
    metavar="ID",
    help="Only runs of the nodes of run ID, which is a flow's.",
)
@click.option(
    "--backfill",
    type=click.IntRange(1, _LARGEST_ID),
    metavar="ID",
    help="Only runs of backfill ID.",
)
@click.option("--skips", is_flag=True, help="List due times that were skipped instead, and why.")
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="At most this many.",
)
@as_json
@takes_settings("database_url", "timezone")
def list_runs(settings: Settings, *, skips: bool, **wanted: Any) -> int:
    """List runs, the latest due time first.

    Those due over an hour from now are listed with --status PLANNED, --run-date, --flow-run or
    --backfill.
    """
    status, tick, unresolved = wanted["status"], wanted["tick"], wanted["unresolved"]
    _refuse_together("--skips", skips, wanted, "status", "run_date", "tick", "app", *_WHOSE)
    _refuse_together("--tick", tick, wanted, *_WHOSE)
    _refuse_together("--outside-flows", wanted["outside_flows"], wanted, "flow_run")
    if unresolved and (skips or tick or (status and status.upper() not in FAILURES)):
        words = "expected --unresolved without --skips and --tick, and only with --status"
        raise click.UsageError(f"{words} {', '.join(sorted(FAILURES))}")
    if skips:
        kept = {name: wanted[name] for name in ("job", "since", "limit", "as_json")}
        return send(settings, "runs.skips", **kept)
    return send(settings, "runs.list", **wanted)


@runs.command(epilog=examples("warren runs show 4711"))
@_run_id
@as_json
@takes_settings("database_url", "timezone")
def show(settings: Settings, **wanted: Any) -> int:
    """Show everything about a run."""
    return send(settings, "runs.show", **wanted)


@runs.command(epilog=examples("warren runs log 4711", "warren runs log 4711 --follow"))
@_run_id
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the run has ended.")
@takes_settings("database_url", "log_dir")
def log(settings: Settings, run_id: int, follow: bool) -> None:
    """Print the log of a run."""
    with open_sender(settings) as sender:
        sender.print_log(run_id, follow=follow)


@runs.command(
    epilog=examples(
        "warren runs rerun 4711 4712",
        "warren runs rerun 4711 --current --no-children",
        "warren runs rerun 4711 --failed",
        "warren runs rerun 4711 --from load",
    )
)
@_run_ids
@click.option("--current", is_flag=True, help="With the job's handler, param and script of now.")
@click.option("--failed", is_flag=True, help="Of a flow: what failed, and what runs after it.")
@click.option("--from", "from_node", metavar="NODE", default="", help="From this node on.")
@click.option("--only", "only_node", metavar="NODE", default="", help="This node alone.")
@click.option("--no-children", is_flag=True, help="Do not start the job's children afterwards.")
@click.option("--yes", is_flag=True, help="Start children again that ran for the due time.")
@as_json
@takes_settings("database_url")
def rerun(
    settings: Settings, *, run_ids: tuple[int, ...], no_children: bool, yes: bool, **wanted: Any
) -> int:
    """Repeat runs for their due times, with their params and versions of the script.

    All of them are repeated, or none. Shards of one due time run together again. Of a flow, the
    nodes that do not run again are kept with their results.
    """
    if no_children and yes:
        raise click.UsageError("expected --no-children or --yes, got both")
    children = False if no_children else True if yes else None
    asked = wanted | {"run_ids": _distinct(run_ids), "children": children}
    with open_sender(settings) as sender:
        output = sender.send("runs.rerun", **asked)
        if question := output.facts.get("question"):
            if not sys.stdin.isatty():
                words = "add --yes to run them again, or --no-children"
                raise click.UsageError(f"{question}; {words}")
            click.confirm(f"{visible(question)}. Run them again?", abort=True, err=True)
            output = sender.send("runs.rerun", **asked | {"children": True})
    print_output(output)
    return output.status


@runs.command(epilog=examples("warren runs kill 4711"))
@_run_id
@takes_settings("database_url")
def kill(settings: Settings, run_id: int) -> int:
    """Kill a run, wherever it is: SIGTERM, then SIGKILL after the grace time."""
    return send(settings, "runs.kill", run_id=run_id)


@runs.command(
    epilog=examples("warren runs move 4711 --at 2026-12-01T08:00", "warren runs move 4711 --in 90m")
)
@_run_id
@click.option("--at", metavar="T", help="Run it at T: ISO 8601, by default in WARREN_TIMEZONE.")
@click.option("--in", "after", metavar="D", help="Run it after D: 90s, 5m, 2d12h.")
@takes_settings("database_url", "timezone")
def move(settings: Settings, *, run_id: int, at: str | None, after: str | None) -> int:
    """Give a run that was triggered another due time, while it is planned."""
    if (at is None) == (after is None):
        raise click.UsageError("expected one of --at and --in")
    return send(settings, "runs.move", run_id=run_id, at=at, after=after)


@runs.command(epilog=examples("warren runs cancel 4711 4712"))
@_run_ids
@takes_settings("database_url")
def cancel(settings: Settings, run_ids: tuple[int, ...]) -> int:
    """Cancel runs that were triggered, while they are planned; again is no error."""
    return send(settings, "runs.cancel", run_ids=_distinct(run_ids))


@runs.command(
    epilog=examples(
        "warren runs clear --older-than 90d --dry-run",
        "warren runs clear --job nightly-report --keep 1000",
    )
)
@click.option("--job", help="Only runs of this job: NAME, or APP/NAME.")
@click.option("--app", help="Only runs of this app.")
@click.option("--older-than", metavar="T", help="Only runs due before T: ISO 8601, or 30d, 12w.")
@click.option("--keep", metavar="N", type=click.IntRange(1), help="All but the newest N.")
@click.option("--all", "everything", is_flag=True, help="All finished runs.")
@click.option("--dry-run", is_flag=True, help="Show how many would be deleted.")
@takes_settings("database_url", "timezone")
def clear(settings: Settings, *, everything: bool, **wanted: Any) -> None:
    """Delete finished runs from the tables. Their logs and the day report stay.

    All runs of a tick are deleted together, once the last one is over.
    """
    chosen = (wanted["older_than"] is not None, wanted["keep"] is not None, everything)
    if sum(chosen) != 1:
        raise click.UsageError("expected one of --older-than, --keep and --all")
    if wanted["job"] is not None and wanted["app"] is not None:
        raise click.UsageError("expected --job or --app, got both; a job is named APP/NAME too")
    count, is_over = 0, False
    with open_sender(settings) as sender:
        while not is_over:
            facts = sender.send("runs.clear", **wanted).facts
            count, is_over = count + facts["count"], facts["is_over"]
    verb = "would be cleared" if wanted["dry_run"] else "cleared"
    print(f"{count:,} {'run' if count == 1 else 'runs'} {verb}")


def _refuse_together(
    option: str, is_given: object, wanted: Mapping[str, Any], *others: str
) -> None:
    """Refuse an option together with any of others.

    Raises:
        UsageError: another one is given.

    """
    if is_given and any(wanted[other] for other in others):
        *most, last = [f"--{other.replace('_', '-')}" for other in others]
        names = f"{', '.join(most)} and {last}" if most else last
        raise click.UsageError(f"expected {option} without {names}")


def _distinct(run_ids: tuple[int, ...]) -> list[int]:
    """Return the ids, each once.

    Raises:
        UsageError: there are too many.

    """
    if len(run_ids) > MAX_RUNS:
        raise click.UsageError(f"expected up to {MAX_RUNS} runs, got: {len(run_ids)}")
    return list(dict.fromkeys(run_ids))

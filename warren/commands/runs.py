"""`warren runs …`: show, read, repeat, kill and clear runs."""

import sys
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import click

from warren.actions.run_log import print_log
from warren.actions.trigger import open_client, rerun_runs
from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.scheduler.app_names import Resolver
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.retention.clearing_criteria import ClearingCriteria
from warren.scheduler.views.to_json import run_json
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.sql.jobs.skips import SkipFilter, lines
from warren.sql.listings import recent
from warren.sql.listings.run_search import AHEAD_MS
from warren.sql.run_status import FAILURES, RunStatus
from warren.sql.runs import calls
from warren.views.instants import read_instant
from warren.views.runs import HEADERS, print_skips, run_facts, run_line, skip_json
from warren.views.terminal import print_facts, print_json, print_table, print_text

_LARGEST_ID = 2**53 - 1
#: The most runs that one command repeats, in one transaction.
MAX_RERUNS = 500
_run_id = click.argument("run_id", metavar="ID", type=click.IntRange(1, _LARGEST_ID))


@click.group()
def runs() -> None:
    """List, show, repeat, kill and clear runs, read their logs."""


@runs.command(
    "list",
    epilog=examples(
        "warren runs list --job nightly-report --since 2h",
        "warren runs list --status FAILED --json",
        "warren runs list --unresolved --since 1d",
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
def list_runs(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings,
    app: str | None,
    job: str | None,
    status: str | None,
    since: str | None,
    tick: int | None,
    unresolved: bool,
    skips: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, the latest due time first.

    Those due over an hour from now are listed with --status PLANNED.
    """
    if skips and (status or tick or app):
        raise click.UsageError("expected --skips without --status, --tick and --app")
    if unresolved and (skips or tick or (status and status.upper() not in FAILURES)):
        words = "expected --unresolved without --skips and --tick, and only with --status"
        raise click.UsageError(f"{words} {', '.join(sorted(FAILURES))}")
    with open_database(settings) as database:
        now = now_ms(database)
        since_ms = None
        if since is not None:
            since_ms = read_instant(since, now_ms=now, zone=settings.zone)
        if skips:
            _list_skips(database, settings.zone, job, since_ms, limit=limit, as_json=as_json)
            return
        wanted = recent.RunFilter(
            app=app,
            job=job,
            status=status.upper() if status else None,
            since_ms=since_ms,
            until_ms=None if status or tick else now + AHEAD_MS,
            tick_of=tick,
            unresolved=unresolved,
            limit=limit,
        )
        rows = database.read(lambda session: recent.runs(session, wanted))
    if as_json:
        for row in rows:
            print_json(run_json(row))
        return
    print_table(HEADERS, [run_line(row, now_ms=now) for row in rows], nothing="no such runs")


def _list_skips(
    database: Database,
    zone: ZoneInfo,
    job: str | None,
    since_ms: int | None,
    *,
    limit: int,
    as_json: bool,
) -> None:
    job_id = None if job is None else Resolver(database).job(job)
    wanted = SkipFilter(job_id=job_id, since_ms=since_ms, limit=limit)
    skips = database.read(lambda session: lines(session, wanted))
    if not as_json:
        print_skips(skips, zone, nothing="no such skips")
        return
    for skip in skips:
        print_json(skip_json(skip))


@runs.command(epilog=examples("warren runs show 4711"))
@_run_id
@as_json
@takes_settings("database_url", "timezone")
def show(settings: Settings, run_id: int, as_json: bool) -> None:
    """Show everything about a run."""
    with open_database(settings) as database:
        now = now_ms(database)
        run = database.read(lambda session: recent.run(session, run_id))
        called = database.read(lambda session: calls.of_run(session, run))
    if as_json:
        print_json(run_json(run) | {"calls": called})
        return
    facts = run_facts(run, now_ms=now, zone=settings.zone)
    print_facts(facts | {"called runs": ", ".join(map(str, called))})
    texts = {
        "message": run.message,
        "result": run.result if run.result and run.result[0] in "[{" else "",
        "how it was sent": run.trigger_message,
    }
    for title, text in texts.items():
        if text:
            print_text(title, text)


@runs.command(epilog=examples("warren runs log 4711", "warren runs log 4711 --follow"))
@_run_id
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the run has ended.")
@takes_settings("database_url", "log_dir")
def log(settings: Settings, run_id: int, follow: bool) -> None:
    """Print the log of a run."""
    with open_database(settings) as database:
        print_log(database, settings.log_dir, run_id, follow=follow)


@runs.command(
    epilog=examples("warren runs rerun 4711 4712", "warren runs rerun 4711 --current --no-children")
)
@click.argument(
    "run_ids", metavar="ID...", type=click.IntRange(1, _LARGEST_ID), nargs=-1, required=True
)
@click.option("--current", is_flag=True, help="With the job's handler, param and script of now.")
@click.option("--no-children", is_flag=True, help="Do not start the job's children afterwards.")
@click.option("--yes", is_flag=True, help="Start children again that ran for the due time.")
@as_json
@takes_settings("database_url")
def rerun(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings,
    run_ids: tuple[int, ...],
    current: bool,
    no_children: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Repeat runs for their due times, with their params and versions of the script.

    All of them are repeated, or none. Shards of one due time run together again.
    """
    if no_children and yes:
        raise click.UsageError("expected --no-children or --yes, got both")
    if len(run_ids) > MAX_RERUNS:
        raise click.UsageError(f"expected up to {MAX_RERUNS} runs, got: {len(run_ids)}")
    children = False if no_children else True if yes else None
    options = RerunOptions(current=current, children=children)
    rerun_runs(settings, tuple(dict.fromkeys(run_ids)), options, as_json=as_json)


@runs.command(epilog=examples("warren runs kill 4711"))
@_run_id
@takes_settings("database_url")
def kill(settings: Settings, run_id: int) -> None:
    """Kill a run, wherever it is: SIGTERM, then SIGKILL after the grace time."""
    with open_client(settings) as client:
        outcome = client.commands.runs.kill(run_id)
    print(f"run {run_id}: {outcome.value}")


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
def clear(settings: Settings, **wanted: Any) -> None:
    """Delete finished runs from the tables. Their logs and the day report stay.

    All runs of a tick are deleted together, once the last one is over.
    """
    clear_runs(settings, ClearOptions(**wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearOptions:
    """The command's options."""

    job: str | None
    app: str | None
    older_than: str | None
    keep: int | None
    everything: bool
    dry_run: bool


def clear_runs(settings: Settings, wanted: ClearOptions) -> None:
    """Clear runs and print how many; on a terminal, also the progress.

    Raises:
        UsageError: not exactly one way to choose runs was given.

    """
    chosen = (wanted.older_than is not None, wanted.keep is not None, wanted.everything)
    if sum(chosen) != 1:
        raise click.UsageError("expected one of --older-than, --keep and --all")
    if wanted.job is not None and wanted.app is not None:
        raise click.UsageError("expected --job or --app, got both; a job is named APP/NAME too")
    with open_client(settings) as client:
        now = now_ms(client.database)
        before = wanted.older_than
        before_ms = None
        if before is not None:
            before_ms = read_instant(before, now_ms=now, zone=settings.zone)
        when = {"keep": wanted.keep, "before_ms": before_ms}
        criteria = ClearingCriteria(**_whose(client.ids, wanted), **when)
        count = client.commands.runs.clear(
            criteria, dry_run=wanted.dry_run, on_progress=_show_progress
        )
    _end_progress()
    verb = "would be cleared" if wanted.dry_run else "cleared"
    print(f"{count:,} {'run' if count == 1 else 'runs'} {verb}")


def _whose(ids: Resolver, wanted: ClearOptions) -> dict[str, Any]:
    if wanted.job is not None:
        return {"job_id": ids.job(wanted.job)}
    if wanted.app is not None:
        return {"app_id": ids.app(wanted.app)}
    return {}


def _show_progress(count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{count:,} …", end="", file=sys.stderr, flush=True)


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)

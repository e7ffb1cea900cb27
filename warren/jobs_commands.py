"""`warren jobs …`: apply and export a job file; show, start, stop, delete and trigger jobs."""

from pathlib import Path
from zoneinfo import ZoneInfo

import click

from scheduler.upcoming import next_fires
from sql import families, listings
from warren.access import now_ms, open_database
from warren.acting import open_commands
from warren.instants import iso, local
from warren.job_apply import apply_file
from warren.job_export import export_jobs
from warren.job_trigger import trigger_job
from warren.job_view import HEADERS, job_facts, job_json, job_line, waits
from warren.options import as_json, examples, takes_settings
from warren.run_view import HEADERS as RUN_HEADERS
from warren.run_view import run_line
from warren.settings import Settings
from warren.terminal import print_facts, print_json, print_table, relative, warn

#: How many runs `jobs show` shows.
_LAST_RUNS = 10
_name = click.argument("name")


@click.group()
def jobs() -> None:
    """Apply, export, show, start, stop and trigger jobs. A job is named NAME, or APP/NAME."""


@jobs.command(
    epilog=examples("warren jobs apply jobs.yaml --dry-run", "warren jobs apply jobs.yaml")
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Delete jobs of FILE's apps that are not in FILE.")
@as_json
@takes_settings("database_url")
def apply(settings: Settings, file: Path, dry_run: bool, prune: bool, as_json: bool) -> None:
    """Make the jobs what FILE says; applying it again changes nothing."""
    apply_file(settings, file, dry_run=dry_run, prune=prune, as_json=as_json)


@jobs.command(
    epilog=examples(
        "warren jobs export > jobs.yaml", "warren jobs export --app reports nightly-report"
    )
)
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--app", help="Only the jobs of this app.")
@takes_settings("database_url")
def export(settings: Settings, names: tuple[str, ...], app: str | None) -> None:
    """Print jobs as a job file; applied as it is, it changes nothing."""
    export_jobs(settings, app=app, names=names)


@jobs.command("list", epilog=examples("warren jobs list", "warren jobs list --app reports --json"))
@click.option("--app", help="Only the jobs of this app.")
@as_json
@takes_settings("database_url")
def list_jobs(settings: Settings, app: str | None, as_json: bool) -> None:
    """Show the jobs: when each fires next and how its last run went."""
    with open_database(settings) as database:
        now = now_ms(database)
        rows = database.read(lambda session: listings.jobs(session, now_ms=now, app=app))
        children = database.read(lambda session: families.children_names(session, rows))
    if as_json:
        for row in rows:
            kin = children.get(row.id, ())
            print_json(job_json(row, now_ms=now, timezone=settings.timezone, children=kin))
        return
    lines = [job_line(row, now_ms=now, timezone=settings.timezone) for row in rows]
    print_table(HEADERS, lines, nothing="no jobs yet; try: warren jobs apply FILE.yaml")


@jobs.command(
    epilog=examples("warren jobs show nightly-report", "warren jobs show reports/nightly")
)
@_name
@as_json
@takes_settings("database_url")
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show everything about a job, and its last runs."""
    with open_database(settings) as database:
        now = now_ms(database)
        job = database.read(lambda session: listings.job(session, name))
        last = listings.RunFilter(job=name, limit=_LAST_RUNS)
        runs = database.read(lambda session: listings.runs(session, last))
        kin = database.read(lambda session: families.children_names(session, [job])).get(job.id, ())
    if as_json:
        print_json(job_json(job, now_ms=now, timezone=settings.timezone, children=kin))
        return
    print_facts(job_facts(job, now_ms=now, zone=settings.zone, children=kin))
    print()
    print_table(RUN_HEADERS, [run_line(run, now_ms=now) for run in runs], nothing="no runs yet")


@jobs.command("next", epilog=examples("warren jobs next nightly-report --count 10"))
@_name
@click.option("--count", default=5, show_default=True, type=click.IntRange(1, 1000))
@as_json
@takes_settings("database_url", "timezone")
def next_command(settings: Settings, name: str, count: int, as_json: bool) -> None:
    """Show when a job fires next."""
    with open_database(settings) as database:
        now = now_ms(database)
        job = database.read(lambda session: listings.job(session, name))
    fires = next_fires(job, now_ms=now, count=count, timezone=settings.timezone)
    if not job.trigger_status:
        warn(f"job {name!r} is stopped; so it would fire if it were started now")
    if as_json:
        for fire in fires:
            print_json({"job": job.name, "app": job.app, "fires_at": iso(fire)})
        return
    zone = ZoneInfo(job.timezone or settings.timezone)
    lines = [(local(fire, zone), relative(fire, now)) for fire in fires]
    nothing = waits(job) or "it never fires by itself"
    print_table(("fires at", "that is"), lines, nothing=nothing)


@jobs.command(epilog=examples("warren jobs start nightly-report"))
@_name
@takes_settings("database_url", "timezone")
def start(settings: Settings, name: str) -> None:
    """Let a job fire by its schedule."""
    with open_commands(settings) as (commands, _):
        changed = commands.start(name)
    print(f"{name} started" if changed else f"{name} was started already")


@jobs.command(epilog=examples("warren jobs stop nightly-report"))
@_name
@takes_settings("database_url", "timezone")
def stop(settings: Settings, name: str) -> None:
    """Let a job fire no more by itself; runs under way go on."""
    with open_commands(settings) as (commands, _):
        changed = commands.stop(name)
    print(f"{name} stopped" if changed else f"{name} was stopped already")


@jobs.command(epilog=examples("warren jobs delete nightly-report"))
@_name
@takes_settings("database_url", "timezone")
def delete(settings: Settings, name: str) -> None:
    """Delete a job; its runs stay in the log table."""
    with open_commands(settings) as (commands, _):
        commands.delete(name)
    print(f"{name} deleted")


@jobs.command(
    epilog=examples(
        "warren jobs trigger nightly-report --wait",
        "warren jobs trigger nightly-report --param 2026-12-01 --address worker-1",
    )
)
@_name
@click.option("--param", help="Instead of the job's own parameter.")
@click.option("--address", "addresses", multiple=True, help="Only there; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait for the end; status 0 when it succeeded.")
@as_json
@takes_settings("database_url", "timezone")
def trigger(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings,
    name: str,
    param: str | None,
    addresses: tuple[str, ...],
    wait: bool,
    as_json: bool,
) -> int:
    """Run a job now, whether it is started or stopped."""
    return trigger_job(settings, name, param=param, addresses=addresses, wait=wait, as_json=as_json)

"""`warren jobs …` and `warren apps …`: job files, single jobs, and apps."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from warren.actions.trigger import open_client, trigger_job
from warren.command_options import as_json, examples, param_values, takes_settings
from warren.database_access import now_ms, open_database
from warren.errors import JobFileError
from warren.jobfile.apply import (
    How,
    apply_declared,
    apply_declared_by_api,
    apply_file,
    apply_file_by_api,
)
from warren.jobfile.check import check_files
from warren.jobfile.declared import DeclaredJobs, declared_in
from warren.jobfile.export import export_jobs, job_file
from warren.scheduler.commands.bulk.triggers import Trigger, When
from warren.scheduler.commands.jobs import JobCommands
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.schedules import registry
from warren.scheduler.schedules.registry import next_fires
from warren.scheduler.views import blockers
from warren.scheduler.views.blockers import blocker_json
from warren.scheduler.views.job_view import JobView, job_json, job_view
from warren.scheduler.views.job_warnings import warning_lines
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.sql.instants import iso
from warren.sql.jobs import child_links, skips
from warren.sql.listings import recent
from warren.sql.listings.recent import ListedJob
from warren.sql.registry import apps
from warren.views.instants import local, read_moment
from warren.views.jobs import HEADERS, job_facts, job_line, waits
from warren.views.runs import HEADERS as RUN_HEADERS
from warren.views.runs import print_skips, run_line, skip_json
from warren.views.terminal import print_facts, print_json, print_table, relative, warn

#: How many runs and skips `jobs show` lists.
_LAST_RUNS = 10
_LAST_SKIPS = 5
_name = click.argument("name")
_names = click.argument("names", metavar="NAME…", nargs=-1, required=True)


@click.group()
def jobs() -> None:
    """Check, apply, list, start, stop and trigger jobs. A job is named NAME, or APP/NAME."""


#: Jobs that are declared in code.
_from = click.option(
    "--from", "module", metavar="MODULE", help="Take the jobs that the handlers there declare."
)
_app_of_jobs = click.option("--app", help="With --from: the app of the jobs that name none.")


@jobs.command(
    epilog=examples(
        "warren jobs apply jobs.yaml --dry-run",
        "warren jobs apply jobs.yaml",
        "warren jobs apply --from acme_jobs.handlers --app reports",
    )
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_from
@_app_of_jobs
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@click.option(
    "--prune",
    is_flag=True,
    help="Delete jobs of FILE's apps that are not in FILE; with --from, those that MODULE "
    "declared before.",
)
@click.option("--take-over", is_flag=True, help="Move jobs here that are declared elsewhere.")
@click.option("--api", "url", help="Use the API at this URL, with WARREN_API_TOKEN.")
@as_json
@takes_settings("database_url")
def apply(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings,
    file: Path | None,
    module: str | None,
    app: str | None,
    dry_run: bool,
    prune: bool,
    take_over: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Make the jobs match FILE, or what MODULE declares. Applying it again changes nothing.

    FILE - is standard input.
    """
    how = How(dry_run=dry_run, prune=prune, take_over=take_over, as_json=as_json)
    if module is None:
        if file is None:
            raise click.UsageError("expected a job FILE, or --from MODULE")
        if app is not None:
            raise click.UsageError("--app goes with --from; a job file names its apps")
        if url is None:
            apply_file(settings, file, how)
        else:
            apply_file_by_api(settings, file, url, how)
        return
    if file is not None:
        raise click.UsageError("expected a job FILE or --from MODULE, got both")
    declared = _declared(module, app)
    if url is None:
        apply_declared(settings, declared, how)
    else:
        apply_declared_by_api(settings, declared, url, how)


def _declared(module: str, app: str | None) -> DeclaredJobs:
    declared = declared_in([module], app=app or "")
    if not declared.jobs:
        warn(f"{module} declares no jobs: none of its handlers has a schedule or another field")
    return declared


@jobs.command(
    epilog=examples(
        "warren jobs check jobs.yaml",
        "warren jobs check jobs/*.yaml --handlers acme_jobs.handlers",
        "warren jobs check --from acme_jobs.handlers --app reports",
    )
)
@click.argument("files", metavar="[FILE]…", type=click.Path(path_type=Path), nargs=-1)
@_from
@_app_of_jobs
@click.option(
    "--handlers",
    "sources",
    metavar="MODULE",
    multiple=True,
    help="Import this module or file, and refuse handlers it lacks; may be repeated.",
)
@takes_settings("timezone")
def check(
    settings: Settings,
    files: tuple[Path, ...],
    module: str | None,
    app: str | None,
    sources: tuple[str, ...],
) -> None:
    """Check FILEs and what MODULE declares as if they were applied, without a database."""
    if not (files or module):
        raise click.UsageError("expected job FILEs, or --from MODULE")
    declared = _declared(module, app) if module else None
    known = declared_in(sources).handlers if sources else None
    checked_files = check_files(
        files, timezone=settings.timezone, handlers=known, declared=declared
    )
    for line in warning_lines(checked_files.warnings):
        warn(line)
    if checked_files.problems:
        raise JobFileError(checked_files.problems)
    print(f"{len(checked_files.specs)} jobs, no problems")


@jobs.command(
    epilog=examples(
        "warren jobs export > jobs.yaml",
        "warren jobs export --app reports nightly-report",
        "warren jobs export --from acme_jobs.handlers --app reports",
    )
)
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--app", help="Only the jobs of this app; with --from: of jobs that name none.")
@_from
@takes_settings("database_url")
def export(settings: Settings, names: tuple[str, ...], app: str | None, module: str | None) -> None:
    """Print jobs as a job file. Applying it unchanged changes nothing.

    With --from, these are the jobs that MODULE declares, and no database is needed.
    """
    if module is None:
        export_jobs(settings, app=app, names=names)
        return
    if names:
        raise click.UsageError("expected names or --from MODULE, got both")
    for line in job_file([], _declared(module, app).read().specs):
        print(line)


@jobs.command("list", epilog=examples("warren jobs list", "warren jobs list --app reports --json"))
@click.option("--app", help="Only the jobs of this app.")
@as_json
@takes_settings("database_url")
def list_jobs(settings: Settings, app: str | None, as_json: bool) -> None:
    """Show the jobs: when each fires next and how its last run went."""
    with open_database(settings) as database:
        now = now_ms(database)
        if app is not None:
            database.read(lambda session: apps.find(session, app))
        rows = database.read(lambda session: recent.jobs(session, now_ms=now, app=app))
        views = _views(settings, database, rows, now)
    if as_json:
        for view in views:
            print_json(job_json(view))
        return
    lines = [job_line(view, now_ms=now) for view in views]
    print_table(HEADERS, lines, nothing="no jobs yet; try: warren jobs apply FILE.yaml")


@jobs.command(
    epilog=examples("warren jobs show nightly-report", "warren jobs show reports/nightly")
)
@_name
@as_json
@takes_settings("database_url")
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show everything about a job, its last runs and skips."""
    with open_database(settings) as database:
        now = now_ms(database)
        job = database.read(lambda session: recent.job(session, name, now_ms=now))
        last = recent.RunFilter(job=name, limit=_LAST_RUNS)
        runs = database.read(lambda session: recent.runs(session, last))
        [view] = _views(settings, database, [job], now)
        missed = skips.SkipFilter(job_id=job.id, limit=_LAST_SKIPS)
        skipped = database.read(lambda session: skips.lines(session, missed))
        app_ids = [job.app_id]
        job_blockers = database.read(lambda session: blockers.read(session, app_ids, now_ms=now))
    why = job_blockers.of_job(job.app, blockers.need_of(view.spec))
    if as_json:
        extra = {"blocked_by": blocker_json(why), "skips": [skip_json(skip) for skip in skipped]}
        print_json(job_json(view) | extra)
        return
    facts = job_facts(view, now_ms=now, zone=settings.zone, waits=waits(job))
    print_facts(facts | {"no new runs": "; ".join(map(str, why))})
    print()
    print_table(RUN_HEADERS, [run_line(run, now_ms=now) for run in runs], nothing="no runs yet")
    if skipped:
        print("\nDue times that were skipped:")
        print_skips(skipped, settings.zone, nothing="")


@jobs.command("next", epilog=examples("warren jobs next nightly-report --count 10"))
@_name
@click.option(
    "--count",
    default=5,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How many times to show.",
)
@as_json
@takes_settings("database_url", "timezone")
def next_command(settings: Settings, name: str, count: int, as_json: bool) -> None:
    """Show when a job fires next."""
    with open_database(settings) as database:
        now = now_ms(database)
        job = database.read(lambda session: recent.job(session, name, now_ms=now))
        zone_of_jobs = _zone_of_jobs(settings, database)
    fires = next_fires(job, now_ms=now, count=count, timezone=zone_of_jobs)
    if not job.is_enabled:
        warn(f"job {name!r} is stopped; these are its times if you start it now")
    if hint := registry.hint(job.schedule_kind, job.schedule_value):
        warn(hint)
    if as_json:
        for fire in fires:
            print_json({"job": job.name, "app": job.app, "fires_at": iso(fire)})
        return
    zone = ZoneInfo(job.timezone or zone_of_jobs)
    lines = [(local(fire, zone), relative(fire, now)) for fire in fires]
    nothing = waits(job) or "it never fires on its own"
    print_table(("fires at", "from now"), lines, nothing=nothing)


@jobs.command(epilog=examples("warren jobs start nightly-report mails/hourly"))
@_names
@takes_settings("database_url", "timezone")
def start(settings: Settings, names: tuple[str, ...]) -> None:
    """Start the schedules of jobs."""
    _switch(settings, names, JobCommands.start, "started")


@jobs.command(epilog=examples("warren jobs stop nightly-report mails/hourly"))
@_names
@takes_settings("database_url", "timezone")
def stop(settings: Settings, names: tuple[str, ...]) -> None:
    """Stop the schedules of jobs. Runs in progress continue."""
    _switch(settings, names, JobCommands.stop, "stopped")


@jobs.command(epilog=examples("warren jobs delete nightly-report"))
@_name
@takes_settings("database_url", "timezone")
def delete(settings: Settings, name: str) -> None:
    """Delete a job. Its runs stay in the log table."""
    with open_client(settings) as client:
        client.commands.jobs.delete([client.ids.job(name)])
    print(f"{name} deleted")


@jobs.command(
    epilog=examples(
        "warren jobs trigger nightly-report --wait",
        "warren jobs trigger nightly-report --param 2026-12-01 --address worker-1",
        "warren jobs trigger remind --param 4711 --at 2026-12-01T08:00",
        "warren jobs trigger remind --param 4711 --in 90m",
        "warren jobs trigger load-orders --set day=2026-12-01 --set parts=3",
    )
)
@_name
@click.option("--param", help="Use this parameter instead of the job's.")
@param_values
@click.option(
    "--address", "addresses", multiple=True, help="Run only on this executor; may be repeated."
)
@click.option("--at", metavar="T", help="Run it at T: ISO 8601, by default in WARREN_TIMEZONE.")
@click.option("--in", "after", metavar="D", help="Run it after D: 90s, 5m, 2d12h.")
@click.option("--late", is_flag=True, help="If T has passed, run it now.")
@click.option("--wait", is_flag=True, help="Wait until it ends; exit with 0 if it succeeded.")
@as_json
@takes_settings("database_url", "timezone")
def trigger(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings,
    name: str,
    param: str | None,
    values: Mapping[str, Any],
    addresses: tuple[str, ...],
    at: str | None,
    after: str | None,
    late: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Run a job now or at a given time, whether it is started or stopped."""
    if values:
        if param is not None:
            raise click.UsageError("give either --param or --set")
        param = json.dumps(values, ensure_ascii=False)
    at_ms = None if at is None else read_moment(at, "--at", zone=settings.zone)
    asked = Trigger(
        param=param, addresses=addresses, when=When(at_ms=at_ms, after=after, late=late)
    )
    return trigger_job(settings, name, asked, wait=wait, as_json=as_json)


def _switch(
    settings: Settings,
    names: Sequence[str],
    switch: Callable[[JobCommands, int], bool],
    state: str,
) -> None:
    """Start or stop jobs; if one does not exist, none of them."""
    with open_client(settings) as client:
        for name, job_id in [(name, client.ids.job(name)) for name in names]:
            changed = switch(client.commands.jobs, job_id)
            print(f"{name} {state}" if changed else f"{name} is already {state}")


def _views(
    settings: Settings, database: Database, rows: Sequence[ListedJob], now_ms: int
) -> list[JobView]:
    ids = [row.id for row in rows]
    kin = database.read(lambda session: child_links.children_names(session, ids))
    zone = _zone_of_jobs(settings, database)
    return [
        job_view(row, now_ms=now_ms, timezone=zone, children=kin.get(row.id, ())) for row in rows
    ]


def _zone_of_jobs(settings: Settings, database: Database) -> str:
    """Return the zone of jobs that name none."""
    return database.read(lambda session: cluster_zone(session, settings.timezone))


@click.group("apps")
def apps_group() -> None:
    """Add apps. Executors of an unknown app are not admitted."""


@apps_group.command(
    epilog=examples("warren apps add reports", 'warren apps add reports --title "Daily reports"')
)
@click.argument("name")
@click.option("--title", help="Its display name. Default: its name.")
@takes_settings("database_url")
def add(settings: Settings, name: str, title: str | None) -> None:
    """Add an app. Job files and the console can do this too."""
    with open_client(settings) as client:
        client.commands.apps.add(AppSpec(name=name, title=title))
    print(f"added app {name}; the key of its executors: warren secrets app {name}")

"""`warren jobs …` and `warren apps …`: job files, single jobs, and apps."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from warren.client import Client, RunFailed
from warren.command_options import (
    as_json,
    examples,
    file_values,
    param_values,
    takes_settings,
    value_files,
)
from warren.connect import connect
from warren.errors import JobFileError
from warren.jobfile.declared import DeclaredJobs, declared_in
from warren.jobfile.sources import read_sources, read_values
from warren.resources.board import mute_job, unmute_job
from warren.resources.instant import END_OF_TIME, Instant, iso, to_builtins
from warren.resources.job_files import JOB_FILE_BYTES, ValuesGiven
from warren.resources.jobs import (
    EditedField,
    EditedJobs,
    EditMode,
    JobOverview,
    NextTime,
    OldRuleJob,
    ShownJob,
)
from warren.resources.runs import EndedRun
from warren.scheduler.jobs.places import words_of
from warren.settings.settings import Settings, with_api
from warren.sql.run_status import FINE
from warren.terminal.changes import print_applied
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
from warren.terminal.run_lines import HEADERS as RUN_HEADERS
from warren.terminal.run_lines import SKIP_HEADERS, print_planned, run_line, skip_line

_name = click.argument("name")
_names = click.argument("names", metavar="NAME…", nargs=-1, required=True)
_files = click.argument("files", metavar="[FILE]…", type=click.Path(path_type=Path), nargs=-1)
#: Jobs that are declared in code.
_from = click.option(
    "--from", "module", metavar="MODULE", help="Take the jobs that the handlers there declare."
)
_app_of_jobs = click.option("--app", help="With --from: the app of the jobs that name none.")
#: The exit status of `--exit-code` if anything would change.
DIFFERS = 2
#: Runs and skips that are shown with a job.
_LAST_RUNS = 10
_LAST_SKIPS = 5
#: What is said of a job without due times.
_NEVER = "it never fires on its own"
#: Changed due times of a job that are listed.
_SHOWN_TIMES = 2


@click.group()
def jobs() -> None:
    """Check, apply, list, start, stop and trigger jobs. A job is named NAME, or APP/NAME."""


@jobs.command(
    epilog=examples(
        "warren jobs apply jobs.yaml --dry-run",
        "warren jobs apply jobs.yaml",
        "warren jobs apply jobs/ jobs.prod.yaml --values prod.yaml",
        "warren jobs apply jobs.yaml --exit-code",
        "warren jobs apply --from acme_jobs.handlers --app reports",
    )
)
@_files
@_from
@_app_of_jobs
@value_files
@file_values
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Like --dry-run, and exit with 2 if anything would change, with 1 on any error.",
)
@click.option(
    "--prune",
    is_flag=True,
    help="Delete jobs of the FILEs' apps that are in no FILE; with --from, those that MODULE "
    "declared before.",
)
@click.option("--take-over", is_flag=True, help="Move jobs here that are declared elsewhere.")
@click.option("--api", "url", help="Use the API at this URL, with WARREN_API_TOKEN.")
@as_json
@takes_settings("database_url")
def apply(
    settings: Settings,
    *,
    files: tuple[Path, ...],
    module: str | None,
    app: str | None,
    value_paths: tuple[Path, ...],
    values: tuple[str, ...],
    dry_run: bool,
    exit_code: bool,
    url: str | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Make the jobs match the FILEs, or what MODULE declares. Repeating it changes nothing.

    A folder stands for its YAML files. Fields of a job in a later FILE replace those of an earlier
    one. FILE - is standard input.
    """
    if module is None and not files:
        raise click.UsageError("expected a job FILE, or --from MODULE")
    if module is None and app is not None:
        raise click.UsageError("--app goes with --from; a job file names its apps")
    if module is not None and files:
        raise click.UsageError("expected a job FILE or --from MODULE, got both")
    if module is None:
        origin: dict[str, Any] = {"job_file": read_sources(files)}
    else:
        declared = _declared(module, app)
        origin = {"job_file": [declared.job_file()], "module": declared.source, "app": declared.app}
    given = _given(value_paths, values)
    with connect(settings if url is None else with_api(settings, url)) as client:
        applied = client.apply(values=given, dry_run=dry_run or exit_code, **origin, **how)
    print_applied(applied, as_json=as_json)
    return DIFFERS if exit_code and applied.changes else 0


def _given(paths: Sequence[Path], texts: Sequence[str]) -> ValuesGiven:
    given = read_values(paths, texts)
    return ValuesGiven(files=given.files, texts=given.texts)


def _declared(module: str, app: str | None) -> DeclaredJobs:
    declared = declared_in([module], app=app or "")
    if not declared.jobs:
        warn(f"{module} declares no jobs: none of its handlers has a schedule or another field")
    return declared


@jobs.command(
    epilog=examples(
        "warren jobs check jobs.yaml",
        "warren jobs check jobs/*.yaml --handlers acme_jobs.handlers",
        "warren jobs check jobs.yaml jobs.prod.yaml --values prod.yaml",
        "warren jobs check --from acme_jobs.handlers --app reports",
    )
)
@_files
@_from
@_app_of_jobs
@value_files
@file_values
@click.option(
    "--handlers",
    "sources",
    metavar="MODULE",
    multiple=True,
    help="Import this module or file, and check that jobs name its handlers, with params that "
    "they take; may be repeated.",
)
@takes_settings("timezone")
def check(
    settings: Settings,
    *,
    files: tuple[Path, ...],
    module: str | None,
    app: str | None,
    value_paths: tuple[Path, ...],
    values: tuple[str, ...],
    sources: tuple[str, ...],
) -> None:
    """Check FILEs and what MODULE declares as if they were applied, without a database."""
    if not (files or module):
        raise click.UsageError("expected job FILEs, or --from MODULE")
    checked = read_sources(files)
    schemas: dict[str, str] = {}
    if module:
        declared = _declared(module, app)
        checked += [declared.job_file()] if declared.jobs else []
        schemas |= declared.handlers
    if sources:
        schemas |= declared_in(sources).handlers
    with connect(settings) as client:
        found = client.check_job_files(
            files=checked,
            given=_given(value_paths, values),
            handlers=list(schemas) if sources else None,
            schemas={name: schema for name, schema in schemas.items() if schema} or None,
        )
    if found.problems:
        raise JobFileError(found.problems)
    for line in found.warnings:
        warn(line)
    print_line(f"{found.jobs} {'job' if found.jobs == 1 else 'jobs'}, no problems")


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
    if module is not None:
        if names:
            raise click.UsageError("expected names or --from MODULE, got both")
        _print_declared(_declared(module, app))
        return
    with connect(settings) as client:
        asked = [job for _, job in _found(client, _in_app(names, app))]
        file = client.export_job_file(app=app, jobs=asked)
    sys.stdout.write(file.text)
    for words in file.left_out:
        warn(words)
    if len(file.text.encode()) > JOB_FILE_BYTES:
        warn(f"this is over the {JOB_FILE_BYTES} bytes of a job file; export each --app alone")


def _print_declared(declared: DeclaredJobs) -> None:
    # The base installation, which is enough for an API, has no YAML.
    from warren.jobfile.export import job_file  # noqa: PLC0415 - see above
    from warren.jobfile.reader import read_job_files  # noqa: PLC0415 - see above
    from warren.route_plugins import route_names  # noqa: PLC0415 - see above

    now_ms = time.time_ns() // 1_000_000
    file = read_job_files([declared.job_file()], now_ms=now_ms, added_routes=route_names())
    for line in job_file([], file.specs):
        print(line)


@jobs.command("list", epilog=examples("warren jobs list", "warren jobs list --app reports --json"))
@click.option("--app", help="Only the jobs of this app.")
@as_json
@takes_settings("database_url")
def list_jobs(settings: Settings, app: str | None, as_json: bool) -> None:
    """Show the jobs: when each fires next and how its last run went."""
    with connect(settings) as client:
        found, now_ms = client.job_overviews(app=app, limit=None), client.now_ms()
    found.sort(key=lambda job: (job.app, job.name))
    if as_json:
        for job in found:
            print_json(job.flat())
        return
    lines = [job_line(job, now_ms=now_ms) for job in found]
    print_table(HEADERS, lines, nothing="no jobs yet; try: warren jobs apply FILE.yaml")


@jobs.command(
    epilog=examples("warren jobs show nightly-report", "warren jobs show reports/nightly")
)
@_name
@as_json
@takes_settings("database_url")
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show everything about a job, its last runs and skips."""
    with connect(settings) as client:
        job = str(client.find_job(name))
        shown, skipped = client.job_overview(job), client.skips(job=job, limit=_LAST_SKIPS)
        if as_json:
            skips = {"skips": [to_builtins(skip) for skip in skipped]}
            print_json(shown.flat() | skips)
            return
        runs, now_ms = client.runs(job=job, until=END_OF_TIME, limit=_LAST_RUNS), client.now_ms()
    print_facts(job_facts(shown, now_ms=now_ms, zone=settings.zone))
    print_line()
    runs.sort(key=lambda run: (run.due_at, run.id), reverse=True)
    print_table(RUN_HEADERS, [run_line(run, now_ms=now_ms) for run in runs], nothing="no runs yet")
    if skipped:
        print_line("")
        print_line("Due times that were skipped:")
        print_table(SKIP_HEADERS, [skip_line(skip, settings.zone) for skip in skipped], nothing="")


@jobs.command(
    "next",
    epilog=examples(
        "warren jobs next nightly-report --count 10", "warren jobs next nightly-report --why"
    ),
)
@_name
@click.option(
    "--count",
    default=5,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How many times to show.",
)
@click.option("--why", is_flag=True, help="Say what moved or left out each time.")
@as_json
@takes_settings("database_url", "timezone")
def next_command(settings: Settings, name: str, count: int, why: bool, as_json: bool) -> None:
    """Show when a job fires next."""
    with connect(settings) as client:
        job = client.find_job(name)
        shown, now_ms = client.next_times(str(job), count=count, why=why), client.now_ms()
    zone = ZoneInfo(shown.timezone)
    if not shown.enabled:
        warn(f"job {name!r} is stopped; these are its times if you start it now")
    for words in filter(None, (shown.hint, *shown.clock_changes)):
        warn(words)
    if as_json:
        if shown.times is None:
            times = [{"fires_at": iso(fire)} for fire in shown.fires_at]
        else:
            times = [*map(to_builtins, shown.times)]
        for time_ in times:
            print_json({"job": job.name, "app": job.app} | time_)
    elif shown.times is not None:
        alike = groupby(shown.times, _fate)
        told = [_fate_line([*those], fires_at, why, zone) for (fires_at, why), those in alike]
        print_table(("meant", "fires at", "why"), told, nothing=_NEVER)
    else:
        lines = [(shown_time(fire, zone), shown_ago(fire, now_ms)) for fire in shown.fires_at]
        print_table(("fires at", "from now"), lines, nothing=shown.waits_for or _NEVER)


def _fate(time_: NextTime) -> tuple[datetime | None, str]:
    return time_.fires_at, time_.why.message.strip() if time_.why else ""


def _fate_line(
    those: Sequence[NextTime], fires_at: datetime | None, why: str, zone: ZoneInfo
) -> tuple[str, str, str]:
    """Return the line of a time, or of times one after the other that are left out alike."""
    first, last = (shown_time(time_.nominal_at, zone) for time_ in (those[0], those[-1]))
    if fires_at is not None:
        return first, shown_time(fires_at, zone), why
    if len(those) == 1:
        return first, "left out", why
    return f"{first} to {last}", f"left out, {len(those)} times", why


@jobs.command(
    "follow-rules",
    epilog=examples(
        "warren jobs follow-rules --dry-run",
        "warren jobs follow-rules",
        "warren jobs follow-rules --app reports --yes",
    ),
)
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option("--app", help="Only the jobs of this app.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@takes_settings("database_url", "timezone")
def follow_rules(
    settings: Settings,
    *,
    names: tuple[str, ...],
    app: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make schedules that an earlier version stored follow the newest rules.

    It first lists them, with the due times within a year that change. Without NAMEs, all jobs.
    """
    with connect(settings) as client:
        known = [job for _, job in _found(client, _in_app(names, app))]
        old = client.follow_rules(jobs=known, app=app, dry_run=True).jobs
        _print_old_rules(old, as_json=as_json)
        if dry_run or not old:
            return 0
        if not yes and not click.confirm("Move them?", default=False, err=True):
            return 1
        moved = client.follow_rules(jobs=known, app=app).moved
    if as_json:
        print_json({"moved": moved})
    else:
        print_line(f"{moved} {'job follows' if moved == 1 else 'jobs follow'} the newest rule now")
    return 0


def _print_old_rules(old: Sequence[OldRuleJob], *, as_json: bool) -> None:
    if as_json:
        for job in old:
            print_struct(job)
        return
    lines = [
        (
            f"{job.app}/{job.job}",
            job.schedule,
            _some(job.no_longer_due, ZoneInfo(job.timezone)),
            _some(job.newly_due, ZoneInfo(job.timezone)),
        )
        for job in old
    ]
    headers = ("job", "schedule", "no longer due", "newly due")
    print_table(headers, lines, nothing="every job follows the newest rule")


def _some(times: Sequence[datetime], zone: ZoneInfo) -> str:
    """Return the first of some times, and how many more there are."""
    shown = [shown_time(at, zone) for at in times[:_SHOWN_TIMES]]
    more = len(times) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else ())])


@jobs.command(
    epilog=examples(
        "warren jobs edit timeout 600 --app reports --tag nightly --dry-run",
        "warren jobs edit tags nightly --mode add load-orders load-items --yes",
        "warren jobs edit author ann --author bob",
    ),
)
@click.argument("field", type=click.Choice([field.value for field in EditedField]))
@click.argument("value")
@click.argument("names", metavar="[NAME]…", nargs=-1)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in EditMode]),
    default=EditMode.SET.value,
    show_default=True,
    help="Set the field, or add to a list or remove from it.",
)
@click.option("--app", help="Only the jobs of this app.")
@click.option("--q", metavar="PART", help="Only jobs with this in their names.")
@click.option("--handler", metavar="PART", help="Only jobs with this in their handlers.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--author", metavar="PART", help="Only jobs with this in their authors.")
@click.option("--all", "everything", is_flag=True, help="All jobs.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@takes_settings("database_url", "timezone")
def edit(
    settings: Settings,
    *,
    field: str,
    value: str,
    names: tuple[str, ...],
    mode: str,
    app: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **filters: Any,
) -> int:
    """Set one field of many jobs: of the NAMEs, or of those that match the filter.

    It first lists what changes. Either all of it is changed, or nothing; `warren jobs undo-edit`
    undoes it.
    """
    with connect(settings) as client:
        if names:
            if everything or any(filters.values()):
                raise click.UsageError("expected NAMEs or a filter, got both")
            chosen = [job for _, job in _found(client, _in_app(names, app))]
            ahead = client.edit_jobs(field, value, mode=mode, jobs=chosen, dry_run=True)
        else:
            ahead = client.edit_jobs(
                field, value, mode=mode, app=app, everything=everything, dry_run=True, **filters
            )
        _print_edit(ahead, as_json=as_json)
        if dry_run or not ahead.jobs:
            return 0
        if not yes and not click.confirm("Change them?", default=False, err=True):
            return 1
        seen = {job.job: job.version for job in ahead.jobs}
        done = client.edit_jobs(field, value, mode=mode, jobs=list(seen), seen=seen)
    if as_json:
        print_json({"edit": done.edit, "changed": len(done.jobs)})
    else:
        print_line(f"{len(done.jobs)} changed; to undo it: warren jobs undo-edit {done.edit}")
    return 0


def _print_edit(edit: EditedJobs, *, as_json: bool) -> None:
    for job in edit.jobs:
        if as_json:
            print_struct(job)
            continue
        print_line(f"~ {job.job}", "~")
        for words in job.changes:
            print_line(f"    {words}")
    if as_json:
        return
    print_line(f"{len(edit.jobs)} to change, {edit.unchanged} unchanged")
    if lasting := sum(not job.can_be_undone for job in edit.jobs):
        warn(f"{lasting} of them cannot be undone: what it replaces is not kept")


@jobs.command("undo-edit", epilog=examples("warren jobs undo-edit 4711"))
@click.argument("edit_id", metavar="ID", type=click.IntRange(1))
@as_json
@takes_settings("database_url", "timezone")
def undo_edit(settings: Settings, edit_id: int, *, as_json: bool) -> int:
    """Undo an edit of many jobs. Jobs that were edited since are named, and stay as they are."""
    with connect(settings) as client:
        undone = client.undo_edit(edit_id)
    status = 1 if undone.left and not undone.jobs else 0
    if as_json:
        print_struct(undone)
        return status
    for job in undone.jobs:
        print_line(f"~ {job.job}", "~")
        for words in job.changes:
            print_line(f"    {words}")
    for left in undone.left:
        warn(f"{left.job} stays as it is: {left.message}")
    print_line(f"{len(undone.jobs)} restored, {len(undone.left)} left alone")
    return status


@jobs.command(epilog=examples("warren jobs start nightly-report mails/hourly"))
@_names
@takes_settings("database_url", "timezone")
def start(settings: Settings, names: tuple[str, ...]) -> None:
    """Start the schedules of jobs."""
    with connect(settings) as client:
        for name, job in _found(client, names):
            started = client.start_job(job).changed
            print_line(f"{name} started" if started else f"{name} is already started")


@jobs.command(epilog=examples("warren jobs stop nightly-report mails/hourly"))
@_names
@takes_settings("database_url", "timezone")
def stop(settings: Settings, names: tuple[str, ...]) -> None:
    """Stop the schedules of jobs. Runs in progress continue."""
    going = []
    with connect(settings) as client:
        for name, job in _found(client, names):
            done = client.stop_job(job)
            words = f"stopped{_also(done.cancelled)}" if done.changed else "is already stopped"
            print_line(f"{name} {words}")
            going += [f"backfill {backfill_id} of {name} goes on" for backfill_id in done.backfills]
    for words in going:
        warn(words)


@jobs.command(
    help=mute_job.about,
    epilog=examples(
        'warren jobs mute nightly-report --for 4h --why "the partner knows"',
        "warren jobs mute mails/hourly nightly-report --until 2026-12-01T08:00 --keep-alarms",
    ),
)
@_names
@click.option("--until", help="End it at this time (ISO 8601).")
@click.option("--for", "span", help="End it after this long: 30m, 4h, 1d.")
@click.option("--why", default="", help="The reason that others see, one line.")
@click.option("--keep-alarms", is_flag=True, help="Only acknowledge it: still send its alarms.")
@takes_settings("database_url", "timezone")
def mute(
    settings: Settings,
    *,
    names: tuple[str, ...],
    until: str | None,
    span: str | None,
    why: str,
    keep_alarms: bool,
) -> None:
    if (until is None) == (span is None):
        raise click.UsageError("give either --until or --for")
    end_ms = 0 if until is None else read_moment(until, "--until", zone=settings.zone)
    length_ms = 0 if span is None else read_span(span)
    with connect(settings) as client:
        end = Instant.of(end_ms or client.now_ms() + length_ms)
        for name, job in _found(client, names):
            muted = client.mute_job(job, until=end, why=why, silent=not keep_alarms)
            done = "muted" if muted.silent else "acknowledged"
            print_line(f"{name} {done} until {shown_time(muted.until, settings.zone)}")


@jobs.command(
    help=unmute_job.about, epilog=examples("warren jobs unmute nightly-report mails/hourly")
)
@_names
@takes_settings("database_url", "timezone")
def unmute(settings: Settings, names: tuple[str, ...]) -> None:
    with connect(settings) as client:
        for name, job in _found(client, names):
            client.unmute_job(job)
            print_line(f"{name} is not muted")


@jobs.command(epilog=examples("warren jobs delete nightly-report"))
@_name
@takes_settings("database_url", "timezone")
def delete(settings: Settings, name: str) -> None:
    """Delete a job. Its runs stay in the log table."""
    with connect(settings) as client:
        cancelled = client.delete_job(str(client.find_job(name)))
    print_line(f"{name} deleted{_also(cancelled)}")


def _found(client: Client, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return jobs as they were named, and as APP/NAME; nothing is done if one does not exist."""
    return [(name, str(client.find_job(name))) for name in names]


def _in_app(names: Sequence[str], app: str | None) -> list[str]:
    """Return names of jobs, which are of this app if they name none."""
    return [f"{app}/{name}" if app and "/" not in name else name for name in names]


def _also(cancelled: int) -> str:
    runs = "planned run" if cancelled == 1 else "planned runs"
    return f"; cancelled: {cancelled} {runs}" if cancelled else ""


@jobs.command(
    epilog=examples(
        "warren jobs trigger nightly-report --wait",
        "warren jobs trigger nightly-report --param 2026-12-01 --address worker-1",
        "warren jobs trigger remind --param 4711 --at 2026-12-01T08:00",
        "warren jobs trigger remind --param 4711 --in 90m",
        "warren jobs trigger nightly-report --run-date 2026-11-30",
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
@click.option(
    "--run-date", metavar="DATE", help="The date that it is about. Default: by the job's rule."
)
@click.option("--wait", is_flag=True, help="Wait until it ends; exit with 0 if it succeeded.")
@as_json
@takes_settings("database_url", "timezone")
def trigger(
    settings: Settings,
    *,
    name: str,
    param: str | None,
    values: Mapping[str, Any],
    at: str | None,
    wait: bool,
    as_json: bool,
    **wanted: Any,
) -> int:
    """Run a job now or at a given time, whether it is started or stopped."""
    if values:
        if param is not None:
            raise click.UsageError("give either --param or --set")
        param = json.dumps(values, ensure_ascii=False)
    moment = None if at is None else Instant.of(read_moment(at, "--at", zone=settings.zone))
    with connect(settings) as client:
        job = str(client.find_job(name))
        run = client.trigger(job, param, at=moment, manual=True, **wanted)
        for words in run.warnings:
            warn(words)
        if not wait:
            is_now = not (at or wanted["after"] or wanted["late"])
            print_planned(run.id, as_json=as_json, word="queued" if is_now else "planned")
            return 0
        if not client.cluster().schedulers_alive:
            warn(f"run {run.id} is queued, but no scheduler is online to dispatch it")
        try:
            ended = client.wait(run)
        except RunFailed as failed:
            ended = failed.run
    _print_outcome(run.id, ended, as_json=as_json)
    return 0 if ended.tick.status in FINE else 1


def _print_outcome(run_id: int, ended: EndedRun, *, as_json: bool) -> None:
    """Print how the tick of a run ended, by the run that decided."""
    status, run_ids = ended.tick.status, ended.tick.run_ids
    if as_json:
        outcome: dict[str, Any] = {"id": run_id, "status": status, "message": ended.message}
        outcome |= {"result": ended.result, "run_ids": run_ids, "deciding_id": ended.id}
        print_json(outcome)
        return
    tries = f" after {ended.starts + 1} attempts" if ended.starts else ""
    words = f": {ended.message}" if ended.message else ""
    for line in f"run {ended.id} {status}{tries}{words}".split("\n"):
        print_line(line.expandtabs())


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
    with connect(settings) as client:
        client.add_app(name, title=title)
    print_line(f"added app {name}; the key of its executors: warren secrets app {name}")


HEADERS = ("name", "app", "schedule", "next", "state", "last run", "last due")


def job_line(job: JobOverview, *, now_ms: int) -> tuple[str, ...]:
    """Return a job as a row of a table with `HEADERS`."""
    return (
        job.name,
        job.app,
        job.schedule,
        shown_ago(job.next_fire_at, now_ms),
        job.state,
        job.last_status or "",
        shown_ago(job.last_due_at, now_ms),
    )


def job_facts(job: ShownJob, *, now_ms: int, zone: ZoneInfo) -> dict[str, str]:
    """Return everything about a job."""
    fire = job.next_fire_at
    return {
        "job": f"{job.app}/{job.name}",
        "id": str(job.id),
        "state": job.state,
        "stopped because": job.stop_reason,
        "schedule": f"{job.schedule}  ({job.timezone})",
        "rule": job.rule,
        "next fire": (
            f"{shown_time(fire, zone)}  ({shown_ago(fire, now_ms)})" if fire else job.waits_for
        ),
        "handler": job.fields["handler"],
        "script": _script(job),
        **job.words,
        "children": ", ".join(job.children),
        "declared in": words_of(job.declared_in),
        "no new runs": "; ".join(reason.message for reason in job.blocked_by),
    }


def _script(job: JobOverview) -> str:
    if job.script_number is None or job.fields["flow"] is not None:
        return ""
    remark = f": {job.fields['script_remark']}" if job.fields["script_remark"] else ""
    return f"{job.fields['script_language']}, version {job.script_number}{remark}"

"""`warren runs …`: show, read, repeat, move, cancel, kill and clear runs; and `warren report`.

The logs of runs in this machine's files need no executor.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import click
import msgspec

from warren.client import ApiError, Client
from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect, way_of
from warren.errors import CommandError
from warren.executor.disk import open_regular
from warren.resources.instant import END_OF_TIME, Instant, to_builtins
from warren.resources.runs import MAX_RERUNS, LogAnswer, Planned, Reruns, Run
from warren.settings.settings import Settings
from warren.sql.run_status import FAILURES, FINAL, RunStatus
from warren.terminal.output import (
    end_progress,
    print_facts,
    print_json,
    print_line,
    print_struct,
    print_table,
    print_text,
    read_instant,
    read_moment,
    show_progress,
    shown_time,
    visible,
    warn,
)
from warren.terminal.run_lines import (
    HEADERS,
    NODE_HEADERS,
    SKIP_HEADERS,
    print_planned,
    run_facts,
    run_line,
    skip_line,
    tree_rows,
)

#: How often a followed file, and its run, are read.
FILE_SECONDS = 0.1
RUN_SECONDS = 0.5
_CHUNK = 65_536


def log_path(log_dir: Path, run: Run) -> Path:
    """Return where an executor on this machine writes a run's log; days are in UTC."""
    return log_dir / f"{run.scheduled_at.astimezone(UTC):%Y-%m-%d}" / f"{run.id}.log"


def print_file(client: Client, log_dir: Path, run_id: int, *, follow: bool) -> None:
    """Print a run's log, or what is kept of it; with `follow`, until the run has ended."""
    run: Run = client.get(run_id)
    path = log_path(log_dir, run)
    reader = LogReader(path)
    if follow:
        run = _follow(client, run, reader)
    reader.copy_new()
    if not reader.found:
        _print_kept(client, run, path)


class LogReader:
    """Copies a growing file to standard output."""

    def __init__(self, path: Path) -> None:
        self.found = False
        self._path = path
        self._position = 0

    def copy_new(self) -> None:
        """Copy what has been added. If the file was truncated, continue at its new end.

        Raises:
            OSError: the job has put something in its log's place that is no regular file.

        """
        try:
            with open(self._path, "rb", opener=open_regular) as file:
                self.found = True
                size = file.seek(0, 2)
                file.seek(min(self._position, size))
                while chunk := file.read(_CHUNK):
                    sys.stdout.buffer.write(chunk)
                self._position = file.tell()
        except FileNotFoundError:
            return
        sys.stdout.buffer.flush()


def _follow(client: Client, run: Run, reader: LogReader) -> Run:
    looked_at = time.monotonic()
    while run.status not in FINAL:
        reader.copy_new()
        time.sleep(FILE_SECONDS)
        if time.monotonic() - looked_at >= RUN_SECONDS:
            run, looked_at = client.get(run.id), time.monotonic()
    return run


def _print_kept(client: Client, run: Run, path: Path) -> None:
    part = client.log(run.id)
    if part.source == "store":
        _print_lines(client, run.id, part)
        return
    if kept := client.log(run.id, kept=True).text:
        warn(f"there is no {path} on this machine; this is the end of the log, kept with the run")
        print(kept, end="")
    elif run.status in FINAL:
        warn(f"run {run.id} ({run.status}) has no log: none is kept, and there is no {path} here")
    else:
        warn(f"run {run.id} ({run.status}) has no log yet; there is no {path} on this machine")


def _print_lines(client: Client, run_id: int, part: LogAnswer) -> None:
    """Print a part of a log, and what follows it.

    Raises:
        CommandError: nobody returns the rest.

    """
    while part.text:
        print(part.text, end="")
        if part.is_end:
            return
        part = client.log(run_id, from_line=part.next_line)
        if part.source == "none":
            sys.stdout.flush()
            raise CommandError(f"the rest of the log of run {run_id} cannot be read now")


_LARGEST_ID = 2**53 - 1
#: Options of a list of runs that say what caused them.
_WHOSE = ("outside_flows", "flow_run", "backfill")
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
    help="Only unresolved failures: nothing later succeeded or is open.",
)
@click.option("--outside-flows", is_flag=True, help="All except runs of flows' nodes.")
@click.option(
    "--flow-run",
    type=click.IntRange(1, _LARGEST_ID),
    metavar="ID",
    help="Only runs of the nodes of run ID, which is a run of a flow.",
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
def list_runs(settings: Settings, *, skips: bool, **wanted: Any) -> None:
    """List runs, the latest due time first.

    Runs due over an hour from now are listed only with --status PLANNED, --run-date, --flow-run or
    --backfill.
    """
    status, tick, unresolved = wanted["status"], wanted["tick"], wanted["unresolved"]
    _refuse_together("--skips", skips, wanted, "status", "run_date", "tick", "app", *_WHOSE)
    _refuse_together("--tick", tick, wanted, *_WHOSE)
    _refuse_together("--outside-flows", wanted["outside_flows"], wanted, "flow_run")
    if unresolved and (skips or tick or (status and status.upper() not in FAILURES)):
        words = "expected --unresolved without --skips and --tick, and only with --status"
        raise click.UsageError(f"{words} {', '.join(sorted(FAILURES))}")
    with connect(settings) as client:
        since = _since(client, settings, wanted["since"])
        job = None if wanted["job"] is None else str(client.find_job(wanted["job"]))
        if skips:
            skipped = client.skips(job=job, since=since, limit=wanted["limit"])
            lines = [skip_line(skip, settings.zone) for skip in skipped]
            _print_list(skipped, SKIP_HEADERS, lines, "no such skips", as_json=wanted["as_json"])
            return
        found = client.runs(
            app=wanted["app"],
            job=job,
            status=status.upper() if status else (),
            since=since,
            until=END_OF_TIME if wanted["run_date"] else None,
            run_date=wanted["run_date"],
            unresolved=unresolved,
            outside_flows=wanted["outside_flows"],
            flow_run_id=wanted["flow_run"],
            backfill_id=wanted["backfill"],
            tick_of=tick,
            limit=wanted["limit"],
        )
        now_ms = client.now_ms()
    found.sort(key=lambda run: (run.due_at, run.id), reverse=True)
    lines = [run_line(run, now_ms=now_ms) for run in found]
    _print_list(found, HEADERS, lines, "no such runs", as_json=wanted["as_json"])


def _print_list(
    found: Sequence[msgspec.Struct],
    headers: Sequence[str],
    lines: Sequence[Sequence[str]],
    nothing: str,
    *,
    as_json: bool,
) -> None:
    if not as_json:
        print_table(headers, lines, nothing=nothing)
        return
    for one in found:
        print_struct(one)


def _since(client: Client, settings: Settings, text: str | None) -> Instant | None:
    """Return a time that is given as one, or as a while ago."""
    if text is None:
        return None
    return Instant.of(read_instant(text, now_ms=client.now_ms(), zone=settings.zone))


@runs.command(epilog=examples("warren runs show 4711"))
@_run_id
@as_json
@takes_settings("database_url", "timezone")
def show(settings: Settings, run_id: int, as_json: bool) -> None:
    """Show everything about a run."""
    with connect(settings) as client:
        run = client.get(run_id)
        # The graph of a flow is kept like the version of a script.
        nodes = client.nodes(run) if run.script_version is not None else []
        now_ms = client.now_ms()
    if as_json:
        values = to_builtins(run)
        del values["tick"], values["warnings"]
        more = {"nodes": [to_builtins(node) for node in nodes]} if nodes else {}
        print_json(values | more)
        return
    facts = run_facts(run, now_ms=now_ms, zone=settings.zone, is_flow=bool(nodes))
    facts["waits for"] = "; ".join(run.waits_for)
    print_facts(facts | {"called runs": ", ".join(map(str, run.calls))})
    texts = {
        "message": run.message,
        "result": _result_text(run.result),
        "how it was sent": run.trigger_message,
    }
    for title, text in texts.items():
        if text:
            print_text(title, text)
    if nodes:
        print_line()
        print_table(NODE_HEADERS, tree_rows(nodes, now_ms=now_ms), nothing="no nodes")


def _result_text(result: Any) -> str:
    """Return a result that is more than a text or a number; its message says those."""
    return msgspec.json.encode(result).decode() if isinstance(result, dict | list) else ""


@runs.command(epilog=examples("warren runs log 4711", "warren runs log 4711 --follow"))
@_run_id
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the run has ended.")
@takes_settings("database_url", "log_dir")
def log(settings: Settings, run_id: int, follow: bool) -> None:
    """Print the log of a run."""
    with connect(settings) as client:
        if way_of(settings).api is None:
            print_file(client, settings.log_dir, run_id, follow=follow)
        elif follow:
            for line in client.follow(run_id):
                print(line, flush=True)
        else:
            _print_log(client, run_id)


def _print_log(client: Client, run_id: int) -> None:
    part = client.log(run_id)
    if part.source == "kept":
        warn("no executor has the log any more; this is its end, kept with the run")
    elif not part.text and part.source == "none" and not part.is_end:
        cause = "it has none yet, or its executor does not answer or has lost it"
        warn(f"no log of run {run_id} can be read now: {cause}")
    elif not part.text:
        warn(f"run {run_id} has no log" + ("" if part.is_end else " yet"))
    _print_lines(client, run_id, part)


@runs.command(
    epilog=examples(
        "warren runs rerun 4711 4712",
        "warren runs rerun 4711 --current --no-children",
        "warren runs rerun 4711 --failed",
        "warren runs rerun 4711 --from load",
        "warren runs rerun 4711 4712 4713 --newest",
        "warren runs rerun --unresolved --app billing --since 2h --newest",
    )
)
@click.argument("run_ids", metavar="[ID...]", type=click.IntRange(1, _LARGEST_ID), nargs=-1)
@click.option("--app", help="Without IDs: runs of this app.")
@click.option("--job", help="Without IDs: runs of this job: NAME, or APP/NAME.")
@click.option(
    "--status",
    type=click.Choice(sorted(FINAL), case_sensitive=False),
    help="Without IDs: runs with this final status. Default: unresolved failures.",
)
@click.option("--unresolved", is_flag=True, help="Without IDs: unresolved failures.")
@click.option("--since", metavar="T", help="Without IDs: due since T: ISO 8601, or 10m, 2h, 1d.")
@click.option("--current", is_flag=True, help="Use the job's current handler, param and script.")
@click.option("--failed", is_flag=True, help="Of a flow: what failed, and what runs after it.")
@click.option(
    "--from",
    "from_node",
    metavar="NODE",
    default="",
    help="Of a flow: this node and those after it.",
)
@click.option("--only", "only_node", metavar="NODE", default="", help="Of a flow: only this node.")
@click.option("--newest", is_flag=True, help="Only the newest due time of each job.")
@click.option("--no-children", is_flag=True, help="Do not start the job's children afterwards.")
@click.option("--dry-run", is_flag=True, help="Only say which runs would be repeated.")
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask. Children that ran for the due time are started again.",
)
@as_json
@takes_settings("database_url", "timezone")
def rerun(
    settings: Settings,
    *,
    run_ids: tuple[int, ...],
    since: str | None,
    newest: bool,
    no_children: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **wanted: Any,
) -> int:
    """Repeat runs for their due times, with their params and versions of the script.

    They are the runs with these IDs, or those that match the filter and can be repeated: these are
    listed first. All of them are repeated, or none. Shards of one due time run together again. Of
    a flow, the nodes that do not run again are kept with their results.
    """
    if no_children and yes:
        raise click.UsageError("expected --no-children or --yes, got both")
    filters = {name: wanted.pop(name) for name in ("app", "job", "status", "unresolved")}
    is_filter = since is not None or any(filters.values())
    if bool(run_ids) == is_filter:
        raise click.UsageError(
            f"expected IDs or a filter, got {'both' if is_filter else 'neither'}"
        )
    children = False if no_children else True if yes else None
    with connect(settings) as client:
        ids = _distinct(run_ids)
        if is_filter or dry_run:
            asked = _rerun_filter(client, settings, since=since, **filters) if is_filter else {}
            found = client.rerun_all(ids, newest=newest, dry_run=True, **asked, **wanted)
            if not as_json:
                _print_found(found)
            elif dry_run:
                print_struct(found)
            if dry_run or not found.run_ids:
                return 0
            if not yes and not click.confirm("Repeat them?", default=False, err=True):
                return 1
            ids = found.run_ids
        planned = _repeat(client, ids, children=children, newest=newest, **wanted)
    for run_id in planned.run_ids:
        print_planned(run_id, as_json=as_json)
    return 0


def _rerun_filter(
    client: Client, settings: Settings, *, since: str | None, **filters: Any
) -> dict[str, Any]:
    job, status = filters["job"], filters["status"]
    return filters | {
        "since": _since(client, settings, since),
        "job": None if job is None else str(client.find_job(job)),
        "status": [status.upper()] if status else [],
    }


def _repeat(
    client: Client, run_ids: Sequence[int], *, children: bool | None, **wanted: Any
) -> Planned:
    """Repeat runs; ask if children have already run for their due times."""
    try:
        return client.rerun_all(run_ids, children=children, **wanted)
    except ApiError as error:
        question = _question(error)
        if question is None:
            raise
        if not sys.stdin.isatty():
            words = "add --yes to run them again, or --no-children"
            raise click.UsageError(f"{question}; {words}") from error
        click.confirm(f"{visible(question)}. Run them again?", abort=True, err=True)
        return client.rerun_all(run_ids, children=True, **wanted)


def _print_found(found: Reruns) -> None:
    """Print which runs would be repeated, and how many would not, and why."""
    for run_id in found.run_ids:
        print_line(str(run_id))
    left_out = ", ".join(f"{number} {reason}" for reason, number in sorted(found.left_out.items()))
    words = f"to repeat: {len(found.run_ids)}"
    print_line(f"{words}; left out: {left_out}" if left_out else words)


def _question(error: ApiError) -> str | None:
    """Return what to ask if children have run; None if something else is wrong."""
    for each in error.problem.get("errors", ()):
        if each.get("code") == "rerun_children":
            facts = each["facts"]
            ran = f"children of run {facts['id']} have already run for its due time"
            return f"{ran}: {facts['children']}"
    return None


@runs.command(epilog=examples("warren runs kill 4711"))
@_run_id
@takes_settings("database_url")
def kill(settings: Settings, run_id: int) -> None:
    """Kill a run, wherever it is: SIGTERM, then SIGKILL after the grace time."""
    with connect(settings) as client:
        print_line(f"run {run_id}: {client.kill(run_id)}")


@runs.command(
    epilog=examples("warren runs move 4711 --at 2026-12-01T08:00", "warren runs move 4711 --in 90m")
)
@_run_id
@click.option("--at", metavar="T", help="Run it at T: ISO 8601, by default in WARREN_TIMEZONE.")
@click.option("--in", "after", metavar="D", help="Run it after D: 90s, 5m, 2d12h.")
@takes_settings("database_url", "timezone")
def move(settings: Settings, *, run_id: int, at: str | None, after: str | None) -> None:
    """Change the due time of a triggered run that is still planned."""
    if (at is None) == (after is None):
        raise click.UsageError("expected one of --at and --in")
    moment = None if at is None else Instant.of(read_moment(at, "--at", zone=settings.zone))
    with connect(settings) as client:
        run = client.reschedule(run_id, at=moment, after=after)
    print_line(f"run {run_id} is due at {shown_time(run.due_at, settings.zone)}")


@runs.command(epilog=examples("warren runs cancel 4711 4712"))
@_run_ids
@takes_settings("database_url")
def cancel(settings: Settings, run_ids: tuple[int, ...]) -> None:
    """Cancel triggered runs that are still planned; doing it twice is no error."""
    ids = _distinct(run_ids)
    with connect(settings) as client:
        for run_id in ids:
            client.cancel(run_id)
    for run_id in ids:
        print_line(f"run {run_id} is cancelled")


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
        raise click.UsageError("expected --job or --app, got both; a job can be APP/NAME")
    count, is_over = 0, False
    with connect(settings) as client:
        job = None if wanted["job"] is None else str(client.find_job(wanted["job"]))
        before = _since(client, settings, wanted["older_than"])
        while not is_over:
            cleared = client.clear_runs(
                job=job,
                app=wanted["app"],
                before=before,
                keep=wanted["keep"],
                everything=everything,
                dry_run=wanted["dry_run"],
            )
            count, is_over = count + cleared.count, cleared.is_over
            show_progress(count)
    end_progress()
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
    if len(run_ids) > MAX_RERUNS:
        raise click.UsageError(f"expected up to {MAX_RERUNS} runs, got: {len(run_ids)}")
    return list(dict.fromkeys(run_ids))

"""`warren jobs apply`: applies a file and prints each change."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from warren.actions.local_client import LocalClient, open_client
from warren.jobfile.reader import JobFile, read_job_file
from warren.route_plugins import route_names
from warren.scheduler.commands.job_changes import ChangeAction
from warren.scheduler.commands.job_files.file_changes import Change
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Problem
from warren.scheduler.views.process_view import living_handlers
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.sql.registry import apps
from warren.views.nodes import registered_executors
from warren.views.terminal import Screen, print_json, visible, warn

_PAST = {
    ChangeAction.CREATE: "created",
    ChangeAction.UPDATE: "updated",
    ChangeAction.START: "started",
    ChangeAction.STOP: "stopped",
    ChangeAction.DELETE: "deleted",
}
#: The signs of changes other than edits, and the colours of all signs.
_SIGNS = {ChangeAction.CREATE: "+", ChangeAction.DELETE: "-"}
_COLOURS = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}


def apply_file(
    settings: Settings, path: Path, *, dry_run: bool, prune: bool, as_json: bool
) -> None:
    """Apply a job file and print each change; if anything is wrong, nothing is changed."""
    file = read_job_file(path, now_ms=time.time_ns() // 1_000_000, added_routes=route_names())
    with open_client(settings) as client:
        changes = apply(client, file, dry_run=dry_run, prune=prune)
        unknown = unknown_handlers(client.database, file.specs)
    print_changes(changes, dry_run=dry_run, as_json=as_json)
    for words in unknown:
        warn(words)


def apply(client: LocalClient, file: JobFile, *, dry_run: bool, prune: bool) -> list[Change]:
    """Apply a job file that has been read; return every change.

    Raises:
        JobFileError: a job's app is neither in the file nor in the database, it cannot have its
            children, or it is to be started and can never fire.

    """
    file.check_apps(client.database.read(apps.ids_by_name))
    try:
        return client.commands.job_files.apply(file.apps, file.specs, dry_run=dry_run, prune=prune)
    except Problem as problem:
        if not problem.field.startswith("jobs/"):
            raise
        raise file.refused(problem) from problem


def change_line(change: Change, *, dry_run: bool) -> str:
    """Return a change in words, as done or as planned."""
    verb = f"would {change.action}" if dry_run else _PAST[change.action]
    details = f"  ({', '.join(change.details)})" if change.details else ""
    return visible(f"{verb} {change.what} {change.name}{details}")


def unknown_handlers(database: Database, specs: Sequence[JobSpec]) -> list[str]:
    """Return a line for each handler that no online executor of its app has."""
    known = living_handlers(registered_executors(database)[0])
    wanted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for spec in specs:
        if spec.handler and spec.handler not in known.get(spec.app, ()):
            wanted[spec.app, spec.handler].append(spec.name)
    return [
        f"job {names[0]!r}{_more(names)}: no online executor of app {app!r} has handler {handler!r}"
        for (app, handler), names in wanted.items()
    ]


def change_lines(change: Change, *, dry_run: bool, screen: Screen) -> list[str]:
    """Return a change with its sign, and the differences below it."""
    sign = _SIGNS.get(change.action, "~")
    head = change_line(replace(change, details=()), dry_run=dry_run)
    details = [f"    {visible(words)}" for words in change.details]
    diff = [_tinted(f"      {visible(line)}", line[:1], screen) for line in change.diff]
    return [_tinted(f"{sign} {head}", sign, screen), *details, *diff]


def _tinted(line: str, sign: str, screen: Screen) -> str:
    colour = _COLOURS.get(sign) if screen.has_colour else None
    return click.style(line, fg=colour) if colour else line


def print_changes(changes: Sequence[Change], *, dry_run: bool, as_json: bool) -> None:
    """Print each change, and how many there are."""
    told = [change for change in changes if change.action is not ChangeAction.UNCHANGED]
    screen = Screen.current()
    for change in told:
        if as_json:
            print_json(
                {
                    "action": change.action,
                    "what": change.what,
                    "name": change.name,
                    "details": list(change.details),
                    "diff": list(change.diff),
                }
            )
        else:
            print("\n".join(change_lines(change, dry_run=dry_run, screen=screen)))
    if not as_json:
        print(f"{len(told)} changed, {len(changes) - len(told)} unchanged")


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""

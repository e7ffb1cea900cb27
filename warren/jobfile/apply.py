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
from warren.scheduler.problems import Problem
from warren.scheduler.views.job_warnings import file_warnings, warning_lines
from warren.settings.settings import Settings
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.registry import apps
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
        warnings = warnings_about(client.database, file, changes)
    print_changes(changes, warnings, dry_run=dry_run, as_json=as_json)


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
    if change.action is ChangeAction.CREATE:
        details = "".join(f", {words}" for words in change.details)
    return visible(f"{verb} {change.what} {change.name}{details}")


def warnings_about(
    database: Database, file: JobFile, changes: Sequence[Change]
) -> list[tuple[str, str]]:
    """Return what is suspicious about the jobs of a file: pairs of APP/NAME and a sentence."""
    changed = {one.name for one in changes if one.action is not ChangeAction.UNCHANGED}
    return database.read(
        lambda session: file_warnings(session, file.specs, changed, database_now_ms(session))
    )


def change_lines(change: Change, *, dry_run: bool, screen: Screen) -> list[str]:
    """Return a change with its sign, and the differences below it."""
    sign = _SIGNS.get(change.action, "~")
    below = () if change.action is ChangeAction.CREATE else change.details
    head = change_line(replace(change, details=change.details[len(below) :]), dry_run=dry_run)
    details = [f"    {visible(words)}" for words in below]
    diff = [_tinted(f"      {visible(line)}", line[:1], screen) for line in change.diff]
    return [_tinted(f"{sign} {head}", sign, screen), *details, *diff]


def _tinted(line: str, sign: str, screen: Screen) -> str:
    colour = _COLOURS.get(sign) if screen.has_colour else None
    return click.style(line, fg=colour) if colour else line


def print_changes(
    changes: Sequence[Change],
    warnings: Sequence[tuple[str, str]],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Print each change, and how many there are; then warnings, pairs of a job and a sentence."""
    told = [change for change in changes if change.action is not ChangeAction.UNCHANGED]
    screen, about = Screen.current(), defaultdict[str, list[str]](list)
    for job, words in warnings:
        about[job].append(words)
    for change in told:
        if as_json:
            print_json(
                {
                    "action": change.action,
                    "what": change.what,
                    "name": change.name,
                    "details": list(change.details),
                    "diff": list(change.diff),
                    "warnings": about[change.name] if change.what == "job" else [],
                }
            )
        else:
            print("\n".join(change_lines(change, dry_run=dry_run, screen=screen)))
    if not as_json:
        print(f"{len(told)} changed, {len(changes) - len(told)} unchanged")
    for line in warning_lines(warnings):
        warn(line)

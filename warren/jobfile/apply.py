"""Applies job files and jobs that are declared in code: `warren jobs apply`, locally or by the API.

Each change is printed.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import click

from warren.actions.trigger import LocalClient, open_client
from warren.client import ApiError, Client
from warren.errors import CommandError, JobFileError
from warren.jobfile.declared import DeclaredJobs
from warren.jobfile.reader import JobFile, read_job_file, read_job_text
from warren.jobfile.yaml_reader import line_at, read_whole, tree_of
from warren.route_plugins import route_names
from warren.scheduler.commands.job_changes import ChangeAction
from warren.scheduler.commands.job_files.preview import Change
from warren.scheduler.jobs.places import BY_FILE, Origin, module_of
from warren.scheduler.problems import Refused
from warren.scheduler.views.job_warnings import file_warnings, warning_lines
from warren.settings.settings import PREFIX, Settings
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.registry import apps
from warren.views.terminal import Screen, print_json, visible, warn

_STANDARD_INPUT = "-"
_PAST = {
    ChangeAction.CREATE: "created",
    ChangeAction.UPDATE: "updated",
    ChangeAction.START: "started",
    ChangeAction.STOP: "stopped",
    ChangeAction.DELETE: "deleted",
}
#: The signs of changes that are not edits, and the colours of all signs.
_SIGNS = {ChangeAction.CREATE: "+", ChangeAction.DELETE: "-"}
_COLOURS = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How to apply: the options of `warren jobs apply`."""

    dry_run: bool = False
    prune: bool = False
    take_over: bool = False
    as_json: bool = False


def apply_file(settings: Settings, path: Path, how: How) -> None:
    """Apply a job file and print each change; if anything is wrong, nothing is changed.

    The path `-` is standard input.
    """
    now_ms, added = time.time_ns() // 1_000_000, route_names()
    if str(path) == _STANDARD_INPUT:
        with _opened(path) as given:
            data = read_whole(given, "standard input")
        file = read_job_text(data, Path("standard input"), now_ms=now_ms, added_routes=added)
    else:
        file = read_job_file(path, now_ms=now_ms, added_routes=added)
    _apply_here(settings, file, Origin(take_over=how.take_over), how)


def apply_declared(settings: Settings, declared: DeclaredJobs, how: How) -> None:
    """Apply jobs that are declared in code, as `apply_file` does."""
    _apply_here(settings, declared.read(), declared.origin(take_over=how.take_over), how)


def _apply_here(settings: Settings, file: JobFile, origin: Origin, how: How) -> None:
    with open_client(settings) as client:
        changes = apply(client, file, dry_run=how.dry_run, prune=how.prune, origin=origin)
        warnings = warnings_about(client.database, file, changes)
    print_changes(changes, warnings, dry_run=how.dry_run, as_json=how.as_json)


def _opened(path: Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if str(path) == _STANDARD_INPUT else path.open("rb")


def apply(
    client: LocalClient, file: JobFile, *, dry_run: bool, prune: bool, origin: Origin = BY_FILE
) -> list[Change]:
    """Apply a job file that has been read; return every change.

    Raises:
        JobFileError: a job's app is neither in the file nor in the database, it is declared
            elsewhere, it cannot have its children or param, or it is to be started and can never
            fire.

    """
    hint = "; first: warren apps add NAME" if module_of(origin.place) else "; name it under 'apps'"
    file.check_apps(client.database.read(apps.ids_by_name), hint=hint)
    try:
        return client.commands.job_files.apply(
            file.apps, file.specs, dry_run=dry_run, prune=prune, origin=origin
        )
    except Refused as refused:
        if not refused.problems[0].field.startswith("jobs/"):
            raise
        raise file.refused(refused.problems) from refused


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
    """Return warnings about the jobs of a file: pairs of APP/NAME and a sentence."""
    changed = {change.name for change in changes if change.action is not ChangeAction.UNCHANGED}
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
    changed = [change for change in changes if change.action is not ChangeAction.UNCHANGED]
    screen, about = Screen.current(), defaultdict[str, list[str]](list)
    for job, words in warnings:
        about[job].append(words)
    for change in changed:
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
        print(f"{len(changed)} changed, {len(changes) - len(changed)} unchanged")
    for line in warning_lines(warnings):
        warn(line)


def apply_file_by_api(settings: Settings, path: Path, url: str, how: How) -> None:
    """Apply a job file by the API; print each change. If anything is wrong, nothing is changed.

    Raises:
        WarrenError: there is no token, the file cannot be read, or the API refuses it.

    """
    try:
        with _opened(path) as file:
            data = read_whole(file, str(path))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    sent = _Sent(data=data, at=lambda line: f"{path}:{line}")
    _apply_there(settings, url, sent, how)


def apply_declared_by_api(settings: Settings, declared: DeclaredJobs, url: str, how: How) -> None:
    """Apply jobs that are declared in code, as `apply_file_by_api` does."""
    declared.read()
    module = module_of(declared.origin().place)
    sent = _Sent(data=declared.text(), at=declared.at, module=module, app=declared.app)
    _apply_there(settings, url, sent, how)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A job file for the API; `at` puts a line of it into words."""

    data: bytes
    at: Callable[[int], str]
    module: str = ""
    app: str = ""


def _apply_there(settings: Settings, url: str, sent: _Sent, how: How) -> None:
    if settings.api_token is None:
        raise CommandError(f"{PREFIX}API_TOKEN: expected a token of the API, it is not set")
    try:
        client = Client(url, settings.api_token)
        answer = client.apply(
            sent.data,
            dry_run=how.dry_run,
            prune=how.prune,
            take_over=how.take_over,
            module=sent.module,
            app=sent.app,
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise JobFileError([*_problems(sent, error)] or [f"{url}: {error}"]) from error
    changes = [
        Change(
            action=ChangeAction(change.action),
            what=change.what,
            name=change.name,
            details=tuple(change.details),
            diff=tuple(change.diff),
        )
        for change in answer.changes
    ]
    same = Change(action=ChangeAction.UNCHANGED, what="job", name="")
    print_changes(
        [*changes, *[same] * answer.unchanged],
        [(warning.job, warning.message) for warning in answer.warnings],
        dry_run=how.dry_run,
        as_json=how.as_json,
    )


def _problems(sent: _Sent, error: ApiError) -> Iterator[str]:
    """Yield each problem that the API names, with its place."""
    for problem in error.problem.get("errors", ()):
        words, line = str(problem.get("detail", "")), problem.get("line")
        if line is None and problem.get("pointer"):
            line = line_at(tree_of(sent.data), str(problem["pointer"]))
        yield words if line is None else f"{sent.at(line)}: {words}"

"""Applies job files: `warren jobs apply`, directly or by the API, and the job file of `warren up`.

Each change is printed. The file of `warren up` is checked before anything is created, and applied
once executors run.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import click
from sqlalchemy.orm import Session

from warren.actions.trigger import LocalClient, client_on, open_client
from warren.client import ApiError, Client
from warren.errors import CommandError, JobFileError
from warren.jobfile.reader import JobFile, read_job_file, read_job_text
from warren.jobfile.yaml_reader import line_at, read_whole, tree_of
from warren.route_plugins import route_names
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.job_changes import ChangeAction
from warren.scheduler.commands.job_files.preview import Change
from warren.scheduler.problems import Refused
from warren.scheduler.views.job_warnings import file_warnings, warning_lines
from warren.settings.settings import PREFIX, Settings
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.jobs import jobs
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


def apply_file(
    settings: Settings, path: Path, *, dry_run: bool, prune: bool, as_json: bool
) -> None:
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
    with open_client(settings) as client:
        changes = apply(client, file, dry_run=dry_run, prune=prune)
        warnings = warnings_about(client.database, file, changes)
    print_changes(changes, warnings, dry_run=dry_run, as_json=as_json)


def _opened(path: Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if str(path) == _STANDARD_INPUT else path.open("rb")


def apply(client: LocalClient, file: JobFile, *, dry_run: bool, prune: bool) -> list[Change]:
    """Apply a job file that has been read; return every change.

    Raises:
        JobFileError: a job's app is neither in the file nor in the database, it cannot have its
            children or param, or it is to be started and can never fire.

    """
    file.check_apps(client.database.read(apps.ids_by_name))
    try:
        return client.commands.job_files.apply(file.apps, file.specs, dry_run=dry_run, prune=prune)
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


def apply_by_api(
    settings: Settings, path: Path, url: str, *, dry_run: bool, prune: bool, as_json: bool
) -> None:
    """Apply a job file and print each change; if anything is wrong, nothing is changed.

    Raises:
        WarrenError: there is no token, the file cannot be read, or the API refuses it.

    """
    if settings.api_token is None:
        raise CommandError(f"{PREFIX}API_TOKEN: expected a token of the API, it is not set")
    try:
        client = Client(url, settings.api_token)
        with (
            nullcontext(sys.stdin.buffer)
            if str(path) == _STANDARD_INPUT
            else path.open("rb") as file
        ):
            data = read_whole(file, str(path))
        applied = client.apply(data, dry_run=dry_run, prune=prune)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise JobFileError([*_problems(path, data, error)] or [f"{url}: {error}"]) from error
    changes = [
        Change(
            action=ChangeAction(change.action),
            what=change.what,
            name=change.name,
            details=tuple(change.details),
            diff=tuple(change.diff),
        )
        for change in applied.changes
    ]
    same = Change(action=ChangeAction.UNCHANGED, what="job", name="")
    print_changes(
        [*changes, *[same] * applied.unchanged],
        [(warning.job, warning.message) for warning in applied.warnings],
        dry_run=dry_run,
        as_json=as_json,
    )


def _problems(path: Path, data: bytes, error: ApiError) -> Iterator[str]:
    """Yield each problem that the API names, with its file and line."""
    for detail in error.problem.get("errors", ()):
        words, line = str(detail.get("detail", "")), detail.get("line")
        if line is None and detail.get("pointer"):
            line = line_at(tree_of(data), str(detail["pointer"]))
        yield words if line is None else f"{path}:{line}: {words}"


#: The app if neither the job file nor the database has one.
DEFAULT_APP = "default"


class UpJobs:
    """The jobs of a job file, if there is one.

    Args:
        file: a job file to apply at each start.
        seed: one to apply only if no job was ever created.

    Raises:
        CommandError: both are given, or the file is invalid.

    """

    def __init__(self, *, file: Path | None, seed: Path | None) -> None:
        if file and seed:
            raise CommandError("expected one of --apply and --seed, got both")
        self._path = file or seed
        self._is_seed = seed is not None
        self._wanted = _read(self._path) if self._path else None
        self._changes: list[Change] = []

    def app(self, database: Database) -> str:
        """Return the first app of the file, else of the database."""
        if self._wanted and self._wanted.apps:
            return self._wanted.apps[0].name
        if self._wanted and self._wanted.specs:
            return self._wanted.specs[0].app
        known = database.read(apps.ids_by_name)
        return min(known, key=lambda name: known[name], default=DEFAULT_APP)

    def prepare(self, settings: Settings, database: Database) -> None:
        """Check that the file can be applied as a whole, and create its apps.

        Executors of unknown apps are refused, so apps come first.

        Raises:
            JobFileError: it cannot be applied; nothing was changed.
            ValueError: the same.

        """
        if self._is_seed and not database.read(_is_untouched):
            print(visible(f"{self._path} is applied at the first start only; skipped"))
            self._wanted = None
        if self._wanted is None:
            return
        _apply(settings, database, self._wanted, dry_run=True)
        self._changes = _apply(settings, database, replace(self._wanted, specs=()))

    def apply(self, settings: Settings, database: Database) -> None:
        """Apply the file and print its changes."""
        if self._wanted is None:
            return
        self._changes += _apply(settings, database, self._wanted)
        warnings = warnings_about(database, self._wanted, self._changes)
        print_changes(self._changes, warnings, dry_run=False, as_json=False)


def _read(path: Path) -> JobFile:
    return read_job_file(path, now_ms=time.time_ns() // 1_000_000, added_routes=route_names())


def _is_untouched(session: Session) -> bool:
    made = audit_log.listing(session, AuditFilter(action=Action.JOB_CREATE, limit=1))
    return not made and not jobs.is_any(session)


def _apply(
    settings: Settings, database: Database, wanted: JobFile, *, dry_run: bool = False
) -> list[Change]:
    return apply(client_on(database, settings), wanted, dry_run=dry_run, prune=False)

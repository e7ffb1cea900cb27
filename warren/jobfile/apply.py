"""Applies job files and jobs that are declared in code, and puts each change into words."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from warren.jobfile.reader import JobFile
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_files.job_file import JobFileCommands
from warren.scheduler.commands.job_files.preview import Change
from warren.scheduler.jobs.places import BY_FILE, Origin, module_of
from warren.scheduler.problems import Refused
from warren.scheduler.views.job_warnings import file_warnings, warning_lines
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.registry import apps
from warren.views.terminal import Line, Part, Record, Warned, visible

_PAST = {
    ChangeAction.CREATE: "created",
    ChangeAction.UPDATE: "updated",
    ChangeAction.START: "started",
    ChangeAction.STOP: "stopped",
    ChangeAction.DELETE: "deleted",
}
#: The signs of changes that are not edits.
_SIGNS = {ChangeAction.CREATE: "+", ChangeAction.DELETE: "-"}


def apply(
    context: CommandContext,
    file: JobFile,
    *,
    dry_run: bool,
    prune: bool,
    origin: Origin = BY_FILE,
) -> list[Change]:
    """Apply job files that have been read; return every change.

    Raises:
        JobFileError: a job's app is neither in the file nor in the database, it is declared
            elsewhere, it cannot have its children or param, or it is to be started and can never
            fire.

    """
    hint = "; first: warren apps add NAME" if module_of(origin.place) else "; name it under 'apps'"
    app_ids = context.actor.app_ids
    known = context.database.read(lambda session: apps.ids_by_name(session, app_ids))
    file.check_apps(known, hint=hint)
    try:
        return JobFileCommands(context).apply(
            file.apps,
            file.specs,
            dry_run=dry_run,
            prune=prune,
            origin=origin,
            limits=file.limits,
            calendars=file.calendars,
        )
    except Refused as refused:
        if not refused.problems[0].field.startswith(("jobs/", "limits/")):
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


def changed_of(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that change anything."""
    return [change for change in changes if change.action is not ChangeAction.UNCHANGED]


def change_parts(
    changes: Sequence[Change],
    warnings: Sequence[tuple[str, str]],
    *,
    dry_run: bool = False,
    as_json: bool = False,
) -> list[Part]:
    """Return what is printed of each change, and how many there are; then of the warnings."""
    about = defaultdict[str, list[str]](list)
    for job, words in warnings:
        about[job].append(words)
    changed = changed_of(changes)
    if as_json:
        parts: list[Part] = [Record(_change_json(change, about)) for change in changed]
    else:
        parts = [line for change in changed for line in change_lines(change, dry_run=dry_run)]
        parts.append(Line(f"{len(changed)} changed, {len(changes) - len(changed)} unchanged"))
    return [*parts, *map(Warned, warning_lines(warnings))]


def _change_json(change: Change, about: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "action": change.action.value,
        "what": change.what,
        "name": change.name,
        "details": list(change.details),
        "diff": list(change.diff),
        "cancelled": change.cancelled,
        "warnings": list(about.get(change.name, ())) if change.what == "job" else [],
    }


def change_lines(change: Change, *, dry_run: bool) -> Iterator[Line]:
    """Give the lines of a change with its sign, and of the differences below it."""
    sign = _SIGNS.get(change.action, "~")
    below = () if change.action is ChangeAction.CREATE else change.details
    head = change_line(replace(change, details=change.details[len(below) :]), dry_run=dry_run)
    yield Line(f"{sign} {head}", sign)
    for words in below:
        yield Line(f"    {words}")
    for line in change.diff:
        yield Line(f"      {line}", line[:1])

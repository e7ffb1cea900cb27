"""Checks job files without a database: `warren jobs check`, `warren.testing`.

It applies them to an empty database in memory, which is then thrown away.
"""

import difflib
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warren.errors import JobFileError
from warren.jobfile.declared import DeclaredJobs
from warren.jobfile.reader import JobFile, read_job_file
from warren.route_plugins import route_names
from warren.scheduler.actor import Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_files.job_file import JobFileCommands
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.problems import Problem
from warren.scheduler.views.job_warnings import own_warnings
from warren.sql.dialects.url_forms import file_url
from warren.sql.engine import Database
from warren.sql.schema import migration


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """The jobs of some files, a line for each problem, and pairs of APP/NAME and a warning."""

    specs: Sequence[JobSpec]
    problems: Sequence[str]
    warnings: Sequence[tuple[str, str]]


def check_files(
    paths: Sequence[Path],
    *,
    timezone: str,
    handlers: Collection[str] | None = None,
    declared: DeclaredJobs | None = None,
) -> CheckedFiles:
    """Return what applying these files together to an empty database would report.

    Jobs that are `declared` in code are checked with them, as one more file.
    Apps that no file declares count as existing, and so do children in apps of which no file has
    jobs. `handlers` are all that the jobs may name; None = any. `timezone`: of jobs that name none.
    """
    now_ms, added = time.time_ns() // 1_000_000, route_names()
    files: list[JobFile] = []
    problems: list[str] = []
    for path in paths:
        try:
            files.append(read_job_file(path, now_ms=now_ms, added_routes=added))
        except JobFileError as error:
            problems += error.lines
    if declared is not None and declared.jobs:
        try:
            files.append(declared.read())
        except JobFileError as error:
            problems += error.lines
    problems += _duplicates(files)
    specs = [spec for file in files for spec in file.specs]
    whole, elsewhere = _without_strangers(specs)
    if not problems:
        problems += _refusals(files, whole, timezone, added)
    if handlers is not None:
        problems += _unknown_handlers(files, handlers)
    warnings = [
        (f"{spec.app}/{spec.name}", words) for spec in specs for words in own_warnings(spec, now_ms)
    ]
    return CheckedFiles(specs, problems, [*warnings, *elsewhere])


def _duplicates(files: Sequence[JobFile]) -> Iterator[str]:
    """Yield a line for each job and app that two files have."""
    first_places: dict[tuple[str, ...], Path] = {}
    for file in files:
        jobs = [(spec.app, spec.name) for spec in file.specs]
        for name in [*((app.name,) for app in file.apps), *jobs]:
            first = first_places.setdefault(name, file.path)
            if first != file.path:
                kind = "app" if len(name) == 1 else "job"
                yield f"{file.path}: {kind} {'/'.join(name)!r} is in {first} too"


def _without_strangers(
    specs: Sequence[JobSpec],
) -> tuple[list[JobSpec], list[tuple[str, str]]]:
    """Return the jobs without children in apps that no file has jobs of, and a warning for each."""
    apps = {spec.app for spec in specs}
    known, warnings = [], []
    for spec in specs:
        others = [
            child for child in spec.children if "/" in child and child.split("/")[0] not in apps
        ]
        own = tuple(child for child in spec.children if child not in others)
        known.append(replace(spec, children=own))
        warnings += [
            (f"{spec.app}/{spec.name}", f"child {child!r} is in no file here and was not checked")
            for child in others
        ]
    return known, warnings


def _refusals(
    files: Sequence[JobFile], specs: Sequence[JobSpec], timezone: str, added: Sequence[str]
) -> list[str]:
    """Return what the scheduler's rules for whole files say about valid ones."""
    apps: dict[str, AppSpec] = {app.name: app for file in files for app in file.apps}
    with tempfile.TemporaryDirectory(prefix="warren-check-") as folder:
        database = Database(file_url(Path(folder) / "warren.db"))
        try:
            migration.upgrade(database)
            context = CommandContext(
                database=database,
                now_ms=lambda: time.time_ns() // 1_000_000,
                actor=Actor(who="check"),
                timezone=timezone,
                added_routes=added,
            )
            JobFileCommands(context).apply(list(apps.values()), specs, dry_run=True, prune=False)
        except Problem as problem:
            return list(_placed(files, problem))
        finally:
            database.close()
    return []


def _placed(files: Sequence[JobFile], problem: Problem) -> Sequence[str]:
    """Return a problem with its file and line; the index of its job counts through all files."""
    if not problem.field.startswith("jobs/"):
        return [str(problem)]
    _, position, field = [*problem.field.split("/", 2), ""][:3]
    number = int(position)
    for file in files:
        if number < len(file.specs):
            return file.refused([problem.at(f"jobs/{number}/{field}")]).lines
        number -= len(file.specs)
    return [str(problem)]


def _unknown_handlers(files: Sequence[JobFile], handlers: Collection[str]) -> Iterator[str]:
    for file in files:
        for spec, lines in zip(file.specs, file.job_lines, strict=True):
            if not spec.handler or spec.handler in handlers:
                continue
            near = difflib.get_close_matches(spec.handler, sorted(handlers), 1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            line = lines.get("handler", lines["name"])
            yield f"{file.at(line)}: unknown handler {spec.handler[:100]!r}{hint}"

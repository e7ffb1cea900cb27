"""Checks job files without a database: `warren jobs check`, `warren.testing`.

It applies them to an empty database, which is then thrown away.
"""

import json
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from warren.errors import JobFileError
from warren.executor.builtin import command
from warren.jobfile.reader import JobFile, read_job_files
from warren.jobfile.sources import NO_VALUES, GivenValues, Source
from warren.resources.spelling import did_you_mean
from warren.route_plugins import route_names
from warren.scheduler.actor import Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_files import JobFileCommands
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.problems import Refused
from warren.scheduler.schedules.working_days import (
    ALWAYS,
    Calendar,
    Calendars,
    every_day_until,
)
from warren.scheduler.views.job_warnings import own_warnings
from warren.sql.dialects.url_forms import file_url
from warren.sql.engine import Database
from warren.sql.instants import moment

#: The handler that only executors with `WARREN_BUILTIN=http` have.
HTTP_NAME = "warren.http"


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """The jobs of some files, a line for each problem, and pairs of APP/NAME and a warning.

    `over` has a line for each calendar whose days have all passed.
    """

    specs: Sequence[JobSpec]
    problems: Sequence[str]
    warnings: Sequence[tuple[str, str]]
    calendars: Calendars = field(default_factory=dict)
    over: Sequence[str] = ()


def check(
    sources: Sequence[Source],
    values: GivenValues = NO_VALUES,
    *,
    timezone: str,
    handlers: Collection[str] | None = None,
    schemas: Mapping[str, str] | None = None,
) -> CheckedFiles:
    """Return what applying these files together to an empty database would report.

    Jobs that are `declared` in code are checked with them, as one more file.
    Apps that no file declares count as existing, and so do children in apps of which no file has
    jobs. `handlers` are all that the jobs may name besides Warren's own; None = any. Params are
    checked against the JSON `schemas` of these handlers. `timezone`: of jobs that name none.
    """
    now_ms, added = time.time_ns() // 1_000_000, route_names()
    try:
        file = read_job_files(sources, values, now_ms=now_ms, added_routes=added)
    except JobFileError as error:
        return CheckedFiles((), error.lines, ())
    whole, elsewhere = _without_strangers(file)
    problems = list(_refusals(file, whole, timezone, added))
    own, unchecked = _own_schemas(file)
    if handlers is not None:
        problems += _unknown_handlers(file, {*handlers, *own})
    calendars = _calendars(file, now_ms)
    problems += _misfits(file, {**own, **(schemas or {})}, now_ms, calendars)
    warnings = [
        (f"{spec.app}/{spec.name}", words)
        for spec in file.specs
        for words in own_warnings(spec, now_ms)
    ]
    elsewhere += [*_calendars_elsewhere(file), *unchecked]
    warnings += elsewhere
    return CheckedFiles(file.specs, problems, warnings, calendars, file.over_lines())


def _own_schemas(file: JobFile) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the schemas of Warren's own handlers, and warnings of jobs that cannot be checked."""
    schemas = {command.NAME: json.dumps(msgspec.json.schema(command.Command))}
    asking = [f"{spec.app}/{spec.name}" for spec in file.specs if spec.handler == HTTP_NAME]
    if not asking:
        return schemas | {HTTP_NAME: ""}, []
    try:
        from warren.executor.builtin import http  # noqa: PLC0415 - it needs an extra
    except ModuleNotFoundError:
        words = "its param was not checked: that needs warren[http]"
        return schemas | {HTTP_NAME: ""}, [(job, words) for job in asking]
    return schemas | {HTTP_NAME: json.dumps(msgspec.json.schema(http.Request))}, []


def _misfits(
    file: JobFile, schemas: Mapping[str, str], now_ms: int, calendars: Calendars
) -> Sequence[str]:
    """Return what does not fit in the params of jobs."""
    typed = TypedParams.described({spec.app for spec in file.specs}, schemas)
    problems = [
        problem.at(f"jobs/{number}/{problem.field}")
        for number, spec in enumerate(file.specs)
        for problem in typed.problems_of(spec, now_ms, calendars)
    ]
    return file.refused(problems).lines if problems else ()


def _calendars(file: JobFile, now_ms: int) -> Calendars:
    """Return the calendars of the files; of those elsewhere, every day is a working day."""
    today = moment(now_ms).date()
    described = {
        spec.name: spec.resolved(today, even_over=True).version(1, 0) for spec in file.calendars
    }
    known = {name: Calendar(name, (version,)) for name, version in described.items()}
    return {name: every_day_until(ALWAYS) for name in _used(file.specs)} | known


def _used(specs: Sequence[JobSpec]) -> list[str]:
    """Return the names of the calendars that jobs use."""
    both = ((spec.schedule_options.calendar, spec.run_date_calendar) for spec in specs)
    return [name for names in both for name in names if name]


def _calendars_elsewhere(file: JobFile) -> list[tuple[str, str]]:
    described = {spec.name for spec in file.calendars}
    return [
        (f"{spec.app}/{spec.name}", f"calendar {name!r} is in no file here and was not checked")
        for spec in file.specs
        for name in dict.fromkeys(_used([spec]))
        if name not in described
    ]


def _without_strangers(
    file: JobFile,
) -> tuple[list[JobSpec], list[tuple[str, str]]]:
    """Return the jobs without references that no file declares, and a warning for each.

    These are limits, and children in apps without jobs in any file.
    """
    apps = {spec.app for spec in file.specs}
    limits = {limit.name for limit in file.limits}
    known, warnings = [], []
    for spec in file.specs:
        others = [
            child for child in spec.children if "/" in child and child.split("/")[0] not in apps
        ]
        own = tuple(child for child in spec.children if child not in others)
        missing = [text for text in spec.limits if text.partition(":")[0] not in limits]
        held = tuple(text for text in spec.limits if text not in missing)
        known.append(replace(spec, children=own, limits=held))
        warnings += [
            (f"{spec.app}/{spec.name}", f"{what} {name!r} is in no file here and was not checked")
            for what, names in (("child", others), ("limit", missing))
            for name in names
        ]
    return known, warnings


def _refusals(
    file: JobFile, specs: Sequence[JobSpec], timezone: str, added: Sequence[str]
) -> Sequence[str]:
    """Return what the scheduler's rules for whole files say about valid ones."""
    # It loads Alembic, which other commands than this one do not need.
    from warren.sql.schema import migration  # noqa: PLC0415

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
                declared_calendars=_calendars(file, time.time_ns() // 1_000_000),
            )
            JobFileCommands(context).apply(
                file.apps,
                specs,
                limits=file.limits,
                calendars=file.calendars,
                dry_run=True,
                prune=False,
            )
        except Refused as refused:
            is_placed = refused.problems[0].field.startswith(("jobs/", "limits/"))
            return file.refused(refused.problems).lines if is_placed else [str(refused)]
        finally:
            database.close()
    return []


def _unknown_handlers(file: JobFile, handlers: Collection[str]) -> Iterator[str]:
    for spec, lines in zip(file.specs, file.job_lines, strict=True):
        if not spec.handler or spec.handler in handlers:
            continue
        hint = did_you_mean(spec.handler, sorted(handlers))
        line = lines.get("handler", lines["name"])
        yield f"{file.at(line)}: unknown handler {spec.handler[:100]!r}{hint}"

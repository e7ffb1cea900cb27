"""Reads job files into values, with every problem and its line.

This module knows the grammar only. `warren.scheduler.jobs.rules` checks the values, and
`warren.scheduler.commands.job_files.job_file` applies them.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import yaml

from warren.errors import InvalidEntry, JobFileError, Line
from warren.jobfile.grammar import JobReader, read_targets, texts
from warren.jobfile.sections.calendars import ICAL, CalendarReader, ical_files
from warren.jobfile.sections.limits import LimitReader
from warren.jobfile.sources import NO_VALUES, GivenValues, Source, read_sources
from warren.jobfile.values import Values
from warren.jobfile.yaml_reader import Entry, YamlReader, did_you_mean, is_null, text
from warren.jobfile.yaml_tree import line_of, tree_of
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.alarms.targets import target_problems, webhook_problems
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.jobs import rules as job_rules
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.limits.specs import LimitSpec
from warren.scheduler.problems import Problem
from warren.sql.instants import moment

#: The most problems that are reported; a file with more is probably no job file.
MAX_PROBLEMS = 50
_APP = ("name", "title", "addresses", "route", "alarm", "webhook")
_TOP = ("apps", "calendars", "limits", "jobs", "defaults")
#: What a field that is said later, or by the job itself, takes the place of besides itself.
_REPLACED = {
    "handler": ("script",),
    "script": ("handler",),
    "retry": ("retries", "retry_delay"),
    "process": ("fresh_process",),
    "fresh_process": ("process",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """What valid job files say together.

    `app_lines` are the lines where jobs name their apps, `job_lines` and `limit_lines` those of the
    fields of each job and limit; `at` puts a line into words. `over` has a problem for each
    calendar whose data have passed: as only time has made it one, the file is not refused.
    """

    at: Callable[[Line], str]
    apps: tuple[AppSpec, ...]
    calendars: tuple[CalendarSpec, ...] = ()
    over: tuple[InvalidEntry, ...] = ()
    specs: tuple[JobSpec, ...]
    app_lines: Mapping[str, Line]
    job_lines: tuple[Mapping[str, Line], ...]
    limits: tuple[LimitSpec, ...] = ()
    limit_lines: tuple[Mapping[str, Line], ...] = ()

    def check_apps(self, existing: Iterable[str], *, hint: str = "; name it under 'apps'") -> None:
        """Raise JobFileError if a job's app is neither in the files nor in `existing`.

        `hint` says what to do, if no known app has a similar name.
        """
        known = {app.name for app in self.apps} | set(existing)
        _raise(
            [
                InvalidEntry(line, f"unknown app {name!r}{did_you_mean(name, known) or hint}")
                for name, line in self.app_lines.items()
                if name not in known
            ],
            self.at,
        )

    def refuse_over(self) -> None:
        """Raise JobFileError if all that a calendar knows has passed."""
        _raise(self.over, self.at)

    def over_lines(self) -> list[str]:
        """Return a line for each calendar of which all that it knows has passed."""
        return [f"{self.at(problem.line)}: {problem.text}" for problem in self.over]

    def refused(self, problems: Iterable[Problem]) -> JobFileError:
        """Return the error for refused fields, such as `jobs/0/children`, with their lines."""
        return JobFileError(
            [f"{self.at(self._line_of(problem))}: {problem}" for problem in problems]
        )

    def _line_of(self, problem: Problem) -> Line:
        what, number, field = [*problem.field.split("/"), ""][:3]
        lines = (self.limit_lines if what == "limits" else self.job_lines)[int(number)]
        return lines.get(field, lines["name"])


def read_job_file(path: Path, *, now_ms: int, added_routes: Sequence[str] = ()) -> JobFile:
    """Return a job file, or those of a folder, as `read_job_files` does."""
    return read_job_files(read_sources([path]), now_ms=now_ms, added_routes=added_routes)


def read_job_files(
    sources: Sequence[Source],
    given: GivenValues = NO_VALUES,
    *,
    now_ms: int,
    added_routes: Sequence[str] = (),
) -> JobFile:
    """Return what job files say together; a cron schedule must still fire after `now_ms`.

    Fields of an app or a job in a later file replace those in an earlier one. `added_routes` are
    the installed routes that are not built in.

    Raises:
        JobFileError: with a line `file:line: problem` for each problem.

    """
    at = _places_of(sources)
    with _without_garbage_collection():
        walk = _FileReader(now_ms, added_routes, ical_files(sources))
        sources = [source for source in sources if not source.name.endswith(ICAL)]
        for source in sources:
            walk.order.setdefault(source.name, len(walk.order))
            if source.places:
                walk.declared.add(source.name)
        try:
            values = Values(given)
            for source in sources:
                walk.note(values.fill(tree_of(source.text, source.name)))
            walk.read_all()
        except InvalidEntry as wrong:
            walk.reader.wrong.append(wrong)
        else:
            walk.reader.wrong = _without_echoes(walk.reader.wrong, values.problems)
            walk.reader.wrong += [*values.problems, *values.unused()]
    _raise(walk.reader.wrong, at, walk.order)
    return JobFile(
        at=at,
        apps=tuple(walk.apps.values()),
        calendars=tuple(walk.calendars.specs.values()),
        over=tuple(walk.calendars.over),
        specs=tuple(walk.specs),
        app_lines=walk.app_lines,
        job_lines=tuple(walk.job_lines),
        limits=tuple(walk.limits.limits.values()),
        limit_lines=tuple(walk.limits.lines.values()),
    )


def _without_echoes(
    wrong: Sequence[InvalidEntry], values: Sequence[InvalidEntry]
) -> list[InvalidEntry]:
    """Leave out what is said about lines whose values are missing: it is about an empty text."""
    lines = {(problem.line.file, int(problem.line)) for problem in values}
    return [problem for problem in wrong if (problem.line.file, int(problem.line)) not in lines]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Turn off the garbage collector while the block runs.

    A large file becomes a million objects that stay alive, and every collection would visit them
    all.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(slots=True, kw_only=True)
class _Noted:
    """An app or a job as files have said so far.

    `line` is where the last of them names it, `defaults` are the fields that it has from its files'
    defaults.
    """

    line: Line
    fields: dict[str, Entry]
    defaults: dict[str, Entry] = field(default_factory=dict)

    def add(self, fields: Mapping[str, Entry], defaults: Mapping[str, Entry], line: Line) -> None:
        """Add what a later file says."""
        _put(self.fields, fields)
        _put(self.defaults, defaults)
        self.line = line

    def all(self) -> dict[str, Entry]:
        """Return all fields; those of the defaults are there if nothing else is said."""
        fields = dict(self.defaults)
        _put(fields, self.fields)
        return fields


def _put(fields: dict[str, Entry], later: Mapping[str, Entry]) -> None:
    for name, entry in later.items():
        for replaced in _REPLACED.get(name, ()):
            if replaced not in later:
                fields.pop(replaced, None)
        fields[name] = entry


class _FileReader:
    """Walks through the trees once, and then reads what they say together."""

    def __init__(
        self, now_ms: int, added_routes: Sequence[str], ical_files: Mapping[str, str]
    ) -> None:
        self.reader = YamlReader()
        self.calendars = CalendarReader(self.reader, ical_files)
        self._now_ms = now_ms
        self._added_routes = added_routes
        self.order: dict[str, int] = {}
        #: The names of what is declared in code.
        self.declared: set[str] = set()
        self.apps: dict[str, AppSpec] = {}
        self.specs: list[JobSpec] = []
        self.app_lines: dict[str, Line] = {}
        self.job_lines: list[Mapping[str, Line]] = []
        self._job_reader = JobReader(self.reader, now_ms=now_ms, added_routes=added_routes)
        self.limits = LimitReader(self.reader)
        self._noted_apps: dict[object, _Noted] = {}
        self._noted_jobs: dict[object, _Noted] = {}

    def note(self, root: yaml.Node) -> None:
        """Note what a whole file says."""
        parts = self.reader.fields(root, "the file", _TOP, extensions=True)
        if not {"apps", "calendars", "limits", "jobs"} & set(parts) and not self.reader.wrong:
            self.reader.add_problem(line_of(root), "expected 'apps' or 'jobs', got neither")
        for node in self._list(parts.get("calendars")):
            self.calendars.read(node)
        defaults = self._defaults(parts.get("defaults"))
        for node in self._list(parts.get("apps")):
            self._note_app(node)
        for node in self._list(parts.get("limits")):
            self.limits.read(node)
        for node in self._list(parts.get("jobs")):
            self._note_job(node, defaults)

    def read_all(self) -> None:
        """Read the apps and jobs that were noted."""
        self.calendars.check(moment(self._now_ms).date())
        for noted in self._noted_apps.values():
            self._app(noted.line, noted.fields)
        for noted in self._noted_jobs.values():
            self._job(noted.line, noted.all())

    def _list(self, entry: Entry | None) -> list[yaml.Node]:
        if entry is None or is_null(entry.node):
            return []
        return self.reader.items(entry)

    def _defaults(self, entry: Entry | None) -> dict[str, Entry]:
        if entry is None or is_null(entry.node):
            return {}
        fields = self._job_reader.fields(entry.node, "defaults")
        if name := fields.pop("name", None):
            self.reader.add_problem(name.line, "expected defaults without 'name'")
        return fields

    def _note_app(self, node: yaml.Node) -> None:
        fields = self.reader.fields(node, "an app", _APP)
        if not isinstance(node, yaml.MappingNode):
            return
        name = _scalar(fields.get("name"))
        line = fields["name"].line if "name" in fields else line_of(node)
        before = self._noted_apps.get(name or node)
        if before is None:
            self._noted_apps[name or node] = _Noted(line=line, fields=fields)
        elif before.line.file == line.file:
            self.reader.add_problem(line, f"duplicate app {str(name)[:100]!r}")
        else:
            before.add(fields, {}, line)

    def _note_job(self, node: yaml.Node, defaults: Mapping[str, Entry]) -> None:
        fields = self._job_reader.fields(node, "a job")
        if not isinstance(node, yaml.MappingNode):
            return
        app, name = _scalar(fields.get("app") or defaults.get("app")), _scalar(fields.get("name"))
        key = (app, name) if app and name else node
        line = line_of(node)
        before = self._noted_jobs.get(key)
        if before is None:
            noted = _Noted(line=line, fields=fields, defaults=dict(defaults))
            self._noted_jobs[key] = noted
        elif before.line.file == line.file:
            words = f"{str(name)[:100]!r} in app {str(app)[:100]!r}"
            first = before.fields["name"].line
            self.reader.add_problem(
                fields["name"].line, f"duplicate job {words}, first in line {first}"
            )
        elif self.declared & {before.line.file, line.file}:
            words = f"job {app}/{name} is in {before.line.file} too; declare it in one place"
            self.reader.add_problem(fields["name"].line, words)
        else:
            before.add(fields, defaults, line)

    def _app(self, line: Line, fields: Mapping[str, Entry]) -> None:
        if "name" not in fields:
            self.reader.add_problem(line, "missing field 'name'")
        name = self.reader.value(text, fields.get("name"))
        title = self.reader.value(text, fields.get("title"))
        if name is None:
            return
        self.reader.check(fields["name"].line, lambda: job_rules.check_app_name(name))
        if title is not None:
            self.reader.check(fields["title"].line, lambda: job_rules.check_title(title))
        self.apps[name] = AppSpec(
            name=name,
            title=title,
            addresses=self._addresses(fields.get("addresses")),
            route=self._route(fields.get("route")),
            alarm=self._alarm(fields.get("alarm")),
            webhook=self._webhook(fields.get("webhook")),
        )

    def _addresses(self, entry: Entry | None) -> tuple[str, ...]:
        if entry is None or is_null(entry.node):
            return ()
        addresses: tuple[str, ...] = self.reader.value(texts, entry) or ()
        self.reader.check(entry.line, lambda: job_rules.check_addresses(addresses))
        return addresses

    def _route(self, entry: Entry | None) -> str:
        if entry is None or is_null(entry.node):
            return ""
        route: str = self.reader.value(text, entry) or ""
        self.reader.check(entry.line, lambda: job_rules.check_app_route(route, self._added_routes))
        return route

    def _alarm(self, entry: Entry | None) -> AlarmTargets:
        said = read_targets(self.reader, entry, "alarm")
        targets = AlarmTargets(**{name.removeprefix("alarm_"): said[name] for name in said})
        self._add_problems(entry, target_problems(targets))
        return targets

    def _webhook(self, entry: Entry | None) -> RunWebhook:
        said = read_targets(self.reader, entry, "webhook")
        webhook = RunWebhook(**{name.removeprefix("webhook_"): said[name] for name in said})
        self._add_problems(entry, webhook_problems(webhook))
        return webhook

    def _add_problems(self, entry: Entry | None, problems: Iterable[Problem]) -> None:
        if entry is not None:
            for problem in problems:
                self.reader.add_broken_rule(line_of(entry.node), problem)

    def _job(self, line: Line, fields: Mapping[str, Entry]) -> None:
        spec, lines = self._job_reader.read(line, fields)
        self.specs.append(spec)
        self.job_lines.append(lines)
        if spec.app:
            self.app_lines.setdefault(spec.app, lines["app"])


def _scalar(entry: Entry | None) -> str | None:
    return str(entry.node.value) if entry and isinstance(entry.node, yaml.ScalarNode) else None


def _places_of(sources: Sequence[Source]) -> Callable[[Line], str]:
    """Return what puts a line of these files, or of the values for them, into words."""
    by_name = {source.name: source for source in sources}

    def at(line: Line) -> str:
        source = by_name.get(line.file)
        return source.at(line) if source else line.place

    return at


def _raise(
    wrong: Sequence[InvalidEntry],
    at: Callable[[Line], str],
    order: Mapping[str, int] = MappingProxyType({}),
) -> None:
    if not wrong:
        return
    ordered = sorted(
        wrong, key=lambda problem: (order.get(problem.line.file, len(order)), problem.line)
    )
    lines = [f"{at(problem.line)}: {problem.text}" for problem in ordered[:MAX_PROBLEMS]]
    if len(ordered) > MAX_PROBLEMS:
        lines.append(f"{ordered[0].line.file}: and {len(ordered) - MAX_PROBLEMS} more problems")
    raise JobFileError(lines, ordered)

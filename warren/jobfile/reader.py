"""Reads job files into values, with every problem and its line: their apps, calendars and limits.

`${NAME}` stands for a value that is given by files and options alone, never by the environment; in
the sources of scripts it stands for itself. This module and `grammar`, which reads a job, know the
grammar only. `warren.scheduler.jobs.rules` checks the values, and
`warren.scheduler.commands.job_files` applies them.
"""

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from warren.errors import InvalidEntry, JobFileError, Line
from warren.jobfile.grammar import JobReader, read_targets, texts
from warren.jobfile.sources import NO_VALUES, VALUE_NAME, GivenValues, Source, read_sources
from warren.jobfile.yaml_reader import (
    Entry,
    Filled,
    Read,
    YamlReader,
    entries,
    is_null,
    line_of,
    read_each,
    seconds,
    shown,
    text,
    tree_of,
    whole_number,
)
from warren.resources.job_files import JOB_FILE_BYTES, JobFileText
from warren.resources.spelling import did_you_mean
from warren.scheduler import limits as limit_specs
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.alarms.targets import target_problems, webhook_problems
from warren.scheduler.calendars.calendar_spec import OVER, CalendarSpec
from warren.scheduler.jobs import rules as job_rules
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.limits import LimitSpec
from warren.scheduler.problems import Code, Problem, counted, found
from warren.scheduler.schedules.run_date import parse_date
from warren.sql.instants import moment

#: `${NAME}`, or `$${NAME}`, which stands for `${NAME}` itself.
_PLACE = re.compile(rf"\$(\$)?\{{({VALUE_NAME})\}}")
_RESOLVER: Any = yaml.resolver.Resolver()
_STR, _NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"
#: The ending of files that calendars name as their sources.
ICAL = ".ics"
_CALENDAR_FIELDS = ("name", "from", "weekend", "days", "until")
_LIMIT_READS: Mapping[str, Read] = {
    "name": text,
    "at_once": whole_number,
    "rate": whole_number,
    "per": seconds,
}
#: The most problems that are reported; a file with more is probably no job file.
MAX_PROBLEMS = 50
_APP = ("name", "title", "addresses", "route", "alarm", "webhook")
_TOP = ("apps", "calendars", "limits", "jobs", "defaults")
#: What a field that is given later, or by the job itself, replaces besides itself.
_REPLACED = {
    "handler": ("script",),
    "script": ("handler",),
    "retry": ("retries", "retry_delay"),
    "process": ("fresh_process",),
    "fresh_process": ("process",),
}


class Values:
    """The values by name, and which of them were used.

    Raises:
        InvalidEntry: a file is no YAML.

    """

    def __init__(self, given: GivenValues) -> None:
        self.problems: list[InvalidEntry] = []
        self._texts: dict[str, str] = {}
        self._lines: dict[str, Line] = {}
        self._used: set[str] = set()
        self._left = JOB_FILE_BYTES
        self._option, self._ways = given.option, given.ways
        for source in given.files:
            self._read(source)
        names: set[str] = set()
        for written in given.texts:
            self._set(written, names)

    def unused(self) -> Iterator[InvalidEntry]:
        """Give a problem for each value that no job file has a place for."""
        for name, line in self._lines.items():
            if name not in self._used:
                near = did_you_mean(name, self._used)
                yield InvalidEntry(line, f"no job file has ${{{name}}}{near}")

    def fill(self, root: yaml.Node) -> yaml.Node:
        """Return a job file with its values filled in; those that are missing become problems."""
        return _Filling(self).tree(root)

    def filled(self, node: yaml.ScalarNode) -> yaml.ScalarNode:
        """Return a scalar with its values filled in."""
        if "${" not in node.value:
            return node
        written = _PLACE.sub(lambda place: self._value(place, node), node.value)
        if written == node.value:
            return node
        tag = _RESOLVER.resolve(yaml.ScalarNode, written, (True, False))
        return Filled(_STR if tag == _NULL else tag, written, node.start_mark, node.end_mark)

    def _value(self, place: re.Match[str], node: yaml.Node) -> str:
        is_escaped, name = place.groups()
        if is_escaped:
            return f"${{{name}}}"
        self._used.add(name)
        written = self._texts.get(name)
        if written is None:
            near = did_you_mean(name, self._texts)
            words = (
                f"no value for ${{{name}}}{near or f'; give one by {self._ways.format(name=name)}'}"
            )
            self.problems.append(InvalidEntry(line_of(node), words))
            return ""
        self._left -= len(written)
        if self._left < 0:
            words = f"expected values of up to {JOB_FILE_BYTES} characters in total"
            raise InvalidEntry(line_of(node), words)
        return written

    def _read(self, source: JobFileText) -> None:
        if not source.text.strip():
            return
        for entry in entries(tree_of(source.text, source.name), "a file of values"):
            if isinstance(entry, InvalidEntry):
                self.problems.append(entry)
            else:
                self._take(entry)

    def _take(self, entry: Entry) -> None:
        if not re.fullmatch(VALUE_NAME, entry.name):
            words = f"expected a name of letters, digits and _, got: {entry.name[:100]!r}"
            self.problems.append(InvalidEntry(entry.line, words))
        elif not isinstance(entry.node, yaml.ScalarNode) or entry.node.tag == _NULL:
            words = f"expected {entry.name} to be text or a number, got: {shown(entry.node)}"
            self.problems.append(InvalidEntry(entry.line, words))
        else:
            self._texts[entry.name] = entry.node.value
            self._lines[entry.name] = entry.line

    def _set(self, written: str, names: set[str]) -> None:
        """Take the value of an option, and its name, which no other option may have."""
        name, equals, value = written.partition("=")
        line = Line(0, f"{self._option} {name}"[:100])
        if not equals or not re.fullmatch(VALUE_NAME, name):
            self.problems.append(InvalidEntry(line, f"expected NAME=VALUE, got: {written[:100]!r}"))
            return
        if name in names:
            self.problems.append(InvalidEntry(line, "expected each name once, got: it twice"))
            return
        names.add(name)
        self._texts[name] = value
        self._lines[name] = line


class _Filling:
    """Fills in the values of one tree; nodes that aliases share are filled in once."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._done: dict[tuple[int, bool], yaml.Node] = {}

    def tree(self, root: yaml.Node) -> yaml.Node:
        """Return the root with values; what its `x-…` fields hold is filled in where it is used."""
        if not isinstance(root, yaml.MappingNode):
            return root
        pairs = [
            (key, value if str(key.value).startswith("x-") else self._node(value, str(key.value)))
            for key, value in root.value
        ]
        return _like(root, pairs)

    def _node(self, node: yaml.Node, field: str) -> yaml.Node:
        """Return a node with values; `field` is the name of the mapping's entry that it is in."""
        if isinstance(node, yaml.ScalarNode):
            return self._values.filled(node)
        if not isinstance(node, yaml.CollectionNode):
            return node
        known = (id(node), field == "script")
        if known not in self._done:
            self._done[known] = node  # for an alias inside its own anchor
            self._done[known] = self._collection(node, field)
        return self._done[known]

    def _collection(self, node: yaml.CollectionNode, field: str) -> yaml.Node:
        if isinstance(node, yaml.SequenceNode):
            return _like(node, [self._node(item, field) for item in node.value])
        pairs = []
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if field == "script" and name == "source":
                pairs.append((key, value))
            else:
                pairs.append((key, self._node(value, field if name == "<<" else name)))
        return _like(node, pairs)


def _like(node: yaml.CollectionNode, value: list[Any]) -> yaml.Node:
    return type(node)(node.tag, value, node.start_mark, node.end_mark, node.flow_style)


class CalendarReader:
    """Reads calendars; adds problems to `reader`. `files` are the texts of `.ics` files by name.

    `over` has a problem for each calendar whose days have all passed.
    """

    def __init__(self, reader: YamlReader, files: Mapping[str, str]) -> None:
        self._reader = reader
        self._files = files
        self.specs: dict[str, CalendarSpec] = {}
        self.over: list[InvalidEntry] = []
        self.lines: dict[str, Mapping[str, Line]] = {}

    def read(self, node: yaml.Node) -> None:
        """Read one calendar; a later file may not describe one again."""
        before = len(self._reader.wrong)
        fields = self._reader.fields(node, "a calendar", _CALENDAR_FIELDS)
        if not isinstance(node, yaml.MappingNode):
            return
        line = line_of(node)
        if "name" not in fields:
            self._reader.add_problem(line, "missing field 'name'")
            return
        values: dict[str, Any] = {
            key: self._reader.value(_CALENDAR_READS[key], entry)
            for key, entry in fields.items()
            if not is_null(entry.node)
        }
        if len(self._reader.wrong) > before:
            return
        name = values.pop("name")
        if name in self.specs:
            self._reader.add_problem(fields["name"].line, f"duplicate calendar {name[:100]!r}")
            return
        source = values.pop("from", "")
        self.specs[name] = CalendarSpec(name=name, source=source, files=self._files, **values)
        self.lines[name] = {"": line} | {key: entry.line for key, entry in fields.items()}

    def check(self, today: date) -> None:
        """Add what is wrong with the calendars that were read."""
        for name, spec in self.specs.items():
            for problem in found(lambda spec=spec: spec.resolved(today)):  # type: ignore[misc] # a lambda has no types
                line = self.lines[name].get(problem.field, self.lines[name][""])
                if problem.code in OVER:
                    rule = problem.code.name.lower()
                    self.over.append(InvalidEntry(line, str(problem), rule))
                else:
                    self._reader.add_broken_rule(line, problem)


def ical_files(sources: Sequence[Any]) -> dict[str, str]:
    """Return the texts of the `.ics` files among sources, by path and by bare name."""
    texts = {source.name: source.text for source in sources if source.name.endswith(ICAL)}
    return {name.rpartition("/")[2]: text for name, text in texts.items()} | texts


def _days(node: yaml.Node, what: str) -> Mapping[date, str]:
    """Return days with `work` or `off …`; YAML reads the days as dates, and `off` as false."""
    if not isinstance(node, yaml.MappingNode):
        raise InvalidEntry(line_of(node), f"expected {what} to be a mapping, got: {shown(node)}")
    days: dict[date, str] = {}

    def add(pair: tuple[yaml.Node, yaml.Node]) -> None:
        key, value = pair
        day = _date(key, "a day")
        if day in days:
            raise InvalidEntry(line_of(key), f"duplicate day {day}")
        if not isinstance(value, yaml.ScalarNode):
            words = f"expected {day} to be work or off, got: {shown(value)}"
            raise InvalidEntry(line_of(value), words)
        days[day] = str(value.value).strip()

    read_each(node.value, add)
    return days


def _date(node: yaml.Node, what: str) -> date:
    if not isinstance(node, yaml.ScalarNode):
        raise InvalidEntry(line_of(node), f"expected {what} to be a date, got: {shown(node)}")
    return _date_of(str(node.value), line_of(node))


def _date_of(text_: str, line: Line) -> date:
    try:
        return parse_date(text_)
    except Problem as problem:
        raise InvalidEntry(line, str(problem), Code.RUN_DATE.name.lower()) from problem


def _weekend(node: yaml.Node, what: str) -> tuple[str, ...]:
    return tuple(day.upper() for day in texts(node, what))


_CALENDAR_READS: Mapping[str, Any] = {
    "name": text,
    "from": text,
    "weekend": _weekend,
    "days": _days,
    "until": _date,
}


class LimitReader:
    """Reads limits; adds problems to `reader`. One in a later file replaces an earlier one."""

    def __init__(self, reader: YamlReader) -> None:
        self._reader = reader
        self.limits: dict[str, LimitSpec] = {}
        #: The lines of each limit's fields.
        self.lines: dict[str, Mapping[str, Line]] = {}

    def read(self, node: yaml.Node) -> None:
        before = len(self._reader.wrong)
        fields = self._reader.fields(node, "a limit", tuple(_LIMIT_READS))
        if not isinstance(node, yaml.MappingNode):
            return
        if "name" not in fields:
            self._reader.add_problem(line_of(node), "missing field 'name'")
        values = {
            key: self._reader.value(read, fields.get(key)) for key, read in _LIMIT_READS.items()
        }
        if len(self._reader.wrong) > before:
            return
        self._add(LimitSpec(**values), fields)

    def _add(self, spec: LimitSpec, fields: Mapping[str, Entry]) -> None:
        lines = {name: entry.line for name, entry in fields.items()}
        known = self.lines.get(spec.name)
        if known is not None and known["name"].file == lines["name"].file:
            self._reader.add_problem(lines["name"], f"duplicate limit {spec.name[:100]!r}")
            return
        for problem in limit_specs.problems(spec):
            line = lines.get(problem.field, lines["name"])
            self._reader.add_broken_rule(line, problem)
        self.limits[spec.name], self.lines[spec.name] = spec, lines


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
                InvalidEntry(
                    line,
                    f"unknown app {name!r}{did_you_mean(name, known) or hint}",
                    Code.UNKNOWN_APP.name.lower(),
                )
                for name, line in self.app_lines.items()
                if name not in known
            ],
            self.at,
        )

    def over_lines(self) -> list[str]:
        """Return a line for each calendar whose days have all passed."""
        return [f"{self.at(problem.line)}: {problem.text}" for problem in self.over]

    def refused(self, problems: Iterable[Problem]) -> JobFileError:
        """Return the error for refused fields, such as `jobs/0/children`, with their lines."""
        return JobFileError(
            [f"{self.at(self.line_of(problem))}: {problem}" for problem in problems]
        )

    def line_of(self, problem: Problem) -> Line:
        """Return the line of a field such as `jobs/0/children`."""
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
    """Leave out problems of lines whose values are missing: they are about an empty text."""
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
        """Return all fields; those of the defaults unless something else is given."""
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
        for problem in job_rules.address_problems(addresses):
            self.reader.add_broken_rule(entry.line, problem)
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
    # What is wrong with the defaults is found in each job.
    once = {(problem.line.file, problem.line, problem.text): problem for problem in wrong}
    ordered = sorted(
        once.values(), key=lambda problem: (order.get(problem.line.file, len(order)), problem.line)
    )
    lines = [f"{at(problem.line)}: {problem.text}" for problem in ordered[:MAX_PROBLEMS]]
    if len(ordered) > MAX_PROBLEMS:
        more = counted(len(ordered) - MAX_PROBLEMS, "more problem")
        lines.append(f"{ordered[0].line.file}: and {more}")
    raise JobFileError(lines, ordered)

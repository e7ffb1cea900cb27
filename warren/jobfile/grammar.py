"""Reads one job of a job file, with its flow; each refusal gets its line."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import yaml

from warren.errors import InvalidEntry, Line
from warren.jobfile.five_fields import SHORTCUTS, meant
from warren.jobfile.yaml_reader import (
    Entry,
    Read,
    YamlReader,
    boolean,
    entries,
    instant,
    is_null,
    items,
    line_of,
    read_each,
    scalar_kind,
    seconds,
    share,
    shown,
    text,
    valid,
    whole_number,
)
from warren.resources.spelling import INSTEAD, did_you_mean
from warren.scheduler.cron.wall_clock import check_zone
from warren.scheduler.expectations import DECLARED, Expectations
from warren.scheduler.flows.graph import Graph, parse
from warren.scheduler.jobs import rules
from warren.scheduler.jobs.spec import (
    GROUPS,
    SHORT_RETRY,
    TOP,
    Field,
    JobSpec,
    LimitNames,
    is_duration,
)
from warren.scheduler.limits import use_texts
from warren.scheduler.problems import Problem, Refused
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.schedules.options import OPTIONS, ScheduleOptions
from warren.scheduler.schedules.registry import (
    KINDS,
    CronSchedule,
    NoSchedule,
    UnixCronSchedule,
)
from warren.scheduler.schedules.schedule import ValueForm

_SCALARS: Mapping[str, Read] = {"bool": boolean, "int": whole_number, "float": share}


def flow(node: yaml.Node, what: str) -> Graph:
    """Return the graph of a mapping of nodes.

    Raises:
        InvalidEntry: with all that is wrong, and their lines.

    """
    try:
        return parse(plain(node, what))
    except Refused as refused:
        raise InvalidEntry.of(
            [
                InvalidEntry(line_at(node, each.field), str(each), each.code.name.lower())
                for each in refused.problems
            ]
        ) from refused


def plain(node: yaml.Node, what: str) -> Any:
    """Return the value of a node as JSON would have it."""
    if isinstance(node, yaml.MappingNode):
        return dict(read_each(entries(node, what), _plain_pair))
    if isinstance(node, yaml.SequenceNode):
        return read_each(items(node, what), lambda item: plain(item, what))
    if is_null(node):
        return None
    read = _SCALARS.get(scalar_kind(node))
    return read(node, what) if read else str(node.value)


def _plain_pair(entry: Entry | InvalidEntry) -> tuple[str, Any]:
    known = valid(entry)
    return known.name, plain(known.node, known.name)


def line_at(node: yaml.Node, field: str) -> Line:
    """Return the line of the deepest key that a field such as `flow/load/after` names."""
    line = line_of(node)
    for part in field.split("/")[1:]:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        key, node = next(((key, value) for key, value in pairs if key.value == part), (None, node))
        line = line if key is None else line_of(key)
    return line


def texts(node: yaml.Node, what: str) -> tuple[str, ...]:
    return tuple(read_each(items(node, what), lambda item: text(item, f"each of {what}")))


def limits(node: yaml.Node, what: str) -> tuple[str, ...]:
    """Return a list of limits, each NAME, NAME:WEIGHT or {NAME: WEIGHT}."""
    uses = read_each(items(node, what), lambda item: _limit_uses(item, f"each of {what}"))
    return tuple(use_texts(chain.from_iterable(uses)))


def _limit_uses(node: yaml.Node, what: str) -> list[str | dict[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return [text(node, what)]
    return read_each(entries(node, what), _weight)


def _weight(entry: Entry | InvalidEntry) -> dict[str, int]:
    name = valid(entry).name
    return {name: whole_number(valid(entry).node, f"the weight of {name}")}


def expectations(node: yaml.Node, what: str) -> Expectations:
    """Return the rules of a mapping; YAML reads `07:00` and `300` as numbers, here they are texts.

    Raises:
        InvalidEntry: it is not a mapping of such rules; with all that is wrong.

    """
    return Expectations(**dict(read_each(entries(node, what), _expectation)))


def _expectation(entry: Entry | InvalidEntry) -> tuple[str, str]:
    name, node = valid(entry).name, valid(entry).node
    if name not in DECLARED:
        hint = did_you_mean(name, DECLARED)
        raise InvalidEntry(valid(entry).line, f"unknown field {name[:100]!r}{hint}")
    return name, words(node, name)


def words(node: yaml.Node, what: str) -> str:
    """Return a scalar as it is written; YAML reads `2026-12-01` and `18:30` as other types.

    Raises:
        InvalidEntry: it is not a scalar.

    """
    if not isinstance(node, yaml.ScalarNode):
        raise InvalidEntry(line_of(node), f"expected {what} to be text, got: {shown(node)}")
    return "" if is_null(node) else str(node.value)


def timezone(node: yaml.Node, what: str) -> str:
    """Return the name of a time zone; an unknown one is answered with the nearest."""
    name = text(node, what)
    try:
        check_zone(name or "UTC")  # an empty one is the scheduler's
    except Problem as problem:
        raise InvalidEntry(line_of(node), str(problem), problem.code.name.lower()) from problem
    return name


#: The reader of a field, by its type.
_READS: dict[Any, Read] = {
    str: text,
    int: whole_number,
    float: share,
    bool | None: boolean,
    tuple[str, ...]: texts,
    Expectations: expectations,
    Graph | None: flow,
}
_NEEDED = ("name", "app")
_SCHEDULE_VALUES: dict[ValueForm, Read] = {
    ValueForm.EXPRESSION: text,
    ValueForm.SECONDS: seconds,
    ValueForm.INSTANT: instant,
    ValueForm.WORKDAY: whole_number,
}
#: The kinds of schedules by their keywords.
_SCHEDULES = {kind.keyword: kind for kind in KINDS.values() if kind.fires}
_MORE_KEYS = tuple(key for kind in _SCHEDULES.values() for key in kind.more_keys)
_WHEN = f"one of {', '.join(f'{{{keyword}: …}}' for keyword in _SCHEDULES)} or {NoSchedule.keyword}"
_GROUPS = {**GROUPS, "retry": {**SHORT_RETRY, **GROUPS["retry"]}}
_OF_RETRY = frozenset(field.name for field in SHORT_RETRY.values())
#: The older name of `process`.
_FRESH_PROCESS = "fresh_process"
#: What the misfire policy CATCH_UP catches up; it may stand within `misfire`.
_CATCH_UP = "catch_up"
_KNOWN = (*TOP, *GROUPS, _FRESH_PROCESS)
#: Groups without rules besides those of their fields.
_PLAIN = tuple(group for group in GROUPS if group not in ("schedule", "retry", "script"))


class JobReader:
    """Reads jobs; adds problems to `reader`."""

    def __init__(
        self, reader: YamlReader, *, now_ms: int, added_routes: Sequence[str] = ()
    ) -> None:
        self._reader = reader
        self._now_ms = now_ms
        self._added_routes = added_routes

    def fields(self, node: yaml.Node, what: str) -> dict[str, Entry]:
        """Return the fields of a job, or of what many jobs have, by name."""
        return self._reader.fields(node, what, _KNOWN, instead=INSTEAD)

    def read(self, line: Line, fields: Mapping[str, Entry]) -> tuple[JobSpec, Mapping[str, Line]]:
        """Return the job that begins at a line and has these fields, and the line of each."""
        self._check_required(line, fields)
        fields = self._with_catch_up(fields)
        values = _values(self._reader, fields, TOP)
        values |= self._process(values.get("process", ""), fields.get(_FRESH_PROCESS))
        values |= self._schedule(fields.get("schedule"))
        values |= self._retry(values, fields.get("retry"))
        for group in _PLAIN:
            values |= read_targets(self._reader, fields.get(group), group)
        values |= self._script(fields.get("script"))
        spec = JobSpec(**({"name": "", "app": ""} | values))
        self._check(spec, fields, values)
        return spec, {name: entry.line for name, entry in fields.items()}

    def _with_catch_up(self, fields: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """Return the fields with `misfire: {catch_up: …}` taken apart: the policy and its group."""
        entry = fields.get("misfire")
        if entry is None or not isinstance(entry.node, yaml.MappingNode):
            return fields
        inner = self._reader.fields(entry.node, "misfire", (_CATCH_UP,))
        if _CATCH_UP not in inner:
            return {name: fields[name] for name in fields if name != "misfire"}
        tag = "tag:yaml.org,2002:str"
        mark = entry.node.start_mark
        policy = yaml.ScalarNode(tag, MisfirePolicy.CATCH_UP.value, mark, mark)
        return dict(fields) | {
            "misfire": Entry("misfire", entry.line, policy),
            _CATCH_UP: inner[_CATCH_UP],
        }

    def _check_required(self, line: Line, fields: Mapping[str, Entry]) -> None:
        for name in _NEEDED:
            if name not in fields:
                self._reader.add_problem(line, f"missing field {name!r}")
        if not {"handler", "script", "flow"} & fields.keys():
            self._reader.add_problem(line, "missing field 'handler', 'script' or 'flow'")

    def _check(
        self, spec: JobSpec, entries: Mapping[str, Entry], values: Mapping[str, Any]
    ) -> None:
        for problem in rules.problems(spec, now_ms=self._now_ms, added_routes=self._added_routes):
            field = problem.field.partition("/")[0]
            if field in _OF_RETRY and field not in entries:
                field = "retry"
            # Missing and unreadable fields have been reported; here they have valid defaults.
            if field in entries and (field not in TOP or field in values):
                self._reader.add_broken_rule(entries[field].line, problem)

    def _process(self, process: str, older: Entry | None) -> dict[str, Any]:
        is_fresh = self._reader.value(boolean, older)
        if older is None or is_fresh is None:
            return {}
        try:
            return {"process": rules.process_of(process, is_fresh)}
        except Problem as problem:
            self._reader.add_broken_rule(older.line, problem)
            return {}

    def _retry(self, short: Mapping[str, Any], entry: Entry | None) -> dict[str, Any]:
        if entry is None or is_null(entry.node):
            return {}
        values = read_group(self._reader, entry, "retry")
        said = {key: values[item.name] for key, item in SHORT_RETRY.items() if item.name in values}
        try:
            rules.in_short(short, said)
        except Problem as problem:
            self._reader.add_broken_rule(entry.line, problem)
        return values

    def _schedule(self, entry: Entry | None) -> dict[str, Any]:
        if entry is None or is_null(entry.node):
            return {}
        if isinstance(entry.node, yaml.ScalarNode):
            if entry.node.value != NoSchedule.keyword:
                said = entry.node.value[:100]
                self._reader.add_problem(entry.line, f"unknown schedule {said!r}; expected {_WHEN}")
            return {}
        before = len(self._reader.wrong)
        if whole := _torn(entry.node):
            self._reader.add_problem(line_of(entry.node), f"put it in quotes: {whole[:200]}")
            return {}
        entries = self._reader.fields(
            entry.node, "schedule", (*_SCHEDULES, *_MORE_KEYS, "timezone", *OPTIONS)
        )
        zone = self._reader.value(timezone, entries.pop("timezone", None))
        said = {
            key: self._reader.value(words, entries.pop(key)) for key in OPTIONS if key in entries
        }
        more = {key: entries.pop(key) for key in _MORE_KEYS if key in entries}
        options = ScheduleOptions.of(said)
        if len(entries) == 1:
            when = self._when(next(iter(entries.values())), more)
            if when:
                return {"timezone": zone or "", "schedule_options": options} | when
        for problem in options.problems():
            self._reader.add_broken_rule(entry.line, problem)
        if len(entries) != 1 and len(self._reader.wrong) == before:
            got = " and ".join(map(repr, entries)) or "none of these"
            self._reader.add_problem(entry.line, f"expected schedule to be {_WHEN}, got: {got}")
        return {}

    def _when(self, entry: Entry, more: Mapping[str, Entry]) -> dict[str, Any]:
        kind = _SCHEDULES[entry.name]
        for key, other in more.items():
            if key not in kind.more_keys:
                self._reader.add_problem(other.line, f"expected no {key!r} with {entry.name!r}")
        conf = self._reader.value(_SCHEDULE_VALUES[kind.value_form], entry)
        if kind is CronSchedule and (expression := meant(conf or "")):
            self._reader.add_problem(
                entry.line,
                f"expected a cron expression of 6 or 7 fields, of which the first are the seconds, "
                f"got: {conf!r}, did you mean {expression!r}?",
            )
            return {}
        if kind is UnixCronSchedule and (five := SHORTCUTS.get(str(conf).lower())):
            hint = f"expected five fields, got: {conf!r}, did you mean {five!r}?"
            self._reader.add_problem(entry.line, hint)
            return {}
        if conf is None:
            return {}
        beside = {key: self._reader.value(words, other) for key, other in more.items()}
        return {"schedule_kind": kind.kind, "schedule_value": kind.value_of(conf, beside)}

    def _script(self, entry: Entry | None) -> dict[str, Any]:
        if entry is None:
            return {}
        before = len(self._reader.wrong)
        values = read_group(self._reader, entry, "script")
        if len(self._reader.wrong) == before:
            for key in ("language", "source"):
                if not values.get(f"script_{key}"):
                    self._reader.add_problem(entry.line, f"missing field {key!r} of script")
        return values if len(self._reader.wrong) == before else {}


def _torn(node: yaml.Node) -> str:
    """Return a cron in quotes whose lack of them lets YAML end it at a comma; empty = it is whole.

    What is behind the comma, `{cron: 0 0 2 ? * MON,WED}`, is a key without a value.
    """
    parts = list[str]()
    for key, value in node.value if isinstance(node, yaml.MappingNode) and node.flow_style else ():
        if key.value in (CronSchedule.keyword, UnixCronSchedule.keyword) and _is_plain(value):
            parts = [f"{key.value}: {value.value}"]
        elif parts and is_null(value) and not value.value:
            parts.append(str(key.value))
        elif parts:
            break
    name, _, said = ",".join(parts).partition(": ")
    return f'{name}: "{said}"' if len(parts) > 1 else ""


def _is_plain(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style


def read_group(reader: YamlReader, entry: Entry, group: str) -> dict[str, Any]:
    """Return the fields of a group by name; empty if one of them is invalid."""
    before = len(reader.wrong)
    known = _GROUPS[group]
    values = _values(reader, reader.fields(entry.node, group, tuple(known)), known)
    if len(reader.wrong) == before:
        return values
    for problem in rules.group_problems(values):
        reader.add_broken_rule(entry.line, problem)
    return {}


def read_targets(reader: YamlReader, entry: Entry | None, group: str) -> dict[str, Any]:
    """Return the alarm targets or the webhook of a job or app; empty if they are invalid."""
    if entry is None or is_null(entry.node):
        return {}
    return read_group(reader, entry, group)


def _values(
    reader: YamlReader, entries: Mapping[str, Entry], known: Mapping[str, Field]
) -> dict[str, Any]:
    """Return the valid fields that are present, by their names."""
    values = {
        field.name: reader.value(_reader_of(field), entries[key])
        for key, field in known.items()
        if key in entries
    }
    return {name: value for name, value in values.items() if value is not None}


def _reader_of(field: Field) -> Read:
    if isinstance(field.kind, LimitNames):
        return limits
    return seconds if is_duration(field) else _READS[field.type]

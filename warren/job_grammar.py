"""One job of a job file: its fields, and the value that they make."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from scheduler import job_rules
from scheduler.alarms.policy import AlarmTargets
from scheduler.job_spec import JobSpec
from warren.yaml_reader import Read, YamlReader
from warren.yaml_tree import (
    Entry,
    instant,
    is_nothing,
    items,
    line_of,
    text,
    truth,
    whole_number,
)


def texts(node: yaml.Node, what: str) -> tuple[str, ...]:
    """Return a list of texts."""
    return tuple(text(item, f"each of {what}") for item in items(node, what))


#: Each field that is one value, and how it is read.
_VALUES: dict[str, Read] = {
    "name": text,
    "app": text,
    "author": text,
    "handler": text,
    "param": text,
    "route": text,
    "block": text,
    "misfire": text,
    "delivery": text,
    "concurrency": whole_number,
    "timeout": whole_number,
    "retries": whole_number,
    "retry_delay": whole_number,
    "fresh_process": truth,
    "children": texts,
    "enabled": truth,
}
_NEEDED = ("name", "app")
_ALARM: dict[str, Read] = {"emails": texts, "webhook": text, "style": text}
_SCRIPT: dict[str, Read] = {"language": text, "source": text, "remark": text}
#: Each way to say when, with the kind of schedule it means.
_SCHEDULES: dict[str, tuple[str, Read]] = {
    "cron": ("CRON", text),
    "every": ("FIX_RATE", whole_number),
    "delay": ("FIX_DELAY", whole_number),
    "at": ("AT", instant),
}
_WHEN = "one of {cron: …}, {every: …}, {delay: …}, {at: …} or none"
_KNOWN = (*_VALUES, "schedule", "script", "alarm")


class JobReader:
    """Reads jobs; what is wrong with them is said to `reader`."""

    def __init__(
        self, reader: YamlReader, *, now_ms: int, added_routes: Sequence[str] = ()
    ) -> None:
        self._reader = reader
        self._now_ms = now_ms
        self._added_routes = added_routes

    def read(self, node: yaml.Node) -> tuple[JobSpec, Mapping[str, int]] | None:
        """Return a job and the line of each of its fields; None when it is no mapping."""
        found = self._reader.fields(node, "a job", _KNOWN)
        if not isinstance(node, yaml.MappingNode):
            return None
        self._say_missing(node, found)
        values = {name: self._reader.value(read, found.get(name)) for name, read in _VALUES.items()}
        values |= self._schedule(found.get("schedule"))
        values["alarm"] = read_alarm(self._reader, found.get("alarm"))
        values |= self._script(found.get("script"))
        spec = _spec(values)
        self._check(spec, found, values)
        return spec, {name: entry.line for name, entry in found.items()}

    def _say_missing(self, node: yaml.Node, found: Mapping[str, Entry]) -> None:
        for name in _NEEDED:
            if name not in found:
                self._reader.say(line_of(node), f"missing field {name!r}")
        if "handler" not in found and "script" not in found:
            self._reader.say(line_of(node), "missing field 'handler' or 'script'")

    def _check(self, spec: JobSpec, found: Mapping[str, Entry], values: Mapping[str, Any]) -> None:
        for problem in job_rules.problems(
            spec, now_ms=self._now_ms, added_routes=self._added_routes
        ):
            field = "schedule" if problem.field == "timezone" else problem.field
            # What is missing or could not be read has been said, and its default is right.
            if field in found and (field not in _VALUES or values[field] is not None):
                self._reader.say(found[field].line, problem.text)

    def _schedule(self, entry: Entry | None) -> dict[str, Any]:
        if entry is None or is_nothing(entry.node):
            return {}
        if isinstance(entry.node, yaml.ScalarNode):
            if entry.node.value != "none":
                said = entry.node.value[:100]
                self._reader.say(entry.line, f"unknown schedule {said!r}; expected {_WHEN}")
            return {}
        before = len(self._reader.wrong)
        found = self._reader.fields(entry.node, "schedule", (*_SCHEDULES, "timezone"))
        zone = self._reader.value(text, found.pop("timezone", None))
        if len(found) == 1:
            return {"timezone": zone} | self._when(*found.values())
        if len(self._reader.wrong) == before:
            got = " and ".join(map(repr, found)) or "none of these"
            self._reader.say(entry.line, f"expected schedule to be {_WHEN}, got: {got}")
        return {}

    def _when(self, entry: Entry) -> dict[str, Any]:
        kind, read = _SCHEDULES[entry.name]
        conf = self._reader.value(read, entry)
        return {} if conf is None else {"schedule_kind": kind, "schedule_conf": str(conf)}

    def _script(self, entry: Entry | None) -> dict[str, Any]:
        if entry is None:
            return {}
        before = len(self._reader.wrong)
        found = self._reader.fields(entry.node, "script", tuple(_SCRIPT))
        values = {
            f"script_{name}": self._reader.value(read, found.get(name))
            for name, read in _SCRIPT.items()
        }
        if len(self._reader.wrong) == before:
            for name in ("language", "source"):
                if not values[f"script_{name}"]:
                    self._reader.say(entry.line, f"missing field {name!r} of script")
        return values if len(self._reader.wrong) == before else {}


def read_alarm(reader: YamlReader, entry: Entry | None) -> AlarmTargets | None:
    """Return whom a job or an app wants told; None when that is not said, or not right."""
    if entry is None or is_nothing(entry.node):
        return None
    before = len(reader.wrong)
    found = reader.fields(entry.node, "alarm", tuple(_ALARM))
    values = {name: reader.value(read, found.get(name)) for name, read in _ALARM.items()}
    if len(reader.wrong) > before:
        return None
    return AlarmTargets(**{name: value for name, value in values.items() if value is not None})


def _spec(values: Mapping[str, Any]) -> JobSpec:
    given = {name: value for name, value in values.items() if value is not None}
    return JobSpec(**({"name": "", "app": ""} | given))

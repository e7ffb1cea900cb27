"""Reads the calendars of job files."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import yaml

from warren.errors import InvalidEntry, Line
from warren.jobfile.yaml_reader import YamlReader, is_null, items, shown, text
from warren.jobfile.yaml_tree import line_of
from warren.scheduler.calendars.calendar_spec import OVER, CalendarSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.run_date import parse_date

#: The ending of files that calendars name as their sources.
ICAL = ".ics"
_FIELDS = ("name", "from", "weekend", "days", "until")


class CalendarReader:
    """Reads calendars; adds problems to `reader`. `files` are the texts of `.ics` files by name.

    `over` has a problem for each calendar of which all that it knows has passed.
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
        fields = self._reader.fields(node, "a calendar", _FIELDS)
        if not isinstance(node, yaml.MappingNode):
            return
        line = line_of(node)
        if "name" not in fields:
            self._reader.add_problem(line, "missing field 'name'")
            return
        values: dict[str, Any] = {
            key: self._reader.value(_READS[key], entry)
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
            try:
                spec.resolved(today)
            except Problem as problem:
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
    for key, value in node.value:
        day = _date(key, "a day")
        if day in days:
            raise InvalidEntry(line_of(key), f"duplicate day {day}")
        if not isinstance(value, yaml.ScalarNode):
            words = f"expected {day} to be work or off, got: {shown(value)}"
            raise InvalidEntry(line_of(value), words)
        days[day] = str(value.value).strip()
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
    return tuple(text(item, f"each of {what}").upper() for item in items(node, what))


_READS: Mapping[str, Any] = {
    "name": text,
    "from": text,
    "weekend": _weekend,
    "days": _days,
    "until": _date,
}

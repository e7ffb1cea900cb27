"""Reads the limits of a job file."""

from collections.abc import Mapping

import yaml

from warren.errors import Line
from warren.jobfile.yaml_reader import Entry, Read, YamlReader, seconds, text, whole_number
from warren.jobfile.yaml_tree import line_of
from warren.scheduler.limits import specs as limit_specs
from warren.scheduler.limits.specs import LimitSpec

_READS: Mapping[str, Read] = {
    "name": text,
    "at_once": whole_number,
    "rate": whole_number,
    "per": seconds,
}


class LimitReader:
    """Reads limits; adds problems to `reader`. One in a later file replaces an earlier one."""

    def __init__(self, reader: YamlReader) -> None:
        self._reader = reader
        self.limits: dict[str, LimitSpec] = {}
        #: The lines of each limit's fields.
        self.lines: dict[str, Mapping[str, Line]] = {}

    def read(self, node: yaml.Node) -> None:
        """Read one limit."""
        before = len(self._reader.wrong)
        fields = self._reader.fields(node, "a limit", tuple(_READS))
        if not isinstance(node, yaml.MappingNode):
            return
        if "name" not in fields:
            self._reader.add_problem(line_of(node), "missing field 'name'")
        values = {key: self._reader.value(read, fields.get(key)) for key, read in _READS.items()}
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

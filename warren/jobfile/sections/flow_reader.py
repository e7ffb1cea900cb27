"""Reads the `flow` of a job: its nodes become plain values, and each refusal gets its line."""

from collections.abc import Mapping
from typing import Any

import yaml

from warren.errors import InvalidEntry, Line
from warren.jobfile.yaml_reader import (
    Read,
    boolean,
    entries,
    is_null,
    items,
    scalar_kind,
    share,
    whole_number,
)
from warren.jobfile.yaml_tree import line_of
from warren.scheduler.flows.graph import Graph, parse
from warren.scheduler.problems import Refused

_SCALARS: Mapping[str, Read] = {"bool": boolean, "int": whole_number, "float": share}


def flow(node: yaml.Node, what: str) -> Graph:
    """Return the graph of a mapping of nodes.

    Raises:
        InvalidEntry: with the first thing that is wrong, and its line.

    """
    try:
        return parse(plain(node, what))
    except Refused as refused:
        problem = refused.problems[0]
        line = line_at(node, problem.field)
        raise InvalidEntry(line, str(problem), problem.code.name.lower()) from refused


def plain(node: yaml.Node, what: str) -> Any:
    """Return the value of a node as JSON would have it."""
    if isinstance(node, yaml.MappingNode):
        values = {}
        for entry in entries(node, what):
            if isinstance(entry, InvalidEntry):
                raise entry
            values[entry.name] = plain(entry.node, entry.name)
        return values
    if isinstance(node, yaml.SequenceNode):
        return [plain(item, what) for item in items(node, what)]
    if is_null(node):
        return None
    read = _SCALARS.get(scalar_kind(node))
    return read(node, what) if read else str(node.value)


def line_at(node: yaml.Node, field: str) -> Line:
    """Return the line of the deepest key that a field such as `flow/load/after` names."""
    line = line_of(node)
    for part in field.split("/")[1:]:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        key, node = next(((key, value) for key, value in pairs if key.value == part), (None, node))
        line = line if key is None else line_of(key)
    return line

"""The graph of a flow as people type it in a form: YAML, which includes JSON."""

from collections.abc import Mapping
from typing import Any

import yaml

from warren.admin_web.services import FlowSource
from warren.errors import InvalidEntry
from warren.jobfile.yaml_reader import entries
from warren.jobfile.yaml_tree import line_of, tree_of
from warren.scheduler.flows.graph_parser import FIELD

_NAME = "flow"
#: Longer lines are wrapped.
_WIDTH = 120


def read_flow_text(text: str) -> FlowSource:
    """Return the values of a text, with the line of each by its place, such as `flow/load/after`.

    What is no YAML, or has a key twice, is a problem with its line; then there are no values.
    """
    lines: dict[str, int] = {}
    wrong: list[InvalidEntry] = []
    try:
        values = _values(tree_of(text, _NAME), FIELD, lines, wrong)
    except InvalidEntry as fault:
        wrong.append(fault)
    problems = [(int(fault.line), fault.text) for fault in wrong]
    return FlowSource(values=None if problems else values, lines=lines, problems=problems)


def write_flow_text(flow: Mapping[str, Any]) -> str:
    """Return a graph as YAML, a line for each node if it fits."""
    return str(
        yaml.safe_dump(
            dict(flow), sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=None
        )
    )


def _values(node: yaml.Node, place: str, lines: dict[str, int], wrong: list[InvalidEntry]) -> Any:
    """Return what a node stands for, as JSON knows it; note the lines of its parts."""
    lines.setdefault(place, int(line_of(node)))
    if isinstance(node, yaml.MappingNode):
        values = {}
        for entry in entries(node, place):
            if isinstance(entry, InvalidEntry):
                wrong.append(entry)
                continue
            part = f"{place}/{entry.name}"
            lines[part] = int(entry.line)
            values[entry.name] = _values(entry.node, part, lines, wrong)
        return values
    if isinstance(node, yaml.SequenceNode):
        return [_values(item, f"{place}/-", lines, wrong) for item in node.value]
    value = yaml.SafeLoader("").construct_document(node)
    return value if isinstance(value, str | int | float | bool | None) else str(node.value)

"""The graph of a flow as people type it in a form: what a job file has below `flow`."""

from collections.abc import Mapping
from typing import Any

from warren.admin_web.services import FlowSource
from warren.errors import InvalidEntry
from warren.jobfile.export import braces, scalar
from warren.jobfile.sections.flow_reader import line_at, plain
from warren.jobfile.yaml_tree import tree_of

_NAME = "flow"


def read_flow_text(text: str) -> FlowSource:
    """Return what a text says; what is no YAML, or has a key twice, is a problem with its line."""
    try:
        node = tree_of(text, _NAME)
        values = plain(node, _NAME)
    except InvalidEntry as fault:
        return FlowSource(values=None, line=lambda _field: 1, problem=(fault.line, fault.text))
    return FlowSource(values=values, line=lambda field: line_at(node, field))


def write_flow_text(flow: Mapping[str, Any]) -> str:
    """Return a graph as YAML with a line for each node."""
    return "".join(f"{scalar(name)}: {braces(node)}\n" for name, node in flow.items())

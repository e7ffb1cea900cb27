"""What the expressions of a flow's nodes name and give: results, conditions, elements. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from warren.broker.messages import result_value
from warren.scheduler.expressions.functions import Fault, Value, shown, text
from warren.scheduler.expressions.language import read_expression, read_template
from warren.scheduler.flows.graph import MAX_SHARDS, Node

#: The longest result of a node that is kept for its flow, in bytes of JSON.
RESULT_BYTES = 16_384
#: The longest params of all runs of a node with `each` together, in bytes of UTF-8.
MAX_PARAMS_BYTES = 4_000_000


class NodeValue(NamedTuple):
    """How a node ended; `result` is JSON, None if there is none.

    `reason` says why it failed or was bypassed, or, of a success, why its result was not kept.
    """

    outcome: str
    result: str | None
    reason: str | None


class Names(dict[str, Value]):
    """Names by value; a result that was not kept cannot be read."""

    def __init__(self, node: str, value: NodeValue) -> None:
        result = result_value(value.result)
        super().__init__(outcome=value.outcome, result=result, reason=value.reason or "")
        self._node, self._value = node, value

    def __getitem__(self, name: str) -> Value:
        """Return a part.

        Raises:
            Fault: it is the result, and that was too long to be kept.

        """
        value = self._value
        if name == "result" and value.result is None and is_too_long(value):
            raise Fault(f"the result of {self._node} cannot be used: {value.reason}")
        return super().__getitem__(name)


def is_too_long(value: NodeValue) -> bool:
    """Whether a node succeeded and its result was not kept."""
    return value.outcome == "SUCCEEDED" and value.result is None and bool(value.reason)


def is_true(node: Node, names: Mapping[str, Value]) -> bool:
    """Return the value of a node's condition; a node without one is true.

    Raises:
        Fault: the condition has no value, or is neither true nor false.

    """
    if not node.condition:
        return True
    value = read_expression(node.condition)(names)
    if not isinstance(value, bool):
        raise Fault(f"expected if to be true or false, got: {shown(value)}")
    return value


def elements(node: Node, names: Mapping[str, Value]) -> list[Value]:
    """Return the elements for each of which a node has a run.

    Raises:
        Fault: `each` has no value, is not a list, or has too many elements.

    """
    value = read_expression(node.each)(names)
    if not isinstance(value, list):
        raise Fault(f"expected each to be a list, got: {shown(value)}")
    if len(value) > MAX_SHARDS:
        raise Fault(f"expected each to have up to {MAX_SHARDS:,} elements, got: {len(value):,}")
    return value


def params(node: Node, names: Mapping[str, Value]) -> list[str]:
    """Return the params of the runs of a node with `each`.

    Raises:
        Fault: as `elements` and `rendered` say, or they are too long.

    """
    made: list[str] = []
    left = MAX_PARAMS_BYTES
    for index, item in enumerate(elements(node, names)):
        own = {**names, "item": item, "index": index}
        made.append(rendered(node.param_template, own) if node.param_template else text(item))
        left -= len(made[-1].encode())
        if left < 0:
            raise Fault(f"the params of its runs are longer than {MAX_PARAMS_BYTES:,} bytes in all")
    return made


def rendered(template: str, names: Mapping[str, Value]) -> str:
    """Return the param that a node's template makes.

    Raises:
        Fault: one of its expressions has no value.

    """
    return read_template(template).render(names)


def joined_results(results: Iterable[str | None]) -> str:
    """Return the results of a node's runs, in JSON, as a JSON list."""
    return f"[{','.join(result or 'null' for result in results)}]"


def kept_result(result: str | None) -> tuple[str | None, int]:
    """Return the part of a result that is kept, and its size in bytes if it is too long."""
    if not result:
        return None, 0
    size = len(result.encode(errors="replace"))
    return (None, size) if size > RESULT_BYTES else (result, 0)


def parsed(names: Mapping[str, Any], results: Mapping[str, NodeValue]) -> dict[str, Value]:
    """Return all that an expression may name: what its run is about, and the nodes before it."""
    return {**names, **{node: Names(node, value) for node, value in results.items()}}

"""The judge of flows: derives what happens next from nodes' outcomes and values.

Pure functions. An edge becomes true or false once, when the node that it leaves has ended, so the
order in which nodes end does not matter. Engine, previews and audit all call this.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from warren.broker.messages import result_value
from warren.resources.runs import Condition, Join
from warren.scheduler.expressions import Fault, Value, read_expression, read_template, shown, text
from warren.scheduler.flows.graph import MAX_SHARDS, Graph, Node


class Outcome(StrEnum):
    """How a node ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    #: All its runs said that there was nothing to do: neither a success nor a failure.
    SKIPPED = "SKIPPED"
    #: It can no longer run, or its condition was not true.
    BYPASSED = "BYPASSED"


#: The nodes of a flow that have begun, and their outcomes; None = it runs. Others are absent.
States = Mapping[str, Outcome | None]


@dataclass(frozen=True, slots=True)
class FalseEdge:
    """Why a node can no longer run: the node before it, how that ended, and what was required.

    This is the first of its edges that are false, as they are written.
    """

    before: str
    outcome: Outcome
    needed: Condition


@dataclass(frozen=True, slots=True)
class FlowEnd:
    """How a flow ended; `failed` are the nodes whose failures nothing handled."""

    outcome: Outcome
    failed: tuple[str, ...] = ()


@dataclass(slots=True)
class Verdict:
    """What follows for a flow.

    Attributes:
        fire: nodes that run now.
        bypassed: nodes that are BYPASSED, with the reason; None = the flow was stopped.
        at_once: nodes that `begin` has ended without a run.
        end: how the flow ended; None = a node is open.

    """

    fire: list[str] = field(default_factory=list)
    bypassed: dict[str, FalseEdge | None] = field(default_factory=dict)
    at_once: dict[str, Outcome] = field(default_factory=dict)
    end: FlowEnd | None = None


def judge(
    graph: Graph,
    states: States,
    begin: Callable[[Node], Outcome | None],
    *,
    bypass: Callable[[str, FalseEdge | None], None] = lambda _name, _false: None,
    forced: Collection[str] = (),
    stopped: bool = False,
) -> Verdict:
    """Return what follows from what is known of a flow's nodes.

    Args:
        graph: the flow.
        states: the nodes that run or have ended.
        begin: called for each node whose edges let it run, when all nodes that it may name
            have ended; returns None if it runs, or how it ended at once: by its condition, an
            error or an empty list.
        bypass: called for each node that is bypassed, before any node begins that may name it; also
            for those that were, because another of their edges may be the first that is false now.
        forced: the nodes that run however those before them ended.
        stopped: whether no more nodes may run.

    """
    verdict = Verdict()
    known = dict(states)
    for name in graph.order:
        was_bypassed = known.get(name) is Outcome.BYPASSED and name not in forced
        if name in known and not was_bypassed:
            continue
        node = graph.nodes[name]
        edges = list(_edges(node, known))
        false = None if stopped else _false_edge(node, edges, known)
        if was_bypassed:
            if false:
                bypass(name, false)
        elif not stopped and (name in forced or _runs(node.join, edges)):
            known[name] = outcome = begin(node)
            if outcome is None:
                verdict.fire.append(name)
            else:
                verdict.at_once[name] = outcome
        elif stopped or false:
            verdict.bypassed[name] = false
            known[name] = Outcome.BYPASSED
            bypass(name, false)
    over = {name: state for name in graph.nodes if (state := known.get(name)) is not None}
    if len(over) == len(graph.nodes):
        verdict.end = _flow_end(graph, over)
    return verdict


def is_true(condition: Condition, outcome: Outcome) -> bool:
    """Whether an edge from a node that has ended is true."""
    if condition is Condition.ALWAYS:
        return True
    needed = Outcome.SUCCEEDED if condition is Condition.SUCCESS else Outcome.FAILED
    return outcome is needed


def unhandled(graph: Graph, outcomes: Mapping[str, Outcome]) -> tuple[str, ...]:
    """Return the nodes that failed and after whose failure no node succeeded."""
    return tuple(
        name
        for name in graph.nodes
        if outcomes.get(name) is Outcome.FAILED and not _is_handled(graph, name, outcomes)
    )


def _is_handled(graph: Graph, name: str, outcomes: Mapping[str, Outcome]) -> bool:
    return any(
        graph.nodes[follower].after[name] is Condition.FAILURE
        and outcomes.get(follower) is Outcome.SUCCEEDED
        for follower in graph.followers[name]
    )


def _edges(node: Node, known: States) -> Iterator[bool | None]:
    """Yield for each edge to a node whether it is true; None = not known yet."""
    for before, condition in node.after.items():
        outcome = known.get(before)
        yield None if outcome is None else is_true(condition, outcome)


def _runs(join: Join, edges: list[bool | None]) -> bool:
    if join is Join.ANY and edges:
        return True in edges
    return all(edges)


def _false_edge(node: Node, edges: list[bool | None], known: States) -> FalseEdge | None:
    """Return an edge that keeps a node from ever running; None if it still can."""
    if False not in edges or (node.join is Join.ANY and edges.count(False) < len(edges)):
        return None
    before, condition = list(node.after.items())[edges.index(False)]
    outcome = known[before]
    return None if outcome is None else FalseEdge(before, outcome, condition)


def _flow_end(graph: Graph, outcomes: Mapping[str, Outcome]) -> FlowEnd:
    if failed := unhandled(graph, outcomes):
        return FlowEnd(Outcome.FAILED, failed)
    has_success = Outcome.SUCCEEDED in outcomes.values()
    return FlowEnd(Outcome.SUCCEEDED if has_success else Outcome.SKIPPED)


class FlowPart(StrEnum):
    """What is repeated of a flow."""

    #: What failed and was not handled, what was stopped, and all that runs after it.
    FAILED = "failed"
    #: One node, and all that runs after it.
    FROM = "from"
    #: One node alone.
    ONLY = "only"


def repeated(
    graph: Graph,
    outcomes: Mapping[str, Outcome],
    part: FlowPart,
    node: str = "",
    *,
    declined: Collection[str] = (),
) -> set[str]:
    """Return the nodes of a flow that run again; all others are kept.

    Args:
        graph: the graph that runs now.
        outcomes: how the nodes ended in the run that is repeated.
        part: what is repeated.
        node: the node of FROM and ONLY.
        declined: the nodes that were bypassed because their conditions were false.

    """
    if part is FlowPart.ONLY:
        return {node}
    if part is FlowPart.FROM:
        return graph.descendants({node})
    return graph.descendants(
        {
            *unhandled(graph, outcomes),
            *(
                name
                for name in graph.nodes
                if name not in declined and _was_cut(graph, name, outcomes)
            ),
        }
    )


def _was_cut(graph: Graph, name: str, outcomes: Mapping[str, Outcome]) -> bool:
    """Whether a node did not run although its edges were true, or is new in the graph."""
    if name not in outcomes:
        return True
    if outcomes[name] is not Outcome.BYPASSED:
        return False
    node = graph.nodes[name]
    edges = [
        before in outcomes and is_true(condition, outcomes[before])
        for before, condition in node.after.items()
    ]
    return any(edges) if node.join is Join.ANY and edges else all(edges)


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


def condition_holds(node: Node, names: Mapping[str, Value]) -> bool:
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

"""Which nodes of a flow run again when it is repeated, and which are kept. Pure."""

from collections.abc import Collection, Mapping
from enum import StrEnum

from warren.scheduler.flows.graph import Graph, Join
from warren.scheduler.flows.judge import Outcome, is_true, unhandled


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
        outcomes: what became of the nodes in the run that is repeated.
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
    """Whether a node did not run although its edges let it, or is new in the graph."""
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

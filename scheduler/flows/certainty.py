"""Which nodes of a flow are certainly over when a node begins, so that it may name their results.

With `join: any` a node may begin while others before it still run. What such a node would read
depended on the order of ends, so it may not name them.
"""

from collections.abc import Mapping

from warren.scheduler.flows.graph import Condition, Graph, Join


def certainly_over(graph: Graph) -> Mapping[str, tuple[str, ...]]:
    """Return for each node those that are over when it begins, in the order of the flow.

    Sets of nodes are the bits of numbers, so that a flow with MAX_NODES takes milliseconds.
    """
    order = graph.order
    bit = {name: 1 << number for number, name in enumerate(order)}
    everything = (1 << len(order)) - 1
    #: What is over when a node begins, and when it is bypassed; `everything` = it never is.
    begun: dict[str, int] = {}
    bypassed: dict[str, int] = {}
    for name in order:
        node = graph.nodes[name]
        if_true, if_false = [], []
        for before, condition in node.after.items():
            ended = bit[before] | (begun[before] & bypassed[before])
            ran = bit[before] | begun[before]
            if_true.append(ended if condition is Condition.ALWAYS else ran)
            if_false.append(everything if condition is Condition.ALWAYS else ended)
        needs_all = node.join is Join.ALL or not node.after
        begun[name] = _union(if_true) if needs_all else _common(if_true, everything)
        bypassed[name] = _common(if_false, everything) if needs_all else _union(if_false)
        if node.condition:
            bypassed[name] &= begun[name]
    return {name: tuple(other for other in order if begun[name] & bit[other]) for name in order}


def _union(sets: list[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union


def _common(sets: list[int], everything: int) -> int:
    common = everything
    for each in sets:
        common &= each
    return common

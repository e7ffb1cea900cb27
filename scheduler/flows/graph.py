"""The graph of a flow: its nodes, what each runs after, and how it is stored.

    extract: {job: extract}
    load:    {job: load, after: extract, param_template: "{{ extract.result.rows }}"}
    mend:    {job: mend, after: {load: failure}}
    report:  {job: report, after: [load, mend], join: any, if: "{{ load.result.rows > 0 }}"}

`graph_parser` reads it.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

#: The most nodes of a flow, and the most runs of a node with `each`.
MAX_NODES, MAX_SHARDS = 1_000, 1_000


class Condition(StrEnum):
    """What must become of a node for an edge that leaves it to be true."""

    SUCCESS = "success"
    FAILURE = "failure"
    ALWAYS = "always"


class Join(StrEnum):
    """How many of the edges to a node must be true."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetry:
    """What a node says about retries instead of its job; None = as the job says.

    Attributes:
        times: how many retries its runs have.
        delay: the wait before each, in seconds; with an exponential backoff, before the first.
        backoff: `fixed` or `exponential`.
        most: the longest wait of a backoff, in seconds.
        jitter: the share of each wait that is left to chance.

    """

    times: int | None = None
    delay: int | None = None
    backoff: str | None = None
    most: int | None = None
    jitter: float | None = None


NO_RETRY = NodeRetry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a flow.

    Attributes:
        job: NAME of a job of the flow's app, or APP/NAME.
        after: the nodes that it runs after, and what must become of each.
        condition: an expression that must be true, too.
        each: an expression that gives a list; the node has a run for each of its elements.
        param: None = as the job says.
        param_template: makes the param of its runs; instead of `param`.

    """

    name: str
    job: str
    after: Mapping[str, Condition] = field(default_factory=dict)
    join: Join = Join.ALL
    condition: str = ""
    each: str = ""
    param: str | None = None
    param_template: str = ""
    retry: NodeRetry = NO_RETRY

    def to_mapping(self) -> dict[str, Any]:
        """Return the node as a job file has it, in the shortest form."""
        retry = {name: getattr(self.retry, name) for name in self.retry.__slots__}
        times = retry.pop("times")
        said: dict[str, Any] = {
            "job": self.job,
            "after": _short_after(self.after),
            "join": None if self.join is Join.ALL else self.join.value,
            "if": self.condition or None,
            "each": self.each or None,
            "param": self.param,
            "param_template": self.param_template or None,
            "retries": times,
            "retry": {name: value for name, value in retry.items() if value is not None} or None,
        }
        return {key: value for key, value in said.items() if value is not None}


@dataclass(frozen=True)
class Graph:
    """The nodes of a flow by name, in the order in which they are written; without a circle."""

    nodes: Mapping[str, Node]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of the nodes, each behind all that it runs after."""
        return tuple(ordered(self.nodes))

    @cached_property
    def followers(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that run after each node."""
        followers: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for before in node.after:
                followers[before].append(node.name)
        return {name: tuple(names) for name, names in followers.items()}

    def is_handled(self, name: str) -> bool:
        """Whether a node runs after the failure of a node."""
        return any(
            self.nodes[follower].after[name] is Condition.FAILURE
            for follower in self.followers[name]
        )

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs of its nodes, each once, as NAME of the flow's app or APP/NAME."""
        return tuple(dict.fromkeys(node.job for node in self.nodes.values()))

    def with_jobs(self, job: Callable[[str], str]) -> "Graph":
        """Return the same graph with another name for each job."""
        return Graph({name: replace(node, job=job(node.job)) for name, node in self.nodes.items()})

    def to_mapping(self) -> dict[str, Any]:
        """Return the graph as a job file has it."""
        return {name: node.to_mapping() for name, node in self.nodes.items()}

    def to_json(self) -> str:
        """Return the canonical form that is stored; equal graphs have the same."""
        return json.dumps(self.to_mapping(), ensure_ascii=False, separators=(",", ":"))

    def descendants(self, names: Collection[str]) -> set[str]:
        """Return these nodes and all that run after them."""
        reached = set(names)
        for name in self.order:
            if not reached.isdisjoint(self.nodes[name].after):
                reached.add(name)
        return reached


def ordered(nodes: Mapping[str, Node]) -> list[str]:
    """Return the names of nodes, each behind all that it runs after; without those in circles."""
    left = {name: sum(before in nodes for before in node.after) for name, node in nodes.items()}
    followers: dict[str, list[str]] = {name: [] for name in nodes}
    for node in nodes.values():
        for before in node.after:
            if before in followers:
                followers[before].append(node.name)
    order = [name for name, count in left.items() if not count]
    for name in order:
        for follower in followers[name]:
            left[follower] -= 1
            if not left[follower]:
                order.append(follower)
    return order


def circle_in(nodes: Mapping[str, Node]) -> list[str]:
    """Return the path of a circle, its first node again at the end; empty without one."""
    left = set(nodes) - set(ordered(nodes))
    # Each node that is left follows another one: walk backwards until a node repeats.
    path: list[str] = []
    name = next((name for name in nodes if name in left), "")
    while name and name not in path:
        path.append(name)
        name = next(before for before in nodes[name].after if before in left)
    return [name, *reversed(path[path.index(name) :])] if path else []


def _short_after(after: Mapping[str, Condition]) -> Any:
    if any(condition is not Condition.SUCCESS for condition in after.values()):
        return {name: condition.value for name, condition in after.items()}
    return next(iter(after)) if len(after) == 1 else list(after) or None


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

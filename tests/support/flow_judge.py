"""Judges flows by docs/flows.md alone: what becomes of each node, and how often it runs.

Knows nothing of Warren's own judge. It decides the nodes from first to last, each once, from what
its page says; so whatever Warren makes of the order of ends, of deaths and of repetitions must
come to the same.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

SUCCEEDED, FAILED, SKIPPED, BYPASSED = "SUCCEEDED", "FAILED", "SKIPPED", "BYPASSED"


class NoValue(Exception):
    """An expression has no value."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a node: `params` are those of the first attempts of its runs, by shard.

    `own_runs` counts the runs in this run of the flow, so it is 0 of a node that was kept.
    `is_unwanted`: its `if` was false.
    """

    outcome: str
    result: Any = None
    own_runs: int = 0
    params: tuple[Any, ...] = ()
    is_kept: bool = False
    is_unwanted: bool = field(default=False, compare=False)


Known: TypeAlias = Mapping[str, Decided]


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression as it is written, and its value by hand; `item` is the element of `each`."""

    text: str
    value: Callable[[Known, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a flow, as a job file says it."""

    name: str
    job: str = "a"
    after: Mapping[str, str] = field(default_factory=dict)
    join: str = "all"
    condition: Expression | None = None
    each: Expression | None = None
    template: Expression | None = None
    retries: int = 0

    def said(self) -> dict[str, Any]:
        """Return the node as it stands in a job file."""
        said: dict[str, Any] = {"job": self.job, "after": dict(self.after), "join": self.join}
        said |= {"retries": self.retries, "retry": {"delay": 0}}
        for word, given in (("if", self.condition), ("each", self.each)):
            said |= {word: given.text} if given else {}
        return said | ({"param_template": self.template.text} if self.template else {})


#: The nodes by name, each behind all those that it runs after.
Flow: TypeAlias = Mapping[str, Node]


@dataclass(frozen=True, slots=True)
class Fate:
    """How one attempt of a run ends."""

    status: str
    result: Any = None


#: How an attempt ends, by node, shard and attempt.
Fates: TypeAlias = Callable[[str, int, int], Fate]


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of one run of a flow."""

    nodes: Known
    status: str
    #: Those that were stopped, and those that could not begin any more because of that.
    stopped: frozenset[str] = frozenset()


NOTHING: Known = {}


def judge(flow: Flow, fates: Fates, kept: Known = NOTHING, begin: str | None = None) -> Judged:
    """Return what becomes of a run; `begin`: this node begins whatever is before it."""
    nodes = dict(kept)
    for node in flow.values():
        if node.name not in nodes:
            nodes[node.name] = _decided(node, nodes, fates, is_asked_for=node.name == begin)
    return Judged(nodes, _end(flow, nodes))


def stop(judged: Judged, status: str, begun: set[str], over: set[str]) -> Judged:
    """Return what becomes of a run that is stopped when these nodes have begun and are over.

    `status`: KILLED or TIMED_OUT.
    """
    left = {name: Decided(FAILED if name in begun else BYPASSED) for name in judged.nodes}
    nodes = left | {name: judged.nodes[name] for name in over}
    return Judged(nodes, status, frozenset(left.keys() - over))


def to_repeat(flow: Flow, judged: Judged) -> set[str]:
    """Return from where a repetition begins: what failed unhandled, and what could run now."""
    could_run = {
        name
        for name, one in judged.nodes.items()
        if one.outcome == BYPASSED and not one.is_unwanted and _may_run(flow[name], judged.nodes)
    }
    return _failures(flow, judged.nodes) | could_run


def _failures(flow: Flow, nodes: Known) -> set[str]:
    """Return the nodes that failed, and that no node after their failure has handled."""
    return {
        name
        for name, one in nodes.items()
        if one.outcome == FAILED
        and not any(
            after.after.get(name) == "failure" and nodes[after.name].outcome == SUCCEEDED
            for after in flow.values()
        )
    }


def kept_from(flow: Flow, judged: Judged, again: set[str]) -> Known:
    """Return what stays if these nodes run again, with all that runs after them."""
    moved = set(again)
    for node in flow.values():
        if moved & node.after.keys():
            moved.add(node.name)
    return kept_but(judged, moved)


def kept_but(judged: Judged, again: set[str]) -> Known:
    """Return what stays if these nodes alone run again."""
    return {
        name: replace(one, is_kept=True, own_runs=0, params=())
        for name, one in judged.nodes.items()
        if name not in again
    }


def _end(flow: Flow, nodes: Known) -> str:
    if _failures(flow, nodes):
        return FAILED
    has_success = any(one.outcome == SUCCEEDED for one in nodes.values())
    return SUCCEEDED if has_success else SKIPPED


def _decided(node: Node, nodes: Known, fates: Fates, *, is_asked_for: bool) -> Decided:
    if not is_asked_for and not _may_run(node, nodes):
        return Decided(BYPASSED)
    try:
        if not _is_wanted(node, nodes):
            return Decided(BYPASSED, is_unwanted=True)
        params = _params(node, nodes)
    except NoValue:
        return Decided(FAILED, own_runs=1, params=(None,))
    return _ran(node, params, fates)


def _is_wanted(node: Node, nodes: Known) -> bool:
    told = True if node.condition is None else node.condition.value(nodes, None)
    if not isinstance(told, bool):
        raise NoValue
    return told


def _may_run(node: Node, nodes: Known) -> bool:
    edges = [_is_true(nodes[before].outcome, what) for before, what in node.after.items()]
    return not edges or (all(edges) if node.join == "all" else any(edges))


def _is_true(outcome: str, needed: str) -> bool:
    return needed == "always" or outcome == {"success": SUCCEEDED, "failure": FAILED}[needed]


def _params(node: Node, nodes: Known) -> Sequence[Any]:
    items: Any = [None] if node.each is None else node.each.value(nodes, None)
    if not isinstance(items, list):
        raise NoValue
    if node.template is None:
        return items
    return [json.loads(node.template.value(nodes, item)) for item in items]


def _ran(node: Node, params: Sequence[Any], fates: Fates) -> Decided:
    runs, ends = 0, []
    for shard in range(len(params)):
        for attempt in range(node.retries + 1):
            runs += 1
            end = fates(node.name, shard, attempt)
            if end.status != FAILED:
                break
        ends.append(end)
    statuses = {end.status for end in ends}
    params = tuple(params)
    if FAILED in statuses:
        return Decided(FAILED, None, runs, params)
    if statuses == {SKIPPED}:
        return Decided(SKIPPED, None, runs, params)
    results = [end.result for end in ends]
    return Decided(SUCCEEDED, results if node.each else results[0], runs, params)

"""The judge decides the same whatever the order in which nodes end; each node is decided once."""

import random
from collections.abc import Mapping

import pytest

from warren.resources.runs import Condition, Join
from warren.scheduler.flows.graph import Graph, Node, certainly_over, parse
from warren.scheduler.flows.judge import FalseEdge, FlowEnd, Outcome, Verdict, judge, unhandled

SUCCEEDED, FAILED = Outcome.SUCCEEDED, Outcome.FAILED
SKIPPED, BYPASSED = Outcome.SKIPPED, Outcome.BYPASSED


class Played:
    """A flow whose nodes end as `fates` says, in a random order; None of `at_once` begin a run."""

    def __init__(
        self,
        graph: Graph,
        fates: Mapping[str, Outcome],
        at_once: Mapping[str, Outcome],
        chance: random.Random,
    ) -> None:
        self.graph, self.fates, self.chance = graph, fates, chance
        self.at_once = at_once
        self.states: dict[str, Outcome | None] = {}
        self.begun: list[str] = []
        self.over = certainly_over(graph)
        self.end: FlowEnd | None = None
        self._now: dict[str, Outcome | None] = {}

    def play(self) -> "Played":
        self._judge()
        while running := [name for name, state in self.states.items() if state is None]:
            for name in self.chance.sample(running, self.chance.randint(1, len(running))):
                self.states[name] = self.fates[name]
            assert self.end is None
            self._judge()
        return self

    def _begin(self, node: Node) -> Outcome | None:
        assert node.name not in self.begun
        self.begun.append(node.name)
        return self.at_once.get(node.name)

    def _judge(self) -> None:
        verdict = judge(self.graph, self.states, self._begin)
        ended = {**verdict.at_once, **dict.fromkeys(verdict.bypassed, BYPASSED)}
        assert not (ended.keys() | set(verdict.fire)) & self.states.keys()
        self.states |= ended | dict.fromkeys(verdict.fire)
        for name in verdict.fire:
            assert all(self.states[before] for before in self.over[name])
        self.end = verdict.end


def random_graph(chance: random.Random) -> Graph:
    names = [f"n{number}" for number in range(chance.randint(1, 12))]
    nodes = {}
    for number, name in enumerate(names):
        before = chance.sample(names[:number], chance.randint(0, min(number, 3)))
        after = {other: chance.choice(list(Condition)) for other in before}
        condition = "true" if chance.random() < 0.2 else ""
        join = chance.choice(list(Join))
        nodes[name] = Node(name=name, job="a", after=after, join=join, condition=condition)
    shuffled = chance.sample(names, len(names))
    return Graph({name: nodes[name] for name in shuffled})


@pytest.mark.parametrize("seed", range(150))
def test_any_order_of_ends_leads_to_the_same_outcomes(seed: int) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance)
    fates = {name: chance.choice([SUCCEEDED, SUCCEEDED, FAILED, SKIPPED]) for name in graph.nodes}
    at_once = {
        name: chance.choice([BYPASSED, FAILED])
        for name, node in graph.nodes.items()
        if node.condition and chance.random() < 0.5
    }

    plays = [Played(graph, fates, at_once, random.Random(order)).play() for order in range(8)]

    first = plays[0]
    assert first.end is not None
    assert first.states.keys() == graph.nodes.keys()
    for play in plays[1:]:
        assert play.states == first.states
        assert play.end == first.end
        assert sorted(play.begun) == sorted(first.begun)
    assert (first.end.outcome is FAILED) == bool(unhandled(graph, first.states))  # type: ignore[arg-type]


def verdict_of(flow: Mapping[str, object], **states: Outcome | None) -> Verdict:
    return judge(parse(flow), states, lambda _node: None)


WAREHOUSE = {
    "extract": {"job": "extract"},
    "load": {"job": "load", "after": "extract"},
    "parts": {"job": "part", "after": "load"},
    "mend": {"job": "mend", "after": {"load": "failure"}},
    "report": {"job": "report", "after": ["parts", "mend"], "join": "any"},
}


def test_the_roots_of_a_new_flow_fire() -> None:
    verdict = verdict_of(WAREHOUSE)

    assert (verdict.fire, verdict.bypassed, verdict.end) == (["extract"], {}, None)


def test_a_failure_bypasses_what_needs_success_and_fires_what_handles_it() -> None:
    verdict = verdict_of(WAREHOUSE, extract=SUCCEEDED, load=FAILED)

    assert verdict.fire == ["mend"]
    assert verdict.bypassed == {"parts": FalseEdge("load", FAILED, Condition.SUCCESS)}


def test_a_flow_whose_failure_is_handled_has_succeeded() -> None:
    states = {"extract": SUCCEEDED, "load": FAILED, "parts": BYPASSED, "mend": SUCCEEDED}

    assert verdict_of(WAREHOUSE, **states, report=SUCCEEDED).end == FlowEnd(SUCCEEDED)
    states["mend"] = FAILED
    assert verdict_of(WAREHOUSE, **states, report=BYPASSED).end == FlowEnd(FAILED, ("load", "mend"))


def test_a_bypassed_node_is_over_for_what_always_runs() -> None:
    flow = {
        "a": {"job": "a"},
        "b": {"job": "b", "after": "a"},
        "clean": {"job": "c", "after": {"b": "always"}},
    }

    assert verdict_of(flow, a=FAILED).fire == ["clean"]


def test_a_skipped_node_is_neither_a_success_nor_a_failure() -> None:
    flow = {
        "a": {"job": "a"},
        "b": {"job": "b", "after": "a"},
        "c": {"job": "c", "after": {"a": "failure"}},
    }

    verdict = verdict_of(flow, a=SKIPPED)

    assert set(verdict.bypassed) == {"b", "c"}
    assert verdict.end == FlowEnd(SKIPPED)


def test_nothing_fires_in_a_flow_that_is_stopped_and_it_ends_with_its_last_run() -> None:
    graph = parse(WAREHOUSE)

    running = judge(graph, {"extract": None}, lambda _node: None, stopped=True)
    over = judge(graph, {"extract": SUCCEEDED}, lambda _node: None, stopped=True)

    assert (running.fire, running.end) == ([], None)
    assert over.fire == []
    assert list(over.bypassed) == ["load", "parts", "mend", "report"]
    assert over.end is not None


def test_a_thousand_ends_into_one_node_are_judged_in_milliseconds() -> None:
    flow = {f"n{number}": {"job": "a"} for number in range(999)}
    graph = parse({**flow, "last": {"job": "b", "after": list(flow)}})

    verdict = judge(graph, dict.fromkeys(flow, SUCCEEDED), lambda _node: None)

    assert verdict.fire == ["last"]

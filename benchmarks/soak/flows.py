"""The flows of a soak: random ones, and a judge of what became of their nodes.

How each run ended is taken from its row, as faults end runs too; what must follow from that is
what docs/flows.md says.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.support.flow_judge import (
    BYPASSED,
    FAILED,
    NOTHING,
    SKIPPED,
    SUCCEEDED,
    Decided,
    Fate,
    Fates,
    Flow,
    Judged,
    judge,
    kept_from,
    to_repeat,
)
from tests.support.random_flows import random_fates, random_flow

CANCELLED = "CANCELLED"
#: Most nodes of a flow.
MOST_NODES = 8


@dataclass(frozen=True, slots=True)
class SoakFlow:
    """A flow with a job of its own for each node."""

    name: str
    flow: Flow
    retries: int


@dataclass(frozen=True, slots=True)
class Last:
    """The last run of a shard of a node."""

    run: int
    attempt: int
    status: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as its row says; `outcome` is the one that it was kept with if it was."""

    outcome: str | None
    is_kept: bool
    shards: Mapping[int, Last]


@dataclass(frozen=True, slots=True)
class FlowRun:
    """The run of a flow for a tick, with its nodes.

    `is_repeated`: a failure has a retry, because it ended before a person stopped the job.
    """

    flow: SoakFlow
    run: int
    tick: int
    attempt: int
    status: str
    nodes: Mapping[str, NodeRow]
    is_repeated: bool = True


def new_flow(seed: int, number: int) -> SoakFlow:
    """Return a random flow; each of its nodes has a job of that name behind the flow's."""
    chance, name = random.Random(f"{seed} {number}"), f"flow-{number}"
    flow = random_flow(chance, MOST_NODES)
    named = {node.name: replace(node, job=f"{name}-{node.name}") for node in flow.values()}
    return SoakFlow(name, named, chance.randint(0, 2))


def fate_of(run_id: int) -> Fate:
    """Return how the run of a node ends by itself."""
    return random_fates("soak")(str(run_id), 0, 0)


def mistakes(runs: Sequence[FlowRun]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong in the runs of flows: whether it is lost or doubled, and what."""
    by_tick: dict[tuple[str, int], list[FlowRun]] = {}
    for run in sorted(runs, key=lambda one: one.attempt):
        by_tick.setdefault((run.flow.name, run.tick), []).append(run)
    for tries in by_tick.values():
        yield from _of_tick(tries)


def _of_tick(tries: Sequence[FlowRun]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong in the first run of a flow for a tick and in its retries."""
    judged: Judged | None = None
    flow = tries[0].flow
    for run in tries:
        kept = kept_from(flow.flow, judged, to_repeat(flow.flow, judged)) if judged else NOTHING
        if run.status == CANCELLED:  # its job was stopped before it began
            return
        if judged and judged.status != FAILED:
            yield "doubled", f"{_named(run)} repeats one that is {judged.status}"
            return
        missing: list[str] = []
        judged = judge(flow.flow, _fates(run, missing), kept)
        for shard in missing:
            yield "lost", f"{_named(run)} has no run for {shard}"
        if run.status != judged.status:
            yield "lost", f"{_named(run)} is {run.status}, not {judged.status}"
        for name, expected in judged.nodes.items():
            yield from _of_node(run, name, expected)
    last = tries[-1]
    if judged and judged.status == FAILED and len(tries) <= flow.retries and last.is_repeated:
        yield "lost", f"{_named(last)} was not repeated"


def _fates(run: FlowRun, missing: list[str]) -> Fates:
    """Return how the shards of nodes ended; note those that have no run."""

    def fate(node: str, shard: int, _attempt: int) -> Fate:
        row = run.nodes.get(node)
        last = row.shards.get(shard) if row else None
        if last is None:
            missing.append(f"{node}, shard {shard}")
        elif last.status in {SUCCEEDED, SKIPPED}:
            return Fate(last.status, fate_of(last.run).result)
        return Fate(FAILED)

    return fate


def _of_node(run: FlowRun, name: str, expected: Decided) -> Iterator[tuple[str, str]]:
    row = run.nodes.get(name)
    if row is None:
        yield "lost", f"{_named(run)} has no row for {name}"
        return
    if (row.outcome, row.is_kept) != (expected.outcome, expected.is_kept):
        kind = "doubled" if BYPASSED in expected.outcome or expected.is_kept else "lost"
        yield kind, f"{_named(run)}: {name} is {row}, not {expected}"
    if len(row.shards) > len(expected.params):
        yield "doubled", f"{_named(run)}: {name} ran as {row}, not {expected}"


def _named(run: FlowRun) -> str:
    return f"{run.flow.name} for {run.tick}, run {run.run}"

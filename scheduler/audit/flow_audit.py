"""Audits the runs of flows: judges their stored outcomes again, and reports what differs.

The engine's own judge gets the outcome of each node that its edges let run. Which nodes run, which
are bypassed and how the flow ends must match what is stored.
"""

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.scheduler.audit.tally import Tallies
from warren.scheduler.completion.end import tick_end
from warren.scheduler.flows.graph import Graph, Node, stored_graph
from warren.scheduler.flows.judge import Outcome, judge
from warren.scheduler.problems import Refused
from warren.sql.batch import chunks
from warren.sql.jobs import job_links, script_versions
from warren.sql.run_status import FINAL, FINE, RunStatus
from warren.sql.runs import flow_nodes, tick_rows, ticks
from warren.sql.runs.flow_nodes import KEPT, NodeState
from warren.sql.runs.run_rows import RunFacts, TickRun
from warren.sql.runs.ticks import Tick

#: Runs of flows that are read together.
FLOWS_AT_ONCE = 50
#: Ends of a flow that its nodes do not decide.
_STOPPED = frozenset({RunStatus.KILLED, RunStatus.TIMED_OUT, RunStatus.LOST})


def audit_flows(session: Session, tallies: Tallies, bounds: tuple[int, int]) -> None:
    """Find nodes that are missing, superfluous, or at odds with the judge or their runs."""
    for flow_id in sorted(job_links.all_flows(session)):
        job = tallies.of(flow_id)
        if job is None:
            continue
        ended = flow_nodes.opened(session, flow_id, after_ms=bounds[0], until_ms=bounds[1])
        for part in chunks(ended, FLOWS_AT_ONCE):
            for run, faults in _audited(session, part):
                for is_lost, why in faults:
                    add = job.add_lost if is_lost else job.add_doubled
                    add(run.scheduled_at, why)


#: A fault: whether something is missing, else something is too many; and why.
_Found = tuple[bool, Reason]


def _audited(session: Session, runs: Sequence[RunFacts]) -> Iterator[tuple[RunFacts, list[_Found]]]:
    nodes = flow_nodes.of_flows(session, [run.id for run in runs])
    versions = {run.script_version for run in runs if run.script_version}
    sources = script_versions.sources(session, versions)
    begun = {
        Tick(state.job_id, run.scheduled_at, state.id)
        for run in runs
        for state in nodes.get(run.id, ())
        if state.begun_at is not None and state.outcome not in (None, KEPT)
    }
    of_nodes = ticks.own_attempts(session, begun)
    purged = tick_rows.purged_until_by_job(session, {tick.job_id for tick in begun})
    for run in runs:
        try:
            graph = stored_graph(sources.get(run.script_version or 0, ("", ""))[1])
        except Refused:
            continue  # its version is no longer kept
        states = {state.node: state for state in nodes.get(run.id, ())}
        faults = [*_of_rows(graph, states), *_of_judge(run, graph, states)]
        for state in states.values():
            tick = Tick(state.job_id, run.scheduled_at, state.id)
            if tick in begun and run.scheduled_at > purged.get(state.job_id, 0):
                faults += _of_runs(state, of_nodes.get(tick, ()))
        yield run, faults


def _of_rows(graph: Graph, states: Mapping[str, NodeState]) -> Iterator[_Found]:
    """Yield nodes without a row, and rows without a node."""
    for name in graph.nodes:
        if name not in states:
            yield True, Why.NODE_MISSING(node=name)
    for name in states:
        if name not in graph.nodes:
            yield False, Why.NODE_UNKNOWN(node=name)


def _of_judge(run: RunFacts, graph: Graph, states: Mapping[str, NodeState]) -> Iterator[_Found]:
    """Yield what the judge says otherwise than the rows."""
    if graph.nodes.keys() - states.keys():
        return
    is_stopped = run.status in _STOPPED or run.kill_requested_at is not None

    def begin(node: Node) -> Outcome | None:
        outcome = states[node.name].real_outcome
        return Outcome(outcome) if outcome else None

    kept = {
        name: Outcome(state.real_outcome)
        for name, state in states.items()
        if state.outcome == KEPT and state.real_outcome
    }
    forced = {name for name, state in states.items() if state.is_forced}
    verdict = judge(graph, kept, begin, forced=forced)
    for name in graph.nodes:
        state = states[name]
        if name in kept:
            continue
        stored = state.outcome or ("RUNNING" if state.begun_at is not None else "WAITING")
        if name in verdict.bypassed:
            is_as_judged = stored == Outcome.BYPASSED and state.begun_at is None
            due = Outcome.BYPASSED.value
        else:
            is_decided = name in verdict.at_once or name in verdict.fire
            was_let = stored != Outcome.BYPASSED or bool(graph.nodes[name].condition)
            is_as_judged = was_let if is_decided else stored in ("WAITING", Outcome.BYPASSED)
            due = "RUNNING" if is_decided else "WAITING"
        if run.status in FINAL and state.outcome is None:
            yield True, Why.NODE_MOVED(node=name, stored=stored, due="over")
        elif not is_as_judged and not (is_stopped and stored == Outcome.BYPASSED):
            yield stored == "WAITING", Why.NODE_MOVED(node=name, stored=stored, due=due)
    end = verdict.end
    if end is not None and run.status not in _STOPPED and run.status != end.outcome.value:
        yield True, Why.FLOW_OTHER(stored=run.status, due=end.outcome.value)


def _of_runs(state: NodeState, runs: Sequence[TickRun]) -> Iterator[_Found]:
    """Yield ended nodes whose runs contradict their rows."""
    first = {run.shard_index for run in runs if run.attempt == 0}
    least = state.shards or 1  # of a broadcast, it is not known
    if len(first) < least:
        why = Why.NODE_RUNS(node=state.node, rows=len(first), total=least)
        yield True, why
        return
    end = tick_end(Tick(state.job_id, runs[0].scheduled_at, state.id), runs) if runs else None
    if end is None:
        return
    status = end.status if end.status in FINE else RunStatus.FAILED
    if status.value != state.outcome:
        yield False, Why.NODE_OTHER(node=state.node, stored=state.outcome or "", due=status.value)

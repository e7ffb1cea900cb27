"""Judges the run of one flow, and makes the runs of the nodes that fire."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from warren.broker.reasons import Why, Words
from warren.scheduler.completion.end import TickEnd, Won, tick_end
from warren.scheduler.expressions import Fault
from warren.scheduler.flows.graph import Graph, Node
from warren.scheduler.flows.judge import (
    RESULT_BYTES,
    FalseEdge,
    NodeValue,
    Outcome,
    condition_holds,
    joined_results,
    judge,
    kept_result,
    params,
    parsed,
    rendered,
)
from warren.scheduler.jobs.new_run import (
    Occasion,
    app_names_for,
    calendar_names,
    run_of,
    template_calendar,
)
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import explanation
from warren.scheduler.schedules.reading import load_calendars
from warren.scheduler.schedules.run_date import RunDateRule, run_date_of
from warren.scheduler.schedules.working_days import Calendar, Calendars
from warren.sql.explanation import Explanation
from warren.sql.jobs import due_jobs
from warren.sql.jobs.due_jobs import JobToPlan
from warren.sql.registry import apps
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs import flow_nodes, queries, ticks, transitions
from warren.sql.runs.flow_nodes import BROADCAST, NodeState
from warren.sql.runs.planned_runs import NewRun
from warren.sql.runs.run_rows import LockedRun
from warren.sql.runs.ticks import Tick, tick_of

_NOTHING = Explanation()


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """How a node ended; `reason` says why it did not succeed or has no result.

    `results` are those of its runs, in the order of their shards, and `result` what is kept of
    them. `is_reported`: if it failed, the end of its run has raised the alarm.
    """

    outcome: Outcome
    reason: Explanation = _NOTHING
    result: str | None = None
    results: tuple[str | None, ...] = ()
    is_reported: bool = True

    def kept(self, *, is_list: bool) -> "NodeEnd":
        """Return the end with the result that is kept: a list, or that of its only run."""
        if not self.results or self.reason.text:
            return self
        joined = joined_results(self.results) if is_list else self.results[0]
        result, size = kept_result(joined)
        why = Why.FLOW_RESULT_TOO_LONG(n=size, most=RESULT_BYTES)
        return replace(self, result=result, reason=explanation(why) if size else _NOTHING)


def node_ends(session: Session, ended: Sequence[Won]) -> dict[int, NodeEnd]:
    """Return the nodes that end with these runs, which are not retried, by id."""
    alone = {won.row.id for won in ended if won.row.shard_total <= 1 and not won.row.attempt}
    ends = {
        won.row.origin_id: _node_end(won.end.status, explanation(won.end.message), won.end.result)
        for won in ended
        if won.row.id in alone
    }
    others = {tick_of(won.row) for won in ended if won.row.id not in alone}
    if others:
        sharded = {tick_of(won.row) for won in ended if won.row.shard_total > 1}
        if sharded:
            transitions.lock(session, ticks.first_run_ids(session, sharded, own=True))
        ends |= ends_of_ticks(session, others)
    return ends


def ends_of_ticks(session: Session, of_nodes: Iterable[Tick]) -> dict[int, NodeEnd]:
    """Return those of the nodes that have no open run, by id, as stored."""
    ends = {}
    for tick, runs in ticks.own_attempts(session, of_nodes).items():
        end = tick_end(tick, runs)
        if end is not None:
            last_ids = {run.shard_index: run.id for run in runs}
            ends[tick.origin_id] = _stored_end(session, end, last_ids)
    return ends


def _stored_end(session: Session, end: TickEnd, last_ids: dict[int, int]) -> NodeEnd:
    """Return the end of a node; `last_ids` are the last runs of its shards."""
    runs = queries.ended(session, {*last_ids.values(), end.deciding_id})
    told = {run_id: Explanation(run.message or "", run.message_why) for run_id, run in runs.items()}
    in_order = [last_ids[index] for index in sorted(last_ids)]
    dropped = next((told[run_id] for run_id in in_order if _was_dropped(told[run_id])), None)
    message = dropped or told[end.deciding_id]
    return _node_end(end.status, message, *(runs[run_id].result for run_id in in_order))


def _node_end(status: RunStatus, message: Explanation, *results: str | None) -> NodeEnd:
    if status is RunStatus.SKIPPED:
        return NodeEnd(Outcome.SKIPPED, message)
    if status is not RunStatus.SUCCEEDED:
        text = message.text or status.value
        return NodeEnd(Outcome.FAILED, message._replace(text=text))
    reason = message if _was_dropped(message) else _NOTHING
    return NodeEnd(Outcome.SUCCEEDED, reason, results=results)


def _was_dropped(message: Explanation) -> bool:
    """Whether a result is not kept with its run: it was too long, or could not be stored."""
    lost = (Why.RESULT_TOO_LONG.name, Why.RESULT_NOT_STORED.name)
    return any(name in (message.why or "") for name in lost)


class JudgedFlow:
    """The consequences for one flow.

    Attributes:
        run: the flow's run; it is locked.
        graph: its graph.
        fired: the nodes that begin, by id, and their runs.
        over: the rows of the nodes that have now ended.
        updated: the rows of nodes that were bypassed, with the reason that they have now.
        unreported: those of them whose failure no run reports: id, name and reason.
        end: how the flow ended; None = a node is open.

    Args:
        run: as above.
        graph: as above.
        nodes: all its nodes.
        ends: nodes that are over now, by id.
        planner: knows their jobs.
        now_ms: the time, in epoch milliseconds.

    """

    def __init__(
        self,
        run: LockedRun,
        graph: Graph,
        nodes: Sequence[NodeState],
        *,
        ends: Mapping[int, NodeEnd],
        planner: "NodePlanner",
        now_ms: int,
    ) -> None:
        self.run = run
        self.fired: list[tuple[int, list[NewRun]]] = []
        self.over: list[dict[str, Any]] = []
        self.updated: list[dict[str, Any]] = []
        self.unreported: list[tuple[int, str, str]] = []
        self.graph = graph
        self._nodes = {state.node: state for state in nodes}
        self._planner = planner
        self._now_ms = now_ms
        self._values: dict[str, NodeValue] | None = None
        self._ended: dict[str, NodeEnd] = {}
        known: dict[str, Outcome | None] = {}
        for state in nodes:
            if state.real_outcome:
                known[state.node] = Outcome(state.real_outcome)
            elif state.id in ends:
                end = ends[state.id].kept(is_list=self._has_list(state, ends[state.id]))
                known[state.node] = self._note(state.node, end)
            elif state.begun_at is not None:
                known[state.node] = None
        # A node whose row was deleted by hand cannot begin; the audit reports it.
        known |= {name: Outcome.BYPASSED for name in graph.nodes if name not in self._nodes}
        verdict = judge(
            graph,
            known,
            self._begin,
            bypass=self._bypass,
            forced={state.node for state in nodes if state.is_forced},
            stopped=run.status != RunStatus.RUNNING or run.kill_requested_at is not None,
        )
        self.end = verdict.end

    def _has_list(self, state: NodeState, end: NodeEnd) -> bool:
        """Whether the result of a node is a list: with `each`, and of a broadcast."""
        node = self.graph.nodes.get(state.node)
        has_elements = node is not None and bool(node.each)
        return has_elements or state.shards == BROADCAST or len(end.results) > 1

    def _bypass(self, name: str, false: FalseEdge | None) -> None:
        end = NodeEnd(Outcome.BYPASSED, explanation(_why_bypassed(false)))
        state = self._nodes.get(name)
        if state is None:
            return
        if state.outcome is None:
            self._note(name, end)
        elif state.outcome == flow_nodes.BYPASSED and false and false.before in self._ended:
            self._ended[name] = end
            if self._values is not None:
                self._values[name] = _value(end)
            self.updated.append({"id": state.id, "reason": end.reason.text, "why": end.reason.why})

    def _begin(self, node: Node) -> Outcome | None:
        """Make a node's runs; return its outcome if it ends without any."""
        state = self._nodes[node.name]
        job = self._planner.job(state.job_id)
        if job is None:
            gone = NodeEnd(Outcome.FAILED, explanation(Why.JOB_DELETED()), is_reported=False)
            return self._note(node.name, gone)
        try:
            # Read only for nodes that name something.
            names = self._names(job) if _has_expressions(node) else {}
            if not condition_holds(node, names):
                why = Why.NODE_CONDITION_FALSE()
                return self._note(node.name, NodeEnd(Outcome.BYPASSED, explanation(why)))
            runs = self._runs(node, job, names)
        except Fault as fault:
            words = explanation(Why.NODE_NOT_BEGUN(node=node.name, why=str(fault)))
            runs = [replace(self._run(node, job, param=""), fault=words)]
        if not runs:
            why = Why.NODE_WITHOUT_ELEMENTS()
            return self._note(node.name, NodeEnd(Outcome.SUCCEEDED, explanation(why), "[]"))
        runs = [replace(run, origin_id=state.id) for run in runs]
        self.fired.append((state.id, runs))
        return None

    def _runs(self, node: Node, job: JobToPlan, names: Mapping[str, Any]) -> list[NewRun]:
        if not node.each:
            param = rendered(node.param_template, names) if node.param_template else node.param
            return [self._run(node, job, param=param)]
        made = params(node, names)
        return [
            replace(self._run(node, job, param=param), shard_index=index, shard_total=len(made))
            for index, param in enumerate(made)
        ]

    def _run(self, node: Node, job: JobToPlan, *, param: str | None) -> NewRun:
        """Return a run of a node; without a `param`, it gets the job's."""
        retries = job.retries if node.retry.times is None else node.retry.times
        wanted = job._replace(retries=retries)
        if param is not None:
            wanted = wanted._replace(param=param, param_template=None)
        run = run_of(
            wanted,
            kind=Kind.NODE,
            scheduled_at=self.run.scheduled_at,
            due_at=self._now_ms,
            zone=self._planner.zone(job),
            app=self._planner.app_name(job.app_id) if wanted.param_template else "",
            calendars=self._planner.calendars(calendar_names(wanted)),
            run_date=self.run.run_date,
        )
        return replace(
            run,
            run_date=self.run.run_date,
            flow_run_id=self.run.id,
            without_children=True,
            traceparent=self.run.traceparent,
        )

    def _names(self, job: JobToPlan) -> dict[str, Any]:
        """Return the names that a node's expressions may use."""
        if self._values is None:
            self._values = {
                row.node: NodeValue(row.kept_outcome or row.outcome, row.result, row.reason)
                for row in self._planner.stored(self.run.id)
                if row.outcome is not None
            }
            self._values |= {name: _value(end) for name, end in self._ended.items()}
        occasion = Occasion(
            job=job.name,
            app=self._planner.app_name(job.app_id),
            scheduled_at=self.run.scheduled_at,
            run_date=self.run.run_date or run_date_of(self.run.scheduled_at, "UTC", RunDateRule()),
            zone=self._planner.zone(job),
            calendar=self._planner.calendar_of(job.id, self.run.job_id),
        )
        return parsed({**occasion.names(), "param": self.run.param or ""}, self._values)

    def _note(self, name: str, end: NodeEnd) -> Outcome:
        self._ended[name] = end
        if end.outcome is Outcome.FAILED and not end.is_reported:
            self.unreported.append((self._nodes[name].id, name, end.reason.text))
        if self._values is not None:
            self._values[name] = _value(end)
        self.over.append(
            {
                "id": self._nodes[name].id,
                "outcome": end.outcome.value,
                "ended_at": self._now_ms,
                "reason": end.reason.text or None,
                "why": end.reason.why,
                "result": end.result,
            }
        )
        return end.outcome


def _has_expressions(node: Node) -> bool:
    return bool(node.condition or node.each or node.param_template)


def _value(end: NodeEnd) -> NodeValue:
    return NodeValue(end.outcome.value, end.result, end.reason.text or None)


def _why_bypassed(false: FalseEdge | None) -> Words:
    if false is None:
        return Why.FLOW_STOPPED()
    return Why.NODE_BYPASSED(
        node=false.before, outcome=false.outcome.value, needed=false.needed.value
    )


class NodePlanner:
    """What the runs of nodes are planned from, read in one transaction."""

    def __init__(
        self,
        session: Session,
        runs: Iterable[LockedRun],
        graphs: Mapping[int, Graph],
        nodes: Mapping[int, Sequence[NodeState]],
        ends: Mapping[int, NodeEnd],
    ) -> None:
        self._session = session
        self._jobs: dict[int, JobToPlan | None] = {}
        self._apps: dict[int, str] = {}
        self._calendars: dict[str, Calendar] = {}
        self._near = {run.job_id for run in runs} | {
            state.job_id
            for flow_id, states in nodes.items()
            if (graph := graphs.get(flow_id))
            for state in states
            if state.begun_at is None
            and state.outcome is None
            and _may_begin(graph, state.node, states, ends)
        }

    def job(self, job_id: int) -> JobToPlan | None:
        """Return the job of a node; None if it was deleted."""
        if job_id not in self._jobs:
            wanted = {job_id, *self._near} - self._jobs.keys()
            stored = due_jobs.to_plan(self._session, wanted)
            self._jobs |= {wanted_id: stored.get(wanted_id) for wanted_id in wanted}
            known = [job for job in stored.values() if job is not None]
            self._apps |= app_names_for(self._session, known)
        return self._jobs[job_id]

    def app_name(self, app_id: int) -> str:
        if app_id not in self._apps:
            self._apps |= apps.names(self._session, {app_id})
        return self._apps.get(app_id, "")

    def zone(self, job: JobToPlan) -> str:
        return job.timezone or cluster_zone(self._session, "UTC")

    def calendars(self, names: Collection[str]) -> Calendars:
        """Return the calendars of these names, and perhaps others."""
        self._calendars |= load_calendars(self._session, set(names) - self._calendars.keys())
        return self._calendars

    def calendar_of(self, *job_ids: int) -> Calendar | None:
        """Return the `workdays` calendar of the first of these jobs that has one."""
        jobs = filter(None, map(self.job, job_ids))
        name = next(filter(None, map(template_calendar, jobs)), "")
        return self.calendars([name]).get(name)

    def stored(self, flow_run_id: int) -> list[flow_nodes.StoredNode]:
        return flow_nodes.stored(self._session, flow_run_id)


def _may_begin(
    graph: Graph, name: str, states: Sequence[NodeState], ends: Mapping[int, NodeEnd]
) -> bool:
    """Whether a node may begin now: it begins the flow, or follows a node that has ended."""
    node = graph.nodes.get(name)
    if node is None:
        return False
    if not node.after or not ends:
        return True
    over = {state.node for state in states if state.id in ends}
    return not over.isdisjoint(node.after)

"""Opens the runs of flows, and advances them when their nodes end.

All code locks in one order: runs of nodes by id, runs of flows by id, then nodes. Only the holder
of the lock on a flow's run judges it.

The flow's alarm targets hear of a failed node at once: each gets one alarm for the flow's tick.
There is none while the failure may still be repaired: if another node runs after it, the node's own
job raises the alarm; if the flow has a retry left, the last retry does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons import Why, Words
from warren.broker.stored_reasons import from_json
from warren.scheduler.alarms.events import MESSAGE_LENGTH, NO_TARGETS, AlarmTargets, Failure
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.completion.end import End, Won, why_killed
from warren.scheduler.completion.flow_judgement import JudgedFlow, NodeEnd, NodePlanner, node_ends
from warren.scheduler.flows.graph import Graph, NodeRetry, stored_graph
from warren.scheduler.flows.judge import FlowPart, Outcome, repeated
from warren.scheduler.problems import Refused, explanation, fault_of
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import JobRecipients, NewAlarm
from warren.sql.ids import RunIds
from warren.sql.jobs import job_names, job_rows, script_versions
from warren.sql.registry import apps
from warren.sql.run_status import FINAL, RunStatus
from warren.sql.runs import flow_nodes, planned_runs, queries, transitions
from warren.sql.runs.flow_nodes import BROADCAST, BYPASSED, KEPT, NEW, NodeState, StoredNode
from warren.sql.runs.planned_runs import NewRun
from warren.sql.runs.run_rows import LockedRun, RunFacts


@dataclass(frozen=True, slots=True)
class NodeOfFlow:
    """A node of a flow's run."""

    flow: RunFacts
    graph: Graph
    name: str

    @property
    def retry(self) -> NodeRetry:
        """What it says about retries."""
        return self.graph.nodes[self.name].retry

    @property
    def fails_flow(self) -> bool:
        """Whether its failure fails the flow, because nothing in this run may handle it."""
        return self.flow.kill_requested_at is None and not self.graph.is_handled(self.name)


class _Flow(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def app_id(self) -> int: ...
    @property
    def job_id(self) -> int: ...
    @property
    def scheduled_at(self) -> int: ...
    @property
    def origin_id(self) -> int: ...
    @property
    def starts(self) -> int: ...


def without(targets: AlarmTargets, told: AlarmTargets) -> AlarmTargets:
    """Return the targets that are not alarmed in any case."""
    emails = tuple(email for email in targets.emails if email not in told.emails)
    is_told = targets.webhook == told.webhook
    return replace(targets, emails=emails, webhook="" if is_told else targets.webhook)


def flow_alarms(
    flow: _Flow,
    job: JobRecipients,
    news: Failure,
    defaults: AlarmTargets,
    *,
    now_ms: int,
    key: str = "",
) -> list[NewAlarm]:
    """Return the alarms of a flow about a node; `news` has what is known of its failure.

    With a `key` they are about the node alone, and the flow may raise its own.
    """
    of_flow = msgspec.structs.replace(news, app=job.app, job=job.name, timezone=job.timezone or "")
    return alarms_to(
        job_targets(job, defaults),
        msgspec.structs.replace(of_flow, run_id=flow.id, attempts=flow.starts + 1, shard=""),
        key or f"tick:{flow.job_id}:{flow.scheduled_at}:{flow.origin_id}",
        now_ms=now_ms,
        app_id=flow.app_id,
        job_id=flow.job_id,
        run_id=flow.id,
    )


def store_node_alarms(
    session: Session, flows: Iterable[JudgedFlow], defaults: AlarmTargets, *, now_ms: int
) -> None:
    """Store alarms about nodes that failed without a run that would raise one.

    Their jobs are gone, and the jobs' targets with them. None if the flow is to be killed.
    """
    failed = [flow for flow in flows if flow.unreported and flow.run.kill_requested_at is None]
    if not failed:
        return
    jobs = alarms.job_targets(session, {flow.run.job_id for flow in failed})
    for flow in failed:
        run, job = flow.run, jobs.get(flow.run.job_id)
        if job is None:
            continue
        for node_id, name, reason in flow.unreported:
            is_handled = flow.graph.is_handled(name)
            if run.retries_left and not is_handled:
                continue
            news = Failure(
                app="",
                job="",
                run_id=run.id,
                scheduled_at=run.scheduled_at,
                finished_at=now_ms,
                timezone="",
                status=RunStatus.FAILED.value,
                message=node_message(name, reason),
                address="",
                attempts=0,
                shard="",
                log_tail="",
            )
            key = f"node:{node_id}" if is_handled else ""
            alarms.add(session, flow_alarms(run, job, news, defaults, now_ms=now_ms, key=key))


def node_message(name: str, reason: str) -> str:
    """Return what an alarm of a flow says about a node."""
    return f"node {name} failed: {reason}"[:MESSAGE_LENGTH]


log = structlog.get_logger()

#: Graphs that are kept in memory.
GRAPHS_KEPT = 1_000

#: What the end of a flow is called as a run.
_STATUS = {
    Outcome.SUCCEEDED: RunStatus.SUCCEEDED,
    Outcome.FAILED: RunStatus.FAILED,
    Outcome.SKIPPED: RunStatus.SKIPPED,
}


@dataclass(slots=True)
class FlowWork:
    """The consequences for flows: planned runs with their ids, and flows that end."""

    planned: list[NewRun] = field(default_factory=list)
    run_ids: list[int] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)


class FlowRuns:
    """Opens, advances, and repeats the runs of flows, in the caller's transaction."""

    def __init__(
        self, ids: RunIds, now_ms: Callable[[], int], alarm_defaults: AlarmTargets = NO_TARGETS
    ) -> None:
        self._ids = ids
        self._now_ms = now_ms
        self._alarm_defaults = alarm_defaults
        #: Graphs by version; a version never changes, unless the database has lost it.
        self._read: dict[int, Graph] = {}
        self._turns = ids.turns

    def open(self, session: Session, run_ids: Sequence[int]) -> FlowWork:
        """Open claimed runs of flows: store all their nodes, and plan the first ones.

        Nodes that are stored already were kept from the run that is repeated, or run in any case.
        """
        now_ms = self._now_ms()
        transitions.open_flows(session, run_ids, now_ms=now_ms)
        runs = [run for run in transitions.lock(session, run_ids) if run.status not in FINAL]
        graphs, broken = self._graphs(session, runs)
        stored = flow_nodes.of_flows(session, [run.id for run in runs])
        missing = [
            (run, graph, node)
            for run in runs
            if (graph := graphs.get(run.id))
            for node in graph.nodes.values()
            if node.name not in {state.node for state in stored.get(run.id, ())}
        ]
        job_ids = _job_ids(session, [(run, node.job) for run, _, node in missing])
        ids = self._ids.take(session, len(missing))
        rows = [
            {
                "id": node_id,
                "flow_run_id": run.id,
                "node": node.name,
                "job_id": job_ids.get((run.app_id, node.job), 0),
            }
            for node_id, (run, _, node) in zip(ids, missing, strict=True)
        ]
        flow_nodes.add(session, rows)
        return self._judge(session, runs, graphs, {}, broken)

    def follow(self, session: Session, last: Iterable[Won]) -> FlowWork:
        """Advance the flows of runs that have ended and are not retried."""
        ended = [won for won in last if won.row.flow_run_id is not None]
        if not ended:
            return FlowWork()
        ends = node_ends(session, ended)
        flow_ids = {won.row.flow_run_id for won in ended if won.row.origin_id in ends}
        return self.advance(session, [run_id for run_id in flow_ids if run_id], ends)

    def advance(
        self,
        session: Session,
        flow_run_ids: Collection[int],
        ends: Mapping[int, NodeEnd] | None = None,
    ) -> FlowWork:
        """Lock the runs of flows and advance them; `ends` are nodes that have now ended, by id."""
        if not flow_run_ids:
            return FlowWork()
        runs = transitions.lock(session, flow_run_ids)
        graphs, broken = self._graphs(session, runs)
        return self._judge(session, runs, graphs, ends or {}, broken)

    def reopen(self, session: Session, rows: Collection[LockedRun]) -> set[int]:
        """Let running flows wait again for the nodes of these runs; return the runs that may go on.

        Those are the runs of no flow, and those after whose node nothing has begun: what was only
        bypassed after it is judged again. The flows are locked.
        """
        may_go_on = {row.id for row in rows if row.flow_run_id is None}
        flow_ids = {row.flow_run_id for row in rows if row.flow_run_id is not None}
        if not flow_ids:
            return may_go_on
        flows = transitions.lock(session, flow_ids)
        running = [
            run.id
            for run in flows
            if run.status == RunStatus.RUNNING and run.kill_requested_at is None
        ]
        states = flow_nodes.of_flows(session, running)
        ended: set[int] = set()
        for run_id, node in self.nodes_of(session, rows).items():
            part = node.graph.descendants({node.name})
            begun = [
                state
                for state in states.get(node.flow.id, ())
                if state.node in part and state.outcome != KEPT
            ]
            own = [state for state in begun if state.node == node.name]
            after = [state for state in begun if state.node != node.name]
            if own and all(_is_untouched(state) for state in after):
                may_go_on.add(run_id)
                ended |= {state.id for state in begun if state.outcome is not None}
        if ended:
            flow_nodes.reopen(session, ended)
            # What other nodes keep from running is bypassed again; nothing begins or ends by it.
            self.advance(session, running)
        return may_go_on

    def nodes_of(self, session: Session, rows: Iterable[LockedRun]) -> dict[int, NodeOfFlow]:
        """Return the nodes that runs belong to, by run id; those of no flow are left out."""
        of_nodes = [row for row in rows if row.flow_run_id is not None]
        if not of_nodes:
            return {}
        flows = queries.facts(session, {row.flow_run_id or 0 for row in of_nodes})
        versions = {run_id: flow.script_version for run_id, flow in flows.items()}
        graphs = self._graphs_of(session, versions)
        names = flow_nodes.names(session, {row.origin_id for row in of_nodes})
        return {
            row.id: NodeOfFlow(flows[flow_id], graphs[flow_id], name)
            for row in of_nodes
            if (flow_id := row.flow_run_id or 0) in graphs
            and (name := names.get(row.origin_id, "")) in graphs[flow_id].nodes
        }

    def keep_for(
        self,
        session: Session,
        run: LockedRun,
        new_run_id: int,
        *,
        part: FlowPart = FlowPart.FAILED,
        node: str = "",
        version: int | None = None,
    ) -> set[str]:
        """Store the nodes that a repeated run of a flow keeps; return those that run again.

        Args:
            run: the run that is repeated; it is over.
            new_run_id: the run that repeats it.
            part: what is repeated.
            node: the node of FROM and ONLY, which runs in any case.
            version: the graph of the new run, if it is another one. Of its nodes that the repeated
                run does not have, those that do not run now are kept as bypassed.

        """
        graph = self.graph(session, version or run.script_version) or Graph({})
        stored = {item.node: item for item in flow_nodes.stored(session, run.id)}
        outcomes = {
            name: Outcome(outcome)
            for name, item in stored.items()
            if (outcome := item.kept_outcome if item.outcome == KEPT else item.outcome)
        }
        declined = {name for name, item in stored.items() if _was_declined(item)}
        again = repeated(graph, outcomes, part, node, declined=declined)
        job_ids = _job_ids(session, [(run, wanted.job) for wanted in graph.nodes.values()])
        rows = []
        for name, wanted in graph.nodes.items():
            item = stored.get(name, _ABSENT)
            # By its id if its job has another name by now.
            job_id = job_ids.get((run.app_id, wanted.job), item.job_id)
            row = _ABSENT._asdict() | {"node": name, "job_id": job_id}
            if name not in again:
                row = _kept(item) if name in outcomes else row | _NOT_REPEATED
            elif name == node:
                row["kept_of"] = item.id
            rows.append(row | {"flow_run_id": new_run_id})
        ids = self._ids.take(session, len(rows))
        flow_nodes.add(
            session, [{**row, "id": node_id} for row, node_id in zip(rows, ids, strict=True)]
        )
        return again

    def graph(self, session: Session, version: int | None) -> Graph | None:
        """Return the graph in a version; None if it has none, or was deleted."""
        return self._graphs_of(session, {0: version}).get(0)

    # -- graphs -----------------------------------------------------------------------------------

    def _graphs(
        self, session: Session, runs: Sequence[LockedRun]
    ) -> tuple[dict[int, Graph], dict[int, Words]]:
        """Return the graphs of runs of flows by run id, and why others have none."""
        versions = {run.id: run.script_version for run in runs}
        graphs = self._graphs_of(session, versions)
        why = Why.FLOW_GONE()
        return graphs, {run.id: why for run in runs if run.id not in graphs}

    def _graphs_of(self, session: Session, versions: Mapping[int, int | None]) -> dict[int, Graph]:
        wanted = {version for version in versions.values() if version}
        if self._turns != self._ids.turns:
            self._turns, self._read = self._ids.turns, {}
        known = {version: self._read[version] for version in wanted if version in self._read}
        unread = wanted - known.keys()
        sources = script_versions.sources(session, unread) if unread else {}
        for version, (_, source) in sources.items():
            try:
                known[version] = stored_graph(source)
            except Refused as error:
                log.warning("flow_rejected", version=version, error=fault_of(error))
        if len(self._read) > GRAPHS_KEPT:
            self._read = {}
        self._read |= known
        return {run_id: known[version] for run_id, version in versions.items() if version in known}

    # -- judging ----------------------------------------------------------------------------------

    def _judge(
        self,
        session: Session,
        runs: Sequence[LockedRun],
        graphs: Mapping[int, Graph],
        ends: Mapping[int, NodeEnd],
        broken: Mapping[int, Words],
    ) -> FlowWork:
        now_ms, work = self._now_ms(), FlowWork()
        nodes = flow_nodes.of_flows(session, [run.id for run in runs])
        planner = NodePlanner(session, runs, graphs, nodes, ends)
        judged = [
            JudgedFlow(
                run,
                graphs[run.id],
                nodes.get(run.id, []),
                ends=ends,
                planner=planner,
                now_ms=now_ms,
            )
            for run in runs
            if run.id in graphs
        ]
        fired = [item for flow in judged for item in flow.fired]
        work.planned = [run for _, new in fired for run in new]
        work.run_ids = planned_runs.plan_asked(session, work.planned, self._ids)
        flow_nodes.begin(
            session,
            [
                {
                    "id": node_id,
                    "begun_at": now_ms,
                    "shards": len(new) if new[0].shard_total else BROADCAST,
                }
                for node_id, new in fired
            ],
        )
        over = [row for flow in judged for row in flow.over]
        flow_nodes.end(session, sorted(over, key=lambda row: int(row["id"])))
        flow_nodes.update_reasons(session, [row for flow in judged for row in flow.updated])
        store_node_alarms(session, judged, self._alarm_defaults, now_ms=now_ms)
        for flow in judged:
            if flow.end is not None and flow.run.status not in FINAL:
                work.ends.append(self._end_of(session, flow, now_ms))
        for run in runs:
            if run.id in broken and run.status not in FINAL:
                work.ends.append(_end(run, RunStatus.FAILED, broken[run.id], now_ms))
        return work

    def _end_of(self, session: Session, flow: JudgedFlow, now_ms: int) -> End:
        run, end = flow.run, flow.end
        assert end is not None
        if run.kill_requested_at is not None:
            job = job_rows.for_runs(session, [run.job_id]).get(run.job_id)
            if job is not None and is_deadline(run, job.timeout):
                return _end(run, RunStatus.TIMED_OUT, Why.TIMED_OUT(seconds=job.timeout), now_ms)
            why = why_killed(session, run, job, now_ms=now_ms)
            return _end(run, RunStatus.KILLED, why, now_ms)
        if end.outcome is Outcome.FAILED:
            why = Why.FLOW_FAILED(nodes=", ".join(end.failed[:20]))
            return _end(run, RunStatus.FAILED, why, now_ms)
        return _end(run, _STATUS[end.outcome], "", now_ms)


def is_deadline(run: LockedRun, timeout: int) -> bool:
    """Whether a flow was stopped by its timeout, not by a user."""
    if not timeout or run.started_at is None:
        return False
    return run.kill_requested_at == run.started_at + timeout * 1_000


def is_flow(row: LockedRun) -> bool:
    """Whether a run that started is a flow's: it has no executor."""
    return row.address is None and row.status == RunStatus.RUNNING


def _end(run: LockedRun, status: RunStatus, message: Words, now_ms: int) -> End:
    return End(run_id=run.id, status=status, message=message, finished_at=now_ms)


#: A node that the repeated run does not have; and what is stored of one that does not run now.
_ABSENT = StoredNode._make([NEW, 0, "", 0, *[None] * 9])
_ABSENCE = explanation(Why.NODE_NOT_REPEATED())
_NOT_REPEATED = {
    "outcome": KEPT,
    "kept_outcome": Outcome.BYPASSED.value,
    "kept_of": NEW,
    "reason": _ABSENCE.text,
    "why": _ABSENCE.why,
}


def _kept(item: StoredNode) -> dict[str, Any]:
    """Return the row of a node that keeps its outcome from the repeated run."""
    if item.outcome == KEPT:
        return item._asdict()
    return item._asdict() | {
        "outcome": KEPT,
        "kept_outcome": item.outcome,
        "kept_of": item.id,
    }


def _is_untouched(state: NodeState) -> bool:
    """Whether a node has not begun, and has no outcome but that it was bypassed."""
    return state.begun_at is None and state.outcome in (None, BYPASSED)


def _was_declined(item: StoredNode) -> bool:
    """Whether a node was bypassed although its edges let it run and nothing stopped it."""
    why = from_json(item.why)
    return why is not None and why.code in (Why.NODE_CONDITION_FALSE, Why.NODE_NOT_REPEATED)


def _job_ids(
    session: Session, wanted: Sequence[tuple[LockedRun, str]]
) -> dict[tuple[int, str], int]:
    """Return the ids of jobs by the app of their flow and their name as the graph has it."""
    names = {(run.app_id, name) for run, name in wanted}
    by_app = apps.ids_by_name(session) if any("/" in name for _, name in names) else {}
    places: dict[tuple[int, str], tuple[int, str]] = {}
    for app_id, name in names:
        app, slash, short = name.rpartition("/")
        places[app_id, name] = (by_app.get(app, 0) if slash else app_id, short)
    found: dict[int, dict[str, int]] = {}
    for app_id in {app_id for app_id, _ in places.values()}:
        in_app = sorted({short for place, short in places.values() if place == app_id})
        found[app_id] = job_names.ids_in_app(session, app_id, in_app)
    return {
        key: job_id
        for key, (app_id, short) in places.items()
        if (job_id := found[app_id].get(short)) is not None
    }

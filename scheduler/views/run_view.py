"""Runs, skips and how far runs are, as API, command line and console show them.

A flow's run has its graph, and the state of each of its nodes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec
from sqlalchemy.orm import Session

from warren.broker.messages import result_value
from warren.resources.instant import Instant
from warren.resources.runs import Condition, Join, Node, Progress, Run, RunProgress, Skip
from warren.scheduler.flows.graph import Graph, stored_graph
from warren.scheduler.flows.graph import Node as GraphNode
from warren.scheduler.flows.judge import Outcome, is_true
from warren.scheduler.problems import Refused
from warren.sql.jobs import job_names
from warren.sql.jobs.history import SkipLine
from warren.sql.jobs.job_names import NamedJob
from warren.sql.listings import run_relations
from warren.sql.listings.run_relations import RunGroup
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.runs.flow_nodes import BROADCAST, StoredNode
from warren.sql.runs.run_rows import DetailedRun

_TIMES = tuple(name for name in Run.__struct_fields__ if name.endswith("_at"))
#: Fields that are as in the row.
_SAME = tuple(
    name
    for name in Run.__struct_fields__
    if name not in {*_TIMES, "result", "progress", "waits_for"}
)
_progress_decoder = msgspec.json.Decoder(Progress)


def run_of(run: DetailedRun, waits_for: Sequence[str] = ()) -> Run:
    """Return a run; `waits_for` is what it waits for."""
    return Run(**run_fields(run, waits_for))


def run_fields(run: DetailedRun, waits_for: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a run by name."""
    fields = {name: getattr(run, name) for name in _SAME}
    fields |= {name: Instant.if_any(getattr(run, name)) for name in _TIMES}
    fields["result"] = result_value(run.result)
    fields["progress"] = _progress(run.progress)
    fields["waits_for"] = [*waits_for]
    return fields


def skip_of(skip: SkipLine) -> Skip:
    """Return skipped due times."""
    return Skip(
        id=skip.id,
        job_id=skip.job_id,
        job=skip.job,
        app=skip.app,
        from_at=Instant.of(skip.from_at),
        to_at=Instant.of(skip.to_at),
        recorded_at=Instant.of(skip.recorded_at),
        made_good=skip.made_good,
        made_good_by=skip.made_good_by,
        count=skip.number,
        reason=skip.reason,
    )


class Running(Protocol):
    """A run, with what says how far it is."""

    @property
    def status(self) -> str: ...
    @property
    def progress(self) -> str | None: ...
    @property
    def started_at(self) -> int | None: ...


def run_progress(run: Running, now_ms: int) -> RunProgress | None:
    """Return how far a run is; None if it is not running, or has not said.

    The time left assumes that it continues at the pace so far.
    """
    progress = _progress(run.progress) if run.status == RunStatus.RUNNING else None
    if progress is None:
        return None
    return progress.after(now_ms - run.started_at if run.started_at else 0)


def _progress(text: str | None) -> Progress | None:
    try:
        return _progress_decoder.decode(text) if text else None
    except msgspec.MsgspecError:  # the row was changed by hand
        return None


#: Whether the viewer may see the runs of a job, given the ids of its app and of itself.
MaySee = Callable[[int, int], bool]


class NodeState(StrEnum):
    """Where a node is, in addition to the states of runs."""

    #: Nodes before it are not over.
    WAITING = "WAITING"
    BYPASSED = "BYPASSED"
    #: It was over in the run that is repeated, and is not run again.
    KEPT = "KEPT"


class NodeView(NamedTuple):
    """A node of a flow's run.

    `state` is WAITING until the node begins, then that of its run which is furthest, and `outcome`
    when it is over. `job`, `app` and `run_id` are None if the job is deleted or not to be seen.
    `run_id` is its last run, or of several shards the one to look at first. A KEPT node became
    `kept_outcome` in `kept_run_id`, the run that is repeated. `shards` is None until it begins.
    """

    node: str
    job: str | None
    app: str | None
    after: Mapping[str, Condition]
    join: Join
    state: str
    outcome: str | None
    kept_outcome: str | None
    kept_run_id: int | None
    shards: int | None
    succeeded: int
    skipped: int
    failed: int
    attempt: int
    run_id: int | None
    begun_at: int | None
    started_at: int | None
    ended_at: int | None
    reason: str
    why: str | None

    @property
    def became(self) -> Outcome | None:
        """What became of it; of a KEPT node, in the run that is repeated."""
        outcome = self.kept_outcome if self.outcome == NodeState.KEPT else self.outcome
        return Outcome(outcome) if outcome else None

    @property
    def ended_shards(self) -> int:
        """How many of its shards have ended."""
        return self.succeeded + self.skipped + self.failed


def node_of(view: NodeView) -> Node:
    """Return a node as programs see it."""
    fields = {name: getattr(view, name) for name in Node.__struct_fields__}
    times = {name: Instant.if_any(fields[name]) for name in fields if name.endswith("_at")}
    return Node(**fields | times | {"after": dict(view.after)})


@dataclass(frozen=True, kw_only=True)
class FlowView:
    """The nodes of a flow's run, each behind those it runs after; the graph, if it is kept.

    `source` is the stored form of the graph.
    """

    graph: Graph | None
    source: str
    nodes: Sequence[NodeView]

    @cached_property
    def by_name(self) -> Mapping[str, NodeView]:
        return {view.node: view for view in self.nodes}

    def edge(self, before: str, node: str) -> bool | None:
        """Return whether an edge is true; None = it is not known yet."""
        outcome = self.by_name[before].became
        return None if outcome is None else is_true(self.by_name[node].after[before], outcome)


def read(session: Session, run: DetailedRun, may_see: MaySee) -> FlowView | None:
    """Return the flow of a run; None if it is no flow's run."""
    if run.script_version is None:
        return None
    source = run_relations.graph_source(session, run.script_version)
    kept_in = dict(run_relations.node_lines(session, run.id))
    lines = list(kept_in)
    if source is None and not lines:
        return None
    graph = _graph(source)
    nodes = _in_order(graph, lines)
    jobs = job_names.by_ids(session, (line.job_id for line in nodes))
    groups = defaultdict(list)
    for group in run_relations.run_groups(
        session, run.id, run.scheduled_at, {line.job_id for line in lines}
    ):
        groups[group.node_id].append(group)
    return FlowView(
        graph=graph,
        source=source or "",
        nodes=[
            _view(
                line,
                jobs.get(line.job_id),
                groups.get(line.id, []),
                graph.nodes.get(line.node) if graph else None,
                may_see,
                kept_in=kept_in.get(line),
            )
            for line in nodes
        ],
    )


def _graph(source: str | None) -> Graph | None:
    try:
        return stored_graph(source) if source is not None else None
    except Refused:  # somebody has changed it in the database
        return None


def _in_order(graph: Graph | None, lines: Sequence[StoredNode]) -> Iterable[StoredNode]:
    """Return the nodes in the order of the graph; before it is opened, they have no rows yet."""
    if graph is None:
        return lines
    by_name = {line.node: line for line in lines}
    ordered = [by_name.get(name) or _unopened(graph.nodes[name]) for name in graph.order]
    return [*ordered, *(line for line in lines if line.node not in graph.nodes)]


def _unopened(node: GraphNode) -> StoredNode:
    return StoredNode._make([0, 0, node.name, 0, *[None] * 9])


def _view(
    line: StoredNode,
    job: NamedJob | None,
    groups: Sequence[RunGroup],
    node: GraphNode | None,
    may_see: MaySee,
    *,
    kept_in: int | None,
) -> NodeView:
    is_shown = job is not None and may_see(job.app_id, job.id)
    names: tuple[str | None, str | None] = (None, None)
    if job and is_shown:
        names = job.app, job.name
    if node and not line.id:  # its row, which says which job it is, comes when the flow is opened
        app, _, name = node.job.rpartition("/")
        names = app or None, name
    ended = {group.status: group.runs for group in groups if group.status not in OPEN}
    opened = sum(group.runs for group in groups if group.status in OPEN)
    succeeded, skipped = ended.get(RunStatus.SUCCEEDED, 0), ended.get(RunStatus.SKIPPED, 0)
    shards = line.shards
    if shards == BROADCAST:
        shards = max(1, succeeded + skipped + opened)
    # Failed attempts that were retried are no failed shards.
    failed = max(0, (shards or 0) - succeeded - skipped - opened) if groups else 0
    started = [group.started_at for group in groups if group.started_at]
    return NodeView(
        node=line.node,
        job=names[1],
        app=names[0],
        after=node.after if node else {},
        join=node.join if node else Join.ALL,
        state=_state(line, groups),
        outcome=line.outcome,
        kept_outcome=line.kept_outcome,
        kept_run_id=kept_in if line.outcome == NodeState.KEPT else None,
        shards=shards,
        succeeded=succeeded,
        skipped=skipped,
        failed=failed,
        attempt=max((group.attempt for group in groups), default=0),
        run_id=_run_to_look_at(groups, failed) if is_shown else None,
        begun_at=line.begun_at,
        started_at=min(started, default=None),
        ended_at=line.ended_at,
        reason=line.reason or "",
        why=line.why,
    )


#: The states of runs that are not over, the one that is furthest first.
_FURTHEST = (RunStatus.RUNNING, RunStatus.SENT, RunStatus.ROUTED, RunStatus.PLANNED)
_HAPPY = frozenset({RunStatus.SUCCEEDED, RunStatus.SKIPPED})


def _state(line: StoredNode, groups: Sequence[RunGroup]) -> str:
    if line.outcome:
        return line.outcome
    if line.begun_at is None:
        return NodeState.WAITING
    present = {group.status for group in groups}
    return next((status for status in _FURTHEST if status in present), RunStatus.PLANNED)


def _run_to_look_at(groups: Sequence[RunGroup], failed: int) -> int | None:
    """Return the open run with the most progress, or the last attempt; of failed shards, if any."""
    for status in _FURTHEST:
        if opened := [group for group in groups if group.status == status]:
            return opened[0].last_id
    unhappy = [group for group in groups if group.status not in _HAPPY]
    chosen = unhappy if failed else groups
    return max(chosen, key=lambda group: (group.attempt, group.last_id)).last_id if chosen else None

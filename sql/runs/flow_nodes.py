"""The nodes of the runs of flows: rows that are opened together, begun once, and ended once.

Code that begins or ends a node holds the lock of the flow's run, so that only one judges it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, exists, insert, not_, or_, select, update
from sqlalchemy.orm import Session, aliased

from warren.sql.batch import Guard, chunks, fetch_by_ids, update_alike, update_each
from warren.sql.explanation import Explanation
from warren.sql.models import FlowNode, Job, Run
from warren.sql.rows import fetch, query
from warren.sql.run_status import FINAL, OPEN, RunStatus
from warren.sql.runs.run_rows import RunFacts

#: The outcomes of a node that was not repeated, and of one that could no longer run.
KEPT, BYPASSED = "KEPT", "BYPASSED"

#: The `shards` of a broadcast: as many as there are executors when it is due.
BROADCAST = 0
#: The `kept_of` of a node that the repeated run does not have.
NEW = 0

_IS_OPEN = f"{FlowNode.outcome.expression} IS NULL"
_IS_OVER = f"{FlowNode.outcome.expression} IS NOT NULL"
_IS_BYPASSED = f"{FlowNode.outcome.expression} = '{BYPASSED}'"
_IS_WAITING = f"{_IS_OPEN} AND {FlowNode.begun_at.expression} IS NULL"


class NodeState(NamedTuple):
    """A node of a flow's run, without its reason and its result."""

    id: int
    flow_run_id: int
    node: str
    job_id: int
    outcome: str | None
    kept_outcome: str | None
    kept_of: int | None
    shards: int | None
    begun_at: int | None

    @property
    def real_outcome(self) -> str | None:
        """How it ended; of a KEPT node, in the run that is repeated."""
        return self.kept_outcome if self.outcome == KEPT else self.outcome

    @property
    def is_forced(self) -> bool:
        """Whether it runs however the nodes before it ended, because a repetition names it."""
        return self.kept_of is not None and self.outcome != KEPT


class StoredNode(NamedTuple):
    """Everything about a node; `reason` says why a result was not kept; lists lack `result`."""

    id: int
    flow_run_id: int
    node: str
    job_id: int
    outcome: str | None
    kept_outcome: str | None
    kept_of: int | None
    shards: int | None
    begun_at: int | None
    ended_at: int | None
    reason: str | None
    why: str | None
    result: str | None


def add(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert nodes; all rows must have the same keys."""
    for chunk in chunks(rows):
        session.execute(insert(FlowNode), chunk)


def of_flows(session: Session, run_ids: Iterable[int]) -> dict[int, list[NodeState]]:
    by_flow: dict[int, list[NodeState]] = defaultdict(list)
    wanted = query(NodeState, FlowNode)
    for state in fetch_by_ids(session, NodeState, wanted, FlowNode.flow_run_id, run_ids):
        by_flow[state.flow_run_id].append(state)
    return by_flow


def stored(session: Session, flow_run_id: int) -> list[StoredNode]:
    """Return the nodes of a flow's run with everything about them."""
    rows = query(StoredNode, FlowNode).where(FlowNode.flow_run_id == flow_run_id)
    return fetch(session, StoredNode, rows)


def names(session: Session, node_ids: Iterable[int]) -> dict[int, str]:
    return {
        node_id: name
        for chunk in chunks(sorted(set(node_ids)))
        for node_id, name in session.execute(
            select(FlowNode.id, FlowNode.node).where(FlowNode.id.in_(chunk))
        )
    }


def opened(session: Session, job_id: int, *, after_ms: int, until_ms: int) -> list[RunFacts]:
    """Return the runs of a flow in a range of due times that were opened and have no open node.

    The others are being judged at that moment.
    """
    is_open = exists().where(FlowNode.flow_run_id == Run.id, FlowNode.outcome.is_(None))
    rows = query(RunFacts, Run).where(
        Run.job_id == job_id,
        Run.scheduled_at > after_ms,
        Run.scheduled_at <= until_ms,
        Run.started_at.is_not(None),
        Run.address.is_(None),
        or_(Run.status.in_(FINAL), not_(is_open)),
    )
    return fetch(session, RunFacts, rows)


def has_any(session: Session, flow_run_id: int) -> bool:
    """Whether a run is that of a flow and was opened."""
    rows = select(FlowNode.id).where(FlowNode.flow_run_id == flow_run_id).limit(1)
    return session.execute(rows).first() is not None


def begin(session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
    """Note that nodes have begun, each with `id`, `begun_at` and `shards`."""
    return update_each(session, FlowNode, rows, guard=Guard(_IS_WAITING)) if rows else 0


def end(session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
    """Set the outcomes of nodes that have none; all rows must have the same keys."""
    return update_each(session, FlowNode, rows, guard=Guard(_IS_OPEN)) if rows else 0


def reopen(session: Session, node_ids: Iterable[int]) -> None:
    """Clear the outcomes of nodes, which are open again."""
    values = dict.fromkeys(("outcome", "ended_at", "reason", "why", "result"))
    update_alike(session, FlowNode, sorted(node_ids), values, guard=Guard(_IS_OVER))


def update_reasons(session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
    """Set the `reason` and `why` of nodes that were bypassed."""
    return update_each(session, FlowNode, rows, guard=Guard(_IS_BYPASSED)) if rows else 0


# -- open flows -------------------------------------------------------------------------------

#: Whether a node is neither over nor without a run, as a condition for EXISTS.
IS_UNFINISHED = FlowNode.outcome.is_(None)


def to_stop(session: Session, *, now_ms: int) -> dict[int, bool]:
    """Return the open runs of flows to stop, and whether for their timeout alone."""
    is_late = and_(Job.timeout > 0, Run.started_at + Job.timeout * 1_000 <= now_ms)
    rows = (
        select(Run.id, Run.kill_requested_at)
        .join(FlowNode, FlowNode.flow_run_id == Run.id)
        .join(Job, Job.id == Run.job_id)
        .where(
            FlowNode.outcome.is_(None),
            Run.status == RunStatus.RUNNING,
            or_(Run.kill_requested_at.is_not(None), is_late),
        )
        .distinct()
    )
    return {run_id: asked_at is None for run_id, asked_at in session.execute(rows)}


def open_runs(session: Session, flow_run_id: int) -> dict[int, str]:
    """Return the status of the open runs of the nodes that have begun, by id."""
    runs = (
        select(Run.id, Run.status)
        .join(FlowNode, and_(FlowNode.id == Run.origin_id, FlowNode.job_id == Run.job_id))
        .where(
            FlowNode.flow_run_id == flow_run_id,
            FlowNode.outcome.is_(None),
            Run.flow_run_id == flow_run_id,
            Run.status.in_(OPEN),
        )
    )
    return dict(session.execute(runs).all())


def left_behind(session: Session, *, before_ms: int) -> list[NodeState]:
    """Return the nodes without an outcome that have no open run.

    They began before `before_ms`; their runs ended without completion: they were cancelled with
    their job, or changed by hand.
    """
    flow = aliased(Run)
    is_open = exists().where(
        Run.job_id == FlowNode.job_id,
        Run.scheduled_at == flow.scheduled_at,
        Run.origin_id == FlowNode.id,
        Run.status.in_(OPEN),
    )
    rows = (
        query(NodeState, FlowNode)
        .join(flow, flow.id == FlowNode.flow_run_id)
        .where(FlowNode.outcome.is_(None), FlowNode.begun_at <= before_ms, not_(is_open))
    )
    return fetch(session, NodeState, rows.limit(1_000))


def stalled(session: Session, *, before_ms: int) -> list[int]:
    """Return the runs of flows that began before `before_ms` and of which no node runs.

    One whose nodes ended by completion has a running node, or has ended.
    """
    running = aliased(FlowNode)
    runs = exists().where(
        running.flow_run_id == FlowNode.flow_run_id,
        running.outcome.is_(None),
        running.begun_at.is_not(None),
    )
    flows = (
        select(FlowNode.flow_run_id)
        .join(Run, Run.id == FlowNode.flow_run_id)
        .where(
            FlowNode.outcome.is_(None),
            FlowNode.begun_at.is_(None),
            Run.status == RunStatus.RUNNING,
            Run.started_at <= before_ms,
            not_(runs),
        )
    )
    return sorted(session.execute(flows.distinct().limit(1_000)).scalars())


def ticks_of(session: Session, states: Iterable[NodeState]) -> dict[int, tuple[int, int, int]]:
    """Return the ticks of the runs of nodes, by id: job, due time and origin."""
    by_flow: dict[int, list[NodeState]] = defaultdict(list)
    for state in states:
        by_flow[state.flow_run_id].append(state)
    return {
        state.id: (state.job_id, scheduled_at, state.id)
        for chunk in chunks(sorted(by_flow))
        for run_id, scheduled_at in session.execute(
            select(Run.id, Run.scheduled_at).where(Run.id.in_(chunk))
        )
        for state in by_flow[run_id]
    }


def bypass_orphaned(
    session: Session, flow_run_ids: Iterable[int], reason: Explanation, *, now_ms: int
) -> None:
    """End the open nodes of flows that ended or were deleted."""
    values = {"outcome": BYPASSED, "reason": reason.text, "why": reason.why, "ended_at": now_ms}
    for chunk in chunks(flow_run_ids):
        session.execute(
            update(FlowNode)
            .where(FlowNode.flow_run_id.in_(chunk), FlowNode.outcome.is_(None))
            .values(**values)
        )


def orphaned(session: Session) -> list[int]:
    """Return the runs of flows that ended or were deleted, with nodes without an outcome."""
    is_open = exists().where(Run.id == FlowNode.flow_run_id, Run.status.in_(OPEN))
    flows = select(FlowNode.flow_run_id).where(FlowNode.outcome.is_(None), not_(is_open))
    return sorted(session.execute(flows.distinct().limit(1_000)).scalars())


def running(
    session: Session, app_id: int, job_ids: Collection[int]
) -> dict[int, list[tuple[int, int]]]:
    """Return the RUNNING runs of these flows of an app by job: the due time and id of each."""
    by_job: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for chunk in chunks(sorted(job_ids)):
        rows = select(Run.job_id, Run.scheduled_at, Run.id).where(
            Run.status == RunStatus.RUNNING,
            Run.app_id == app_id,
            Run.job_id.in_(chunk),
            Run.address.is_(None),
        )
        for job_id, scheduled_at, run_id in session.execute(rows):
            by_job[job_id].append((scheduled_at, run_id))
    return by_job

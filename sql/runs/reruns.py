"""Queries for re-runs: the runs after a run for the same shard of the same due time.

Of a shard's runs, those of a higher origin are newer, and of one origin those of a higher attempt:
the origin of a re-run is a run id that was reserved after all that it repeats.

Nodes of flows that have the same job share its due times; each node's runs, and what repeats them,
are due times of their own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from sqlalchemy import ColumnElement, and_, or_, select, union_all
from sqlalchemy.orm import Session, aliased

from warren.sql.batch import chunks
from warren.sql.explanation import Explanation
from warren.sql.models import FlowNode, Run, ScriptVersion
from warren.sql.rows import among
from warren.sql.run_status import LEAVES_FAILED, RunStatus

#: Conditions on due times in one statement.
_CHUNK = 100


class DueTime(NamedTuple):
    """A due time of a job, whatever caused its runs."""

    job_id: int
    scheduled_at: int


#: A node of a flow, in all runs of that flow: the flow's job, and the name of the node.
NodeKey: TypeAlias = tuple[int, str]


class HasDueTime(Protocol):
    """A row that has a job and a due time."""

    @property
    def job_id(self) -> int: ...
    @property
    def scheduled_at(self) -> int: ...


def due_time_of(run: HasDueTime) -> DueTime:
    return DueTime(run.job_id, run.scheduled_at)


_Asked = aliased(Run)
_SAME_SHARD = and_(
    Run.job_id == _Asked.job_id,
    Run.scheduled_at == _Asked.scheduled_at,
    Run.shard_index == _Asked.shard_index,
)
_LATER = select(
    _Asked.id,
    Run.id,
    Run.status,
    Run.origin_id,
    Run.attempt,
    or_(
        _Asked.flow_run_id.is_not(None),
        _Asked.rerun_of.is_not(None),
        Run.flow_run_id.is_not(None),
        Run.rerun_of.is_not(None),
    ),
)
# Two statements, so that each is a short range of the index of ticks.
_NEXT_ATTEMPTS = _LATER.join(
    Run, and_(_SAME_SHARD, Run.origin_id == _Asked.origin_id, Run.attempt > _Asked.attempt)
)
_NEXT_ORIGINS = _LATER.join(Run, and_(_SAME_SHARD, Run.origin_id > _Asked.origin_id))


def later(session: Session, run_ids: Iterable[int]) -> dict[int, dict[int, RunStatus]]:
    """Return the later runs of each run, for the same shard of the same due time.

    Each has its status by its id, newest last; runs without any are left out.
    """
    found: list[tuple[int, int, int, int, RunStatus]] = []
    maybe_of_nodes: set[int] = set()
    for chunk in chunks(run_ids):
        reads = (
            statement.where(among(_Asked.id, chunk))
            for statement in (_NEXT_ATTEMPTS, _NEXT_ORIGINS)
        )
        for after_id, run_id, status, origin_id, attempt, is_maybe in session.execute(
            union_all(*reads)
        ):
            found.append((origin_id, attempt, after_id, run_id, RunStatus(status)))
            if is_maybe:
                maybe_of_nodes |= {after_id, run_id}
    nodes = nodes_of(session, maybe_of_nodes)
    by_run: dict[int, dict[int, RunStatus]] = defaultdict(dict)
    for _, _, after_id, run_id, status in sorted(found):
        if nodes.get(after_id) == nodes.get(run_id):
            by_run[after_id][run_id] = status
    return dict(by_run)


def not_begun(session: Session, run_ids: Iterable[int]) -> dict[int, Explanation]:
    """Return why runs failed that were never sent, by run id; other runs are left out."""
    wanted = select(Run.id, Run.message, Run.message_why).where(
        Run.status == RunStatus.FAILED, Run.routed_at.is_(None), Run.started_at.is_(None)
    )
    return {
        run_id: Explanation(message or "", why)
        for chunk in chunks(run_ids)
        for run_id, message, why in session.execute(wanted.where(among(Run.id, chunk)))
    }


def nodes_of(session: Session, run_ids: Collection[int]) -> dict[int, NodeKey]:
    """Return the nodes whose runs these are or repeat, by run id; other runs are left out."""
    at = {run_id: run_id for run_id in run_ids}  # each run, or what it repeats
    of_nodes: dict[int, tuple[int, int]] = {}
    while at:
        columns = select(Run.id, Run.rerun_of, Run.flow_run_id, Run.origin_id)
        rows = {
            row.id: row
            for chunk in chunks(sorted(set(at.values())))
            for row in session.execute(columns.where(among(Run.id, chunk)))
        }
        before: dict[int, int] = {}
        for run_id, at_id in at.items():
            if (row := rows.get(at_id)) is None:
                continue
            if row.flow_run_id is not None:
                of_nodes[run_id] = (row.flow_run_id, row.origin_id)
            elif row.rerun_of is not None:
                before[run_id] = row.rerun_of
        at = before
    keys = _node_keys(session, set(of_nodes.values()))
    return {run_id: keys[node] for run_id, node in of_nodes.items()}


def _node_keys(
    session: Session, nodes: Collection[tuple[int, int]]
) -> dict[tuple[int, int], NodeKey]:
    """Return the keys of nodes, given as the run of the flow and the id of the node.

    Those whose rows are gone differ from all others.
    """
    keys = {(flow_id, node_id): (0, str(node_id)) for flow_id, node_id in nodes}
    flows = select(FlowNode.flow_run_id, FlowNode.id, Run.job_id, FlowNode.node).join(
        Run, Run.id == FlowNode.flow_run_id
    )
    for chunk in chunks(sorted({node_id for _, node_id in nodes})):
        for flow_id, node_id, job_id, node in session.execute(
            flows.where(among(FlowNode.id, chunk))
        ):
            keys[flow_id, node_id] = (job_id, node)
    return keys


def superseded(session: Session, run_ids: Iterable[int]) -> set[int]:
    """Return the failed runs whose shard is decided by a later run.

    A later run that was killed, refused or cancelled decides nothing: the failure still stands.
    """
    return {
        run_id
        for run_id, runs in later(session, run_ids).items()
        if any(status not in LEAVES_FAILED for status in runs.values())
    }


def due_times(session: Session, run_ids: Iterable[int]) -> dict[int, DueTime]:
    """Return the due times of the runs that exist among these."""
    columns = select(Run.id, Run.job_id, Run.scheduled_at)
    return {
        run_id: DueTime(job_id, scheduled_at)
        for chunk in chunks(run_ids)
        for run_id, job_id, scheduled_at in session.execute(columns.where(among(Run.id, chunk)))
    }


def children_that_ran(
    session: Session, times: Collection[DueTime], children: Mapping[int, Sequence[int]]
) -> dict[DueTime, set[int]]:
    """Return which of the jobs' current `children` have a run caused by one of these times."""
    parents = [time for time in times if children.get(time.job_id)]
    heads: dict[DueTime, list[int]] = defaultdict(list)
    for chunk in chunks(parents, _CHUNK):
        first = select(Run.job_id, Run.scheduled_at, Run.id).where(
            or_(*map(_is_at, chunk)), Run.attempt == 0
        )
        for job_id, scheduled_at, run_id in session.execute(first):
            heads[DueTime(job_id, scheduled_at)].append(run_id)
    links = [(time, child) for time in heads for child in children[time.job_id]]
    ran: dict[DueTime, set[int]] = defaultdict(set)
    for pairs in chunks(links, _CHUNK):
        causes = {cause: time for time, _ in pairs for cause in heads[time]}
        caused = select(Run.job_id, Run.origin_id).where(
            or_(
                *(
                    and_(_is_at(DueTime(child, time.scheduled_at)), Run.origin_id.in_(heads[time]))
                    for time, child in pairs
                )
            )
        )
        for child, cause in session.execute(caused):
            ran[causes[cause]].add(child)
    return dict(ran)


def kept_versions(session: Session, version_ids: Iterable[int]) -> set[int]:
    """Return which versions of scripts are still kept."""
    return {
        version_id
        for chunk in chunks(sorted(set(version_ids)))
        for version_id in session.execute(
            select(ScriptVersion.id).where(among(ScriptVersion.id, chunk))
        ).scalars()
    }


def _is_at(time: DueTime) -> ColumnElement[bool]:
    return and_(Run.job_id == time.job_id, Run.scheduled_at == time.scheduled_at)

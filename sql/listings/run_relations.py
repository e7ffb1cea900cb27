"""The relatives of a job (ancestors, descendants) and of a run (its tick, parent and children).

Those of a flow's run are its nodes: how each ended, its job, and its runs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import func, null, select
from sqlalchemy.orm import Session, aliased

from warren.sql.batch import chunks
from warren.sql.jobs import job_links
from warren.sql.listings import job_search
from warren.sql.listings.run_messages import lines
from warren.sql.models import FlowNode, Job, Run, ScriptVersion
from warren.sql.models.job_tables import FLOW_TYPE
from warren.sql.rows import Query, fetch, fetch_one, query
from warren.sql.run_status import OPEN
from warren.sql.runs import calls
from warren.sql.runs.flow_nodes import StoredNode
from warren.sql.runs.run_rows import DetailedRun

#: The most generations in each direction, and the most jobs in all.
MAX_GENERATIONS, MAX_JOBS = 6, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Jobs by id as APP/NAME, and pairs of parent and child, or flow and node, among them.

    `is_cut`: there are more jobs than the limits allow.
    """

    names: dict[int, str]
    links: list[tuple[int, int]]
    is_cut: bool


def read(session: Session, job_id: int, app_ids: Collection[int] | None) -> Family:
    """Return the family of a job, as far as the visitor may see it.

    Jobs that are reached only through a hidden job are hidden too.
    """
    copied = job_links.copied(session)

    def below(job_ids: Collection[int]) -> dict[int, set[int]]:
        found = {job_id: set(ids) for job_id, ids in job_links.children(session, job_ids).items()}
        for flow_id, node_ids in job_links.nodes_of(session, job_ids).items():
            found[flow_id] = found.get(flow_id, set()) | node_ids
        return found

    def children(job_ids: Collection[int]) -> set[int]:
        return {child for child_ids in below(job_ids).values() for child in child_ids}

    def parents(job_ids: Collection[int]) -> set[int]:
        flows = job_links.flows_with(session, job_ids)
        of_flows = {flow_id for flow_ids in flows.values() for flow_id in flow_ids}
        return job_links.parent_ids(session, job_ids, copied) | of_flows

    def visible(job_ids: Collection[int]) -> dict[int, str]:
        return job_search.names(session, job_ids, app_ids)

    family = visible([job_id])
    cuts = [_walk(family, job_id, step, visible) for step in (children, parents)]
    links = [
        (parent, child)
        for parent, child_ids in below(family).items()
        for child in sorted(child_ids)
        if child in family
    ]
    return Family(names=family, links=links, is_cut=any(cuts))


def _walk(
    family: dict[int, str],
    start: int,
    step: Callable[[Collection[int]], set[int]],
    visible: Callable[[Collection[int]], dict[int, str]],
) -> bool:
    """Add the generations in one direction to `family`; return whether some were left out."""
    edge = {start}
    for _ in range(MAX_GENERATIONS):
        generation = visible(step(edge) - family.keys())
        room = MAX_JOBS - len(family)
        if not generation:
            return False
        family.update(list(generation.items())[:room])
        if len(generation) > room:
            return True
        edge = set(generation)
    return bool(visible(step(edge) - family.keys()))


#: The most runs of the tick that are shown; a broadcast may have thousands of shards.
MAX_TICK_RUNS = 400
#: The most re-runs, runs of children, and called runs that are shown of each.
MAX_RELATED_RUNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """The runs related to one run; `parent` called it, or is the first run of the causing tick.

    `reruns` are all runs of any origin that repeat one of its due time, without their retries.
    """

    tick: list[DetailedRun]
    reruns: list[DetailedRun]
    parent: DetailedRun | None
    children: list[DetailedRun]
    called: list[DetailedRun]


def relations(session: Session, of: DetailedRun, app_ids: Collection[int] | None) -> Relations:
    """Return the related runs in the given apps; None = all apps."""
    tick = of_tick(session, of, app_ids)
    head = tick[0].id if tick else of.id
    return Relations(
        tick=tick,
        reruns=_reruns(session, of, app_ids),
        parent=_parent(session, of, app_ids),
        children=_children(session, of, head, app_ids),
        called=_called(session, of, app_ids),
    )


def open_of_tick(session: Session, of: DetailedRun) -> list[int]:
    """Return the runs of a run's tick that are not over, shard by shard, without a limit."""
    not_over = select(Run.id).where(
        Run.job_id == of.job_id,
        Run.scheduled_at == of.scheduled_at,
        Run.origin_id == of.origin_id,
        Run.status.in_(OPEN),
    )
    return list(session.execute(not_over.order_by(Run.shard_index, Run.attempt)).scalars())


def of_tick(
    session: Session, of: DetailedRun, app_ids: Collection[int] | None
) -> list[DetailedRun]:
    """Return the first MAX_TICK_RUNS runs of a run's tick, in order of shard and attempt."""
    tick = (of.job_id, of.scheduled_at, of.origin_id)
    return _of_tick(session, tick, app_ids, limit=MAX_TICK_RUNS)


def _reruns(
    session: Session, of: DetailedRun, app_ids: Collection[int] | None
) -> list[DetailedRun]:
    repeated = _lines(app_ids).where(
        Run.job_id == of.job_id,
        Run.scheduled_at == of.scheduled_at,
        Run.attempt == 0,
        Run.rerun_of.is_not(None),
    )
    in_order = repeated.order_by(Run.origin_id, Run.shard_index).limit(MAX_RELATED_RUNS)
    return fetch(session, DetailedRun, in_order)


def _parent(
    session: Session, of: DetailedRun, app_ids: Collection[int] | None
) -> DetailedRun | None:
    """Return the run that called it, or that `origin_id` names if that is of another job."""
    if of.called_by is not None:
        return fetch_one(session, DetailedRun, _lines(app_ids).where(Run.id == of.called_by))
    if not of.origin_id:
        return None
    origin = fetch_one(session, DetailedRun, _lines(app_ids).where(Run.id == of.origin_id))
    return None if origin is None or origin.job_id == of.job_id else origin


def _children(
    session: Session, of: DetailedRun, head: int, app_ids: Collection[int] | None
) -> list[DetailedRun]:
    """Return the runs of current children whose origin is `head`, the tick's first run."""
    child_ids = job_links.children(session, [of.job_id]).get(of.job_id, ())
    # One query for each child: with one for all, MariaDB would read the whole table.
    keys = [(child_id, of.scheduled_at, head) for child_id in child_ids[:MAX_RELATED_RUNS]]
    runs = [run for key in keys for run in _of_tick(session, key, app_ids, limit=MAX_RELATED_RUNS)]
    return runs[:MAX_RELATED_RUNS]


def _called(
    session: Session, of: DetailedRun, app_ids: Collection[int] | None
) -> list[DetailedRun]:
    run_ids = calls.of_run(session, of)[:MAX_RELATED_RUNS]
    if not run_ids:
        return []
    return fetch(session, DetailedRun, _lines(app_ids).where(Run.id.in_(run_ids)).order_by(Run.id))


def _of_tick(
    session: Session, tick: tuple[int, int, int], app_ids: Collection[int] | None, *, limit: int
) -> list[DetailedRun]:
    job_id, scheduled_at, origin_id = tick
    runs = _lines(app_ids).where(
        Run.job_id == job_id, Run.scheduled_at == scheduled_at, Run.origin_id == origin_id
    )
    in_order = runs.order_by(Run.shard_index, Run.attempt)
    return fetch(session, DetailedRun, in_order.limit(limit))


def _lines(app_ids: Collection[int] | None) -> Query:
    return lines() if app_ids is None else lines().where(Run.app_id.in_(app_ids))


class RunGroup(NamedTuple):
    """The runs of a node that have the same status; `last_id` is the highest id among them."""

    node_id: int
    status: str
    runs: int
    last_id: int
    attempt: int
    started_at: int | None


class FlowPlace(NamedTuple):
    """Where a node's run belongs: the flow's run, the name of the flow, and of the node."""

    run_id: int
    flow_run_id: int
    flow: str | None
    node: str | None


def graph_source(session: Session, version_id: int) -> str | None:
    """Return the graph that a version of type FLOW holds; None if there is no such version."""
    source = select(ScriptVersion.source).where(
        ScriptVersion.id == version_id, ScriptVersion.script_type == FLOW_TYPE
    )
    return session.execute(source).scalar_one_or_none()


def node_lines(session: Session, flow_run_id: int) -> list[tuple[StoredNode, int | None]]:
    """Return the nodes of a flow's run without their results, in the order in which they began.

    Each comes with the flow's run in which a KEPT one was over.
    """
    kept = aliased(FlowNode)
    kept_in = select(kept.flow_run_id).where(kept.id == FlowNode.kept_of).scalar_subquery()
    nodes = (
        query(StoredNode, FlowNode, result=null())
        .add_columns(kept_in)
        .where(FlowNode.flow_run_id == flow_run_id)
        .order_by(FlowNode.begun_at.is_(None), FlowNode.begun_at, FlowNode.id)
    )
    return [(StoredNode._make(node), run_id) for *node, run_id in session.execute(nodes)]


def run_groups(
    session: Session, flow_run_id: int, scheduled_at: int, job_ids: Collection[int]
) -> list[RunGroup]:
    """Return the runs of all nodes of a flow's run, along the unique key of ticks."""
    groups: list[RunGroup] = []
    for chunk in chunks(sorted(set(job_ids))):
        grouped = (
            query(
                RunGroup,
                Run,
                node_id=Run.origin_id,
                runs=func.count(),
                last_id=func.max(Run.id),
                attempt=func.max(Run.attempt),
                started_at=func.min(Run.started_at),
            )
            .where(
                Run.job_id.in_(chunk),
                Run.scheduled_at == scheduled_at,
                Run.flow_run_id == flow_run_id,
            )
            .group_by(Run.origin_id, Run.status)
        )
        groups += fetch(session, RunGroup, grouped)
    return groups


def flow_places(
    session: Session, run_ids: Collection[int], app_ids: Collection[int] | None
) -> dict[int, FlowPlace]:
    """Return where the runs of nodes among these belong, by the run's id.

    Flows in other apps than these are left out; None = all apps.
    """
    flow_run = aliased(Run)
    belonging = (
        query(FlowPlace, Run, run_id=Run.id, flow=Job.name, node=FlowNode.node)
        .join(flow_run, flow_run.id == Run.flow_run_id)
        .outerjoin(Job, Job.id == flow_run.job_id)
        .outerjoin(FlowNode, FlowNode.id == Run.origin_id)
        .where(Run.id.in_(run_ids))
    )
    if app_ids is not None:
        belonging = belonging.where(flow_run.app_id.in_(app_ids))
    return {place.run_id: place for place in fetch(session, FlowPlace, belonging)}

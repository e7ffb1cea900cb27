"""The links between jobs: a row for each child of a parent, and for each node of a flow.

`child_ids` repeats the ids of children, if they fit, for programs that read XXL-JOB's column. It is
used only for a job without rows of `warren_job_child`, which was copied from XXL-JOB.

The graph of a flow names its jobs; the rows of `warren_flow_job` say which ones it meant when it
was saved. They are written under the lock that also keeps children from forming circles.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import ColumnElement, ScalarSelect, delete, insert, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from warren.sql.batch import chunks
from warren.sql.jobs import due_jobs
from warren.sql.models import App, FlowJob, Job, JobChild
from warren.sql.registry import cluster

#: The length of the column `child_ids`.
MAX_IDS_LENGTH = 255


class Followed(NamedTuple):
    """What the end of a job's tick may lead to; the webhook is the job's, else its app's."""

    schedule_kind: str
    children: tuple[int, ...]
    webhook_url: str
    webhook_when: str


def ids(child_ids: str | None) -> tuple[int, ...]:
    """Return the ids in a job's `child_ids`; other text, which XXL-JOB allows, is ignored."""
    return tuple(int(part) for part in (child_ids or "").split(",") if part.strip().isdecimal())


def joined(job_ids: Iterable[int]) -> str:
    """Return ids in the form of `child_ids`."""
    return ",".join(map(str, job_ids))


def lock(session: Session) -> None:
    """Lock all changes of children until this transaction ends."""
    cluster.lock(session)


def followed(
    session: Session, job_ids: Iterable[int], *, waiting_kinds: Collection[str]
) -> dict[int, Followed]:
    """Return, by id, the jobs among these whose ends lead to children, a next tick, or a webhook.

    `waiting_kinds` are the schedule kinds whose next tick depends on the end of the last one.
    """
    waits = Job.schedule_kind.in_(waiting_kinds)
    return dict(_read(session, job_ids, waits, *_HAS_CHILDREN, *_HAS_WEBHOOK))


def children(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the ids of the jobs' children, in order; jobs without children are left out."""
    return {
        job_id: followed.children
        for job_id, followed in _read(session, sorted(set(job_ids)), *_HAS_CHILDREN)
        if followed.children
    }


def children_of(session: Session, job_id: int) -> tuple[int, ...]:
    """Return the ids of one job's children, in order."""
    return children(session, [job_id]).get(job_id, ())


def set_children(session: Session, families: Sequence[tuple[Job, Sequence[int]]]) -> None:
    """Replace the children of locked jobs."""
    for job_ids in chunks([job.id for job, _ in families]):
        session.execute(delete(JobChild).where(JobChild.job_id.in_(job_ids)))
    rows = [
        {"job_id": job.id, "position": position, "child_id": child_id}
        for job, child_ids in families
        for position, child_id in enumerate(child_ids)
    ]
    for chunk in chunks(rows):
        session.execute(insert(JobChild), chunk)
    for job, child_ids in families:
        text = joined(child_ids)
        job.child_ids = text if len(text) <= MAX_IDS_LENGTH else ""
    due_jobs.write(session, [job for job, _ in families])


def with_children(session: Session) -> set[int]:
    """Return the ids of all jobs that have children."""
    listed = session.execute(select(JobChild.job_id).distinct()).scalars()
    return {*listed, *session.execute(select(Job.id).where(Job.child_ids != "")).scalars()}


def copied(session: Session) -> dict[int, tuple[int, ...]]:
    """Return the children of all jobs that have them only in `child_ids`. Reads all jobs."""
    has_rows = select(JobChild.job_id).where(JobChild.job_id == Job.id).exists()
    uncopied = select(Job.id, Job.child_ids).where(Job.child_ids != "", ~has_rows)
    return {job_id: ids(text) for job_id, text in session.execute(uncopied)}


def parent_ids(
    session: Session,
    job_ids: Collection[int],
    among_copied: Mapping[int, Collection[int]] | None = None,
) -> set[int]:
    """Return the ids of all jobs that have one of these as a child.

    `among_copied` is the result of `copied`, for callers that ask several times.
    """
    parents: set[int] = set()
    for chunk in chunks(sorted(job_ids)):
        listed = select(JobChild.job_id).where(JobChild.child_id.in_(chunk)).distinct()
        parents |= set(session.execute(listed).scalars())
    links = copied(session) if among_copied is None else among_copied
    wanted = set(job_ids)
    return parents | {
        job_id for job_id, child_ids in links.items() if not wanted.isdisjoint(child_ids)
    }


_HAS_CHILDREN = (Job.child_ids != "", JobChild.child_id.is_not(None))


def _of_app(column: InstrumentedAttribute[str | None]) -> ScalarSelect[str | None]:
    """Return a column of a job's app, as a subquery: a join might make it read all apps first."""
    return select(column).where(App.id == Job.app_id).scalar_subquery()


_APP_URL = _of_app(App.webhook_url)
_HAS_WEBHOOK = (Job.webhook_url != "", _APP_URL != "")


def _read(
    session: Session, job_ids: Iterable[int], *which: ColumnElement[bool]
) -> Iterator[tuple[int, Followed]]:
    """Yield the jobs for which one of the conditions holds, with their children."""
    statement = (
        select(
            Job.id,
            Job.schedule_kind,
            Job.child_ids,
            JobChild.child_id,
            Job.webhook_url,
            Job.webhook_when,
            _APP_URL.label("app_url"),
            _of_app(App.webhook_when).label("app_when"),
        )
        .outerjoin(JobChild, JobChild.job_id == Job.id)
        .where(or_(*which))
        .order_by(Job.id, JobChild.position)
    )
    for chunk in chunks(job_ids):
        rows = session.execute(statement.where(Job.id.in_(chunk)))
        for job_id, group in groupby(rows, key=lambda row: row.id):
            rows_of_job = list(group)
            first = rows_of_job[0]
            listed = tuple(row.child_id for row in rows_of_job if row.child_id is not None)
            hook = (first.webhook_url, first.webhook_when)
            url, when = hook if hook[0] else (first.app_url, first.app_when)
            children = listed or ids(first.child_ids)
            yield job_id, Followed(first.schedule_kind, children, url or "", when or "")


def set_nodes(session: Session, nodes: Mapping[int, Collection[int]]) -> None:
    """Replace the jobs that are nodes of these flows."""
    for chunk in chunks(sorted(nodes)):
        session.execute(delete(FlowJob).where(FlowJob.flow_id.in_(chunk)))
    rows = [
        {"flow_id": flow_id, "job_id": job_id}
        for flow_id, job_ids in nodes.items()
        for job_id in sorted(set(job_ids))
    ]
    for part in chunks(rows):
        session.execute(insert(FlowJob), part)


def nodes_of(session: Session, flow_ids: Iterable[int]) -> dict[int, set[int]]:
    by_flow: dict[int, set[int]] = defaultdict(set)
    for chunk in chunks(sorted(set(flow_ids))):
        rows = select(FlowJob.flow_id, FlowJob.job_id).where(FlowJob.flow_id.in_(chunk))
        for flow_id, job_id in session.execute(rows):
            by_flow[flow_id].add(job_id)
    return by_flow


def all_flows(session: Session) -> set[int]:
    """Return all jobs that have nodes."""
    return set(session.execute(select(FlowJob.flow_id).distinct()).scalars())


def flows_with(session: Session, job_ids: Iterable[int]) -> dict[int, set[int]]:
    """Return the flows that have these jobs as nodes, by job."""
    by_job: dict[int, set[int]] = defaultdict(set)
    for chunk in chunks(sorted(set(job_ids))):
        rows = select(FlowJob.job_id, FlowJob.flow_id).where(FlowJob.job_id.in_(chunk))
        for job_id, flow_id in session.execute(rows):
            by_job[job_id].add(flow_id)
    return by_job


def flows_among(session: Session, job_ids: Iterable[int]) -> set[int]:
    return {
        job_id
        for chunk in chunks(sorted(set(job_ids)))
        for job_id in session.execute(
            select(Job.id).where(Job.id.in_(chunk), Job.flow.is_not(None))
        ).scalars()
    }

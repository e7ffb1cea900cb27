"""Parents and children: which jobs run after which, in a row of `warren_job_child` for each child.

`child_ids` repeats the ids, while they fit, for those who read XXL-JOB's column. It counts only
for a job without such rows: one that was copied from there.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import ColumnElement, ScalarSelect, delete, insert, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from sql.batch import chunks
from sql.models import App, Cluster, Job, JobChild

#: Characters that `child_ids` holds.
LONGEST_IDS = 255


class Followed(NamedTuple):
    """What the end of a job's tick may lead to.

    `webhook_url` hears of the ends that `webhook_when` names: the job's, else its app's.
    """

    schedule_kind: str
    children: tuple[int, ...]
    webhook_url: str
    webhook_when: str


class Parent(NamedTuple):
    """A job that has children, and its app."""

    id: int
    app: str
    name: str


def ids(child_ids: str | None) -> tuple[int, ...]:
    """Return the ids in a job's `child_ids`; what is none, as XXL-JOB allows, is left out."""
    return tuple(int(part) for part in (child_ids or "").split(",") if part.strip().isdecimal())


def joined(job_ids: Iterable[int]) -> str:
    """Return ids as `child_ids` holds them."""
    return ",".join(map(str, job_ids))


def lock(session: Session) -> None:
    """Keep others from changing children until this transaction ends."""
    session.execute(select(Cluster.id).with_for_update()).all()


def followed(
    session: Session, job_ids: Iterable[int], *, waiting_kinds: Collection[str]
) -> dict[int, Followed]:
    """Return, by id, those of the jobs whose end leads to more: children, next tick, a webhook.

    `waiting_kinds` are the kinds of schedule whose next tick the end of a run sets.
    """
    waits = Job.schedule_kind.in_(waiting_kinds)
    return dict(_read(session, job_ids, waits, *_HAS_CHILDREN, *_HAS_WEBHOOK))


def children(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the ids of the children, in order, of those of the jobs that have any."""
    return {
        job_id: found.children
        for job_id, found in _read(session, sorted(set(job_ids)), *_HAS_CHILDREN)
        if found.children
    }


def children_of(session: Session, job_id: int) -> tuple[int, ...]:
    """Return the ids of one job's children, in order."""
    return children(session, [job_id]).get(job_id, ())


def set_children(session: Session, job: Job, child_ids: Sequence[int]) -> None:
    """Give a locked job these children and no others."""
    give_children(session, [(job, child_ids)])


def give_children(session: Session, families: Sequence[tuple[Job, Sequence[int]]]) -> None:
    """Give locked jobs these children and no others."""
    for some in chunks([job.id for job, _ in families]):
        session.execute(delete(JobChild).where(JobChild.job_id.in_(some)))
    rows = [
        {"job_id": job.id, "position": position, "child_id": child_id}
        for job, child_ids in families
        for position, child_id in enumerate(child_ids)
    ]
    for chunk in chunks(rows):
        session.execute(insert(JobChild), chunk)
    for job, child_ids in families:
        text = joined(child_ids)
        job.child_ids = text if len(text) <= LONGEST_IDS else ""
    session.flush()


def with_children(session: Session) -> set[int]:
    """Return every job that has children."""
    listed = session.execute(select(JobChild.job_id).distinct()).scalars()
    return {*listed, *session.execute(select(Job.id).where(Job.child_ids != "")).scalars()}


def parent_ids(session: Session, job_ids: Collection[int]) -> set[int]:
    """Return every job that has one of these as a child."""
    found: set[int] = set()
    for chunk in chunks(sorted(job_ids)):
        listed = select(JobChild.job_id).where(JobChild.child_id.in_(chunk)).distinct()
        found |= set(session.execute(listed).scalars())
    has_rows = select(JobChild.job_id).where(JobChild.job_id == Job.id).exists()
    copied = select(Job.id, Job.child_ids).where(Job.child_ids != "", ~has_rows)
    wanted = set(job_ids)
    return found | {
        job_id for job_id, text in session.execute(copied) if not wanted.isdisjoint(ids(text))
    }


def parents(session: Session, job_ids: Collection[int]) -> list[Parent]:
    """Return every job that has one of these as a child, by app and name."""
    known = names(session, parent_ids(session, job_ids))
    found = [Parent(job_id, app, name) for job_id, (app, name) in known.items()]
    return sorted(found, key=lambda one: (one.app, one.name))


def children_names(session: Session, job_ids: Iterable[int]) -> dict[int, list[str]]:
    """Return the children of jobs as APP/NAME."""
    found = children(session, job_ids)
    known = names(session, {child for child_ids in found.values() for child in child_ids})
    return {
        job_id: ["/".join(known[child]) for child in child_ids if child in known]
        for job_id, child_ids in found.items()
    }


def names(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Return app and name of those of the jobs that exist."""
    return {
        job_id: (app, name)
        for chunk in chunks(sorted(set(job_ids)))
        for job_id, app, name in session.execute(
            select(Job.id, App.name, Job.name)
            .join(App, App.id == Job.app_id)
            .where(Job.id.in_(chunk))
        )
    }


_HAS_CHILDREN = (Job.child_ids != "", JobChild.child_id.is_not(None))


def _of_app(column: InstrumentedAttribute[str | None]) -> ScalarSelect[str | None]:
    """Return a column of a job's app. A join would tempt the database to begin with all apps."""
    return select(column).where(App.id == Job.app_id).scalar_subquery()


_APP_URL = _of_app(App.webhook_url)
_HAS_WEBHOOK = (Job.webhook_url != "", _APP_URL != "")


def _read(
    session: Session, job_ids: Iterable[int], *which: ColumnElement[bool]
) -> Iterator[tuple[int, Followed]]:
    """Give those of the jobs for which one of the conditions holds, with their children."""
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
        for job_id, found in groupby(rows, key=lambda row: row.id):
            first, *others = found
            listed = tuple(row.child_id for row in (first, *others) if row.child_id is not None)
            hook = (first.webhook_url, first.webhook_when)
            url, when = hook if hook[0] else (first.app_url, first.app_when)
            children = listed or ids(first.child_ids)
            yield job_id, Followed(first.schedule_kind, children, url or "", when or "")

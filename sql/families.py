"""Parents and children: which jobs run after which, as ids in `child_jobid`."""

from collections.abc import Collection, Iterable

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.models import App, Cluster, Job
from sql.rows import AnyRow


def ids(child_jobid: str | None) -> tuple[int, ...]:
    """Return the ids in a job's `child_jobid`; what is none, as XXL-JOB allows, is left out."""
    return tuple(int(part) for part in (child_jobid or "").split(",") if part.strip().isdecimal())


def lock(session: Session) -> None:
    """Let nobody else change who is whose child until this transaction ends."""
    session.execute(select(Cluster.id).with_for_update()).all()


def followed(session: Session, job_ids: Iterable[int]) -> dict[int, AnyRow]:
    """Return, by id, those of the jobs whose end leads to more: children, or their next tick."""
    return {
        row.id: row
        for chunk in chunks(job_ids)
        for row in session.execute(
            select(Job.id, Job.schedule_type, Job.child_jobid).where(
                Job.id.in_(chunk), or_(Job.schedule_type == "FIX_DELAY", Job.child_jobid != "")
            )
        )
    }


def children(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the ids of the children of those of the jobs that have any."""
    return {
        row.id: ids(row.child_jobid)
        for chunk in chunks(sorted(set(job_ids)))
        for row in session.execute(
            select(Job.id, Job.child_jobid).where(Job.id.in_(chunk), Job.child_jobid != "")
        )
    }


def parents(session: Session, job_ids: Collection[int]) -> list[AnyRow]:
    """Return `id, name, app, child_jobid` of every job that has one of these as a child."""
    statement = (
        select(Job.id, Job.job_desc.label("name"), App.app_name.label("app"), Job.child_jobid)
        .join(App, App.id == Job.job_group)
        .where(Job.child_jobid != "")
        .order_by(App.app_name, Job.job_desc)
    )
    wanted = set(job_ids)
    rows = session.execute(statement)
    return [row for row in rows if not wanted.isdisjoint(ids(row.child_jobid))]


def children_names(session: Session, jobs: Iterable[AnyRow | Job]) -> dict[int, list[str]]:
    """Return the children of jobs, given with `id` and `child_jobid`, as APP/NAME."""
    children = {job.id: ids(job.child_jobid) for job in jobs if job.child_jobid}
    known = names(session, {child for found in children.values() for child in found})
    return {
        job_id: ["/".join(known[child]) for child in found if child in known]
        for job_id, found in children.items()
    }


def names(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Return app and name of those of the jobs that exist."""
    return {
        row.id: (row.app_name, row.job_desc)
        for chunk in chunks(sorted(set(job_ids)))
        for row in session.execute(
            select(Job.id, App.app_name, Job.job_desc)
            .join(App, App.id == Job.job_group)
            .where(Job.id.in_(chunk))
        )
    }

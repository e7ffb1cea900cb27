"""What people may choose from when they look for runs: their apps, and a job by its name."""

from collections.abc import Collection, Sequence

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from sql.models import App, Job, Run
from sql.rows import Rows


def apps(session: Session, app_ids: Collection[int] | None) -> Rows:
    """Return `id, app_name` of apps by name; None = of all."""
    statement = select(App.id, App.app_name).order_by(App.app_name)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return session.execute(statement).all()


def jobs_named(session: Session, name: str, app_ids: Collection[int] | None) -> Sequence[int]:
    """Return the ids of up to two jobs called NAME, or APP/NAME, in the given apps."""
    # By app and name, for which there is an index; a name alone would be looked for in all jobs.
    known = {row.app_name: row.id for row in apps(session, app_ids)}
    app, _, short = name.partition("/")
    ways = [and_(Job.job_group.in_(sorted(known.values())), Job.job_desc == name)]
    if app in known:
        ways.append(and_(Job.job_group == known[app], Job.job_desc == short))
    found = {
        job_id
        for way in ways
        for job_id in session.execute(select(Job.id).where(way).limit(2)).scalars()
    }
    return sorted(found)


def job_names(
    session: Session, text: str, app_ids: Collection[int] | None, *, limit: int
) -> list[str]:
    """Return the first jobs of the given apps whose name has a text in it, as APP/NAME.

    The text may itself be APP/ and a part of a name.
    """
    known = {row.app_name: row.id for row in apps(session, app_ids)}
    app, _, short = text.partition("/")
    wanted = [known[app]] if app in known and "/" in text else sorted(known.values())
    part = short if app in known and "/" in text else text
    by_id = {app_id: name for name, app_id in known.items()}
    found = session.execute(
        select(Job.job_group, Job.job_desc)
        .with_hint(Job, "FORCE INDEX (i_search)", "mysql")
        .where(
            Job.job_group.in_(wanted),
            # The column's collation tells capitals from small letters; people do not.
            func.lower(Job.job_desc).contains(part.lower(), autoescape=True),
        )
        .order_by(Job.job_group, Job.job_desc)
        .limit(limit)
    )
    return [f"{by_id[row.job_group]}/{row.job_desc}" for row in found]


def has_runs(session: Session, job_id: int, app_ids: Collection[int] | None) -> bool:
    """Return whether the last run of a job, which may be gone, belongs to the given apps."""
    newest = (
        select(Run.job_group)
        .where(Run.job_id == job_id)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
        .limit(1)
    )
    app_id = session.execute(newest).scalar_one_or_none()
    return app_id is not None and (app_ids is None or app_id in app_ids)

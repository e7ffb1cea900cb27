"""Lists apps with the numbers of their jobs; finds what prevents the deletion of an app."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.models import App, AppDay, Job, Registration, Run
from warren.sql.models.job_tables import DEFAULT_ROUTE
from warren.sql.registry import pauses
from warren.sql.registry.presence import EXECUTOR
from warren.sql.run_status import OPEN

#: The route of a job's runs: the job's own, else its app's, else the default.
EFFECTIVE_ROUTE = func.coalesce(func.nullif(Job.route, ""), App.route, DEFAULT_ROUTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What still uses an app; `jobs` has the names of some of its jobs."""

    jobs: list[str]
    job_count: int
    has_open_runs: bool


def listing(
    session: Session, app_ids: Collection[int] | None, *, after: str = "", limit: int
) -> list[tuple[App, int]]:
    """Return apps and the numbers of their jobs, sorted by name, after the name `after`.

    `app_ids` None = all.
    """
    jobs = select(func.count()).where(Job.app_id == App.id).correlate(App).scalar_subquery()
    statement = select(App, jobs).where(App.name > after).order_by(App.name).limit(limit)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return [(app, number) for app, number in session.execute(statement)]


def with_started_jobs(session: Session, app_ids: Collection[int] | None) -> set[str]:
    """Return the names of apps that have a started job."""
    started = exists().where(Job.app_id == App.id, Job.is_enabled == 1)
    statement = select(App.name).where(started)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return set(session.execute(statement).scalars())


def started_jobs(session: Session, app: str, *, limit: int) -> dict[int, str]:
    """Return the routes of the runs of an app's started jobs, by job id."""
    started = select(Job.id, EFFECTIVE_ROUTE).join(App, App.id == Job.app_id)
    started = started.where(App.name == app, Job.is_enabled == 1).limit(limit)
    return dict(session.execute(started).all())


def by_id(session: Session, app_id: int) -> App:
    """Return an app.

    Raises:
        NotFound: there is no such app.

    """
    app = session.get(App, app_id)
    if app is None:
        raise NotFound(LookupFailure.NO_APP, id=app_id)
    return app


def lock(session: Session, app_id: int) -> App:
    """Lock and return an app.

    Raises:
        NotFound: there is no such app.

    """
    app = session.get(App, app_id, with_for_update=True)
    if app is None:
        raise NotFound(LookupFailure.NO_APP, id=app_id)
    return app


def usage(session: Session, app_id: int, *, names: int) -> Usage:
    """Return what still uses an app, with up to `names` names of jobs."""
    of_app = select(Job.name).where(Job.app_id == app_id).order_by(Job.name)
    count = select(func.count()).select_from(Job).where(Job.app_id == app_id)
    open_run = select(Run.id).where(Run.status.in_(OPEN), Run.app_id == app_id).limit(1)
    return Usage(
        jobs=list(session.execute(of_app.limit(names)).scalars()),
        job_count=session.execute(count).scalar_one(),
        has_open_runs=session.execute(open_run).first() is not None,
    )


def registrations(session: Session, name: str) -> list[Registration]:
    """Return the registered executors of an app, sorted by address."""
    statement = select(Registration).where(Registration.kind == EXECUTOR, Registration.app == name)
    return list(session.execute(statement.order_by(Registration.address)).scalars())


def remove(session: Session, app: App) -> None:
    """Delete a locked app with its pauses and its rows of the day report."""
    pauses.forget_app(session, app.id)
    for statement in (
        delete(AppDay).where(AppDay.app_id == app.id),
        delete(App).where(App.id == app.id),
    ):
        modify(session, statement)

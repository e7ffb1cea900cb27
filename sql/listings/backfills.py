"""Lists of backfills, newest first."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from warren.sql.errors import LookupFailure, NotFound
from warren.sql.models import App, Backfill, Job
from warren.sql.models.job_tables import BackfillState


class ListedBackfill(NamedTuple):
    """A backfill with the names of its job and app, None if the job was deleted."""

    backfill: Backfill
    job: str | None
    app: str | None
    timezone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillFilter:
    """Which backfills to list; None = all. `is_going`: those that are open or paused."""

    app_ids: Collection[int] | None = None
    job_ids: Collection[int] | None = None
    job_id: int | None = None
    is_going: bool = False
    before_id: int | None = None
    limit: int = 50


def listing(session: Session, wanted: BackfillFilter) -> list[ListedBackfill]:
    """Return backfills, the newest first."""
    statement = _visible(wanted.app_ids, wanted.job_ids).order_by(Backfill.id.desc())
    if wanted.job_id is not None:
        statement = statement.where(Backfill.job_id == wanted.job_id)
    if wanted.is_going:
        statement = statement.where(Backfill.state.in_([BackfillState.OPEN, BackfillState.PAUSED]))
    if wanted.before_id is not None:
        statement = statement.where(Backfill.id < wanted.before_id)
    return [ListedBackfill(*row) for row in session.execute(statement.limit(wanted.limit))]


def show(
    session: Session,
    backfill_id: int,
    *,
    app_ids: Collection[int] | None = None,
    job_ids: Collection[int] | None = None,
) -> ListedBackfill:
    """Return a backfill.

    Raises:
        NotFound: there is none that may be seen.

    """
    wanted = _visible(app_ids, job_ids).where(Backfill.id == backfill_id)
    row = session.execute(wanted).one_or_none()
    if row is None:
        raise NotFound(LookupFailure.NO_BACKFILL, id=backfill_id)
    return ListedBackfill(*row)


def _visible(
    app_ids: Collection[int] | None, job_ids: Collection[int] | None
) -> Select[Backfill, str | None, str | None, str | None]:
    rows = (
        select(Backfill, Job.name, App.name, Job.timezone)
        .outerjoin(Job, Job.id == Backfill.job_id)
        .outerjoin(App, App.id == Job.app_id)
    )
    if app_ids is not None:
        rows = rows.where(Job.app_id.in_(app_ids))
    if job_ids is not None:
        rows = rows.where(Backfill.job_id.in_(job_ids))
    return rows

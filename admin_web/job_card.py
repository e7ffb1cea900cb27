"""Everything that the page of one job shows, read in one go."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from admin_web.family_picture import FamilyPicture, draw
from admin_web.parts import Parts
from admin_web.visitors import Visitor
from scheduler import upcoming
from scheduler.job_spec import JobSpec
from sql import families, job_search
from sql.models import Job
from sql.rows import AnyRow, Rows
from sql.run_status import OPEN, RunStatus

#: Runs that are listed, and those that the shares and the chart are about.
LISTED, LOOKED_AT = 10, 100
FIRES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCard:
    """A job, what it did last and what it will do."""

    job: AnyRow
    spec: JobSpec
    zone: str
    fires: Sequence[int]
    is_waiting: bool
    wrong: str
    runs: Rows
    family: FamilyPicture | None
    hidden_children: int

    @property
    def listed(self) -> Rows:
        """The last runs."""
        return self.runs[:LISTED]

    @property
    def ended(self) -> list[AnyRow]:
        """The last runs that are over, the newest first."""
        return [run for run in self.runs if run.status not in OPEN]

    @property
    def succeeded(self) -> int:
        """How many of these were a success."""
        return sum(run.status == RunStatus.SUCCEEDED for run in self.ended)

    @property
    def measured(self) -> list[AnyRow]:
        """Those that have a duration."""
        return [run for run in self.ended if run.started_at and run.finished_at]

    @property
    def median_ms(self) -> int | None:
        """The duration in the middle of those."""
        found = sorted(run.finished_at - run.started_at for run in self.measured)
        return found[len(found) // 2] if found else None


def read_card(session: Session, parts: Parts, visitor: Visitor, job_id: int) -> JobCard:
    """Return what is to be shown of a job.

    Raises:
        NotFound: there is none, or not for this visitor.

    """
    now_ms = parts.now_ms()
    stored, spec, hidden = parts.job_commands(visitor).read(session, job_id)
    fires: Sequence[int] = ()
    wrong = ""
    try:
        fires = upcoming.next_fires(stored, now_ms=now_ms, count=FIRES, timezone=parts.timezone)
    except ValueError as error:
        wrong = str(error)
    return JobCard(
        job=job_search.show(session, job_id, visitor.app_ids),
        spec=spec,
        zone=spec.timezone or parts.timezone,
        fires=fires,
        is_waiting=upcoming.is_waiting(stored),
        wrong=wrong,
        runs=job_search.last_runs(session, job_id, now_ms=now_ms, limit=LOOKED_AT),
        family=_family(session, visitor, stored, spec),
        hidden_children=len(hidden),
    )


def _family(session: Session, visitor: Visitor, job: Job, spec: JobSpec) -> FamilyPicture | None:
    parents = job_search.parents(session, job.id, visitor.app_ids)
    children = job_search.names(session, families.ids(job.child_jobid), visitor.app_ids)
    return draw((job.id, f"{spec.app}/{spec.name}"), [*parents.items()], [*children.items()])

"""Everything that a job's page shows, read at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.admin_web.alarms.job_targets import JobTarget, read_targets
from warren.admin_web.charts import heat_map
from warren.admin_web.charts.heat_map import HeatMap
from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.language.problem_text import problem_text
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.views.family_graph import FamilyGraph, draw
from warren.admin_web.visitors import Visitor
from warren.broker.reasons.reason import Reason
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Problem
from warren.scheduler.schedules import upcoming
from warren.scheduler.views import blockers
from warren.sql.accounts import preferences
from warren.sql.jobs import skips
from warren.sql.jobs.skips import SkipFilter, SkipLine
from warren.sql.listings import job_family, job_search
from warren.sql.listings.recent import ListedJob
from warren.sql.listings.run_lines import RunLine
from warren.sql.run_status import OPEN, RunStatus

#: Runs in the list, and runs that the statistics and the chart include.
LISTED, LOOKED_AT = 10, 100
FIRES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """A job, its last runs and its next ones."""

    job: ListedJob
    spec: JobSpec
    zone: str
    fires: Sequence[int]
    is_waiting: bool
    wrong: str
    runs: list[RunLine]
    skips: list[SkipLine]
    days: HeatMap
    family: FamilyGraph | None
    hidden_children: int
    is_favourite: bool
    blockers: list[Reason]
    targets: list[JobTarget]

    @property
    def listed(self) -> list[RunLine | SkipLine]:
        """The last runs and, between them, the due times that were skipped, latest first.

        A due time that was planned and then skipped has a cancelled run, which says why.
        """
        cancelled = {run.due_at for run in self.runs if run.status == RunStatus.CANCELLED}
        unseen = [one for one in self.skips if one.number > 1 or one.from_at not in cancelled]
        both: list[RunLine | SkipLine] = [*self.runs, *unseen]
        if len(self.runs) == LOOKED_AT:  # earlier skips lie between runs that were not read
            both = [one for one in both if _due_ms(one) >= self.runs[-1].due_at]
        return sorted(both, key=_due_ms, reverse=True)[:LISTED]

    @property
    def ended(self) -> list[RunLine]:
        """The last runs that are over, newest first; what was cancelled never began."""
        return [run for run in self.runs if run.status not in {*OPEN, RunStatus.CANCELLED}]

    @property
    def succeeded(self) -> int:
        """How many of these succeeded."""
        return sum(run.status == RunStatus.SUCCEEDED for run in self.ended)

    @property
    def measured(self) -> list[RunLine]:
        """Those with a duration."""
        return [run for run in self.ended if run.lasted_ms is not None]

    @property
    def median_ms(self) -> int | None:
        """The median of these durations; None if there are none."""
        found = sorted(run.lasted_ms for run in self.ended if run.lasted_ms is not None)
        return found[len(found) // 2] if found else None


def read_details(
    session: Session, services: ConsoleServices, visitor: Visitor, job_id: int
) -> JobDetails:
    """Return what a job's page shows.

    Raises:
        NotFound: there is no such job, or the visitor may not see it.

    """
    now_ms = services.now_ms()
    stored, spec, hidden = services.commands(visitor.actor).jobs.read(session, job_id)
    fires: Sequence[int] = ()
    wrong = ""
    try:
        fires = upcoming.next_fires(stored, now_ms=now_ms, count=FIRES, timezone=services.timezone)
    except Problem as problem:
        wrong = problem_text(problem)
    return JobDetails(
        job=job_search.show(session, job_id, visitor.app_ids, now_ms=now_ms),
        spec=spec,
        zone=spec.timezone or services.timezone,
        fires=fires,
        is_waiting=upcoming.is_waiting(stored),
        wrong=wrong,
        runs=job_search.last_runs(session, job_id, now_ms=now_ms, limit=LOOKED_AT),
        skips=skips.lines(session, SkipFilter(job_id=job_id, limit=LISTED)),
        days=heat_map.read(session, job_id, now_ms=now_ms, zone=services.timezone),
        family=draw(job_id, job_family.read(session, job_id, visitor.app_ids)),
        hidden_children=len(hidden),
        is_favourite=preferences.is_favourite(session, visitor.user_id, job_id),
        blockers=_blockers(session, services, stored.app_id, spec),
        targets=read_targets(session, job_id),
    )


def _due_ms(one: RunLine | SkipLine) -> int:
    return one.due_at if isinstance(one, RunLine) else one.to_at


def _blockers(
    session: Session, services: ConsoleServices, app_id: int, spec: JobSpec
) -> list[Reason]:
    times = LocalTimes(services.cluster_zone, services.now_ms)
    found = blockers.read(session, [app_id], now_ms=services.now_ms(), tell_time=times.format)
    return found.of_job(spec.app, blockers.need_of(spec))

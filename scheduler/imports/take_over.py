"""Starts imported jobs at the tick where the source stopped: no due time is lost or run twice.

The source's next tick is the first undecided one. Ticks between it and now are misfires, and each
job's policy decides about them.
"""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.commands.schedule_changes import ScheduleChanges
from scheduler.imports.arrivals import Arrivals, JobArrival
from scheduler.imports.decisions import JOB
from scheduler.imports.import_outcomes import ImportAction, Outcome
from scheduler.problems import Problem
from sql.imports import origins
from sql.jobs import jobs
from sql.models import Job


class TakeOver:
    """Starts the jobs that are started at one source, with one transaction for each app."""

    def __init__(self, context: CommandContext, source: str) -> None:
        self._context = context
        self._source = source
        self._schedules = ScheduleChanges(context)

    def preview(self, arrivals: Arrivals) -> list[Outcome]:
        """Return which jobs `write` would start, including jobs that are not imported yet."""

        def unit(session: Session) -> list[Outcome]:
            known = self._imported(session, [job.source_id for job in arrivals.jobs])
            return [
                _outcome(job, known.get(job.source_id), self._why_not(session, job, known))
                for job in arrivals.jobs
                if job.is_running
            ]

        return self._context.database.read(unit)

    def write(self, arrivals: Arrivals) -> list[Outcome]:
        """Start the jobs that are started there and stopped here; return what was done."""
        by_app: dict[str, list[JobArrival]] = defaultdict(list)
        for job in arrivals.jobs:
            if job.is_running:
                by_app[job.spec.app].append(job)
        return [outcome for of_app in by_app.values() for outcome in self._start_app(of_app)]

    def _start_app(self, arrivals: Sequence[JobArrival]) -> list[Outcome]:
        def unit(session: Session) -> list[Outcome]:
            known = self._imported(session, [job.source_id for job in arrivals])
            return [self._start(session, arrival, known) for arrival in arrivals]

        return self._context.write(Right.ADMINISTER, unit)

    def _start(self, session: Session, arrival: JobArrival, known: dict[int, Job]) -> Outcome:
        job = known.get(arrival.source_id)
        why_not = self._why_not(session, arrival, known)
        if job is None or why_not:
            return _outcome(arrival, job, why_not or "it is not here")
        job, now_ms = jobs.lock(session, job.id), self._context.now_ms()
        try:
            self._schedules.take_over(session, job, arrival.next_tick_ms, now_ms)
        except Problem as problem:
            return _outcome(arrival, job, str(problem))
        self._context.note_job(session, Action.JOB_START, job, now_ms)
        return _outcome(arrival, job, "")

    def _imported(self, session: Session, source_ids: Sequence[int]) -> dict[int, Job]:
        """Return the imported jobs that still exist, by their ids at the source."""
        known = origins.read(session, self._source, JOB)
        wanted = {one: known[one] for one in source_ids if one in known}
        stored = origins.jobs(session, [origin.target_id for origin in wanted.values()])
        return {
            source_id: stored[origin.target_id]
            for source_id, origin in wanted.items()
            if origin.target_id in stored
        }

    def _why_not(self, session: Session, arrival: JobArrival, known: dict[int, Job]) -> str:
        job = known.get(arrival.source_id)
        if arrival.stop_reasons:
            return f"it stays stopped: {'; '.join(map(str, arrival.stop_reasons))}"
        if job is None:
            return ""
        if job.is_enabled:
            return "it is already started"
        if job.stop_reason:
            return f"it stays stopped: {job.stop_reason}"
        if origins.started(session, [job.id]):
            return "it was started here before, and somebody has stopped it"
        return ""


def _outcome(arrival: JobArrival, job: Job | None, why_not: str) -> Outcome:
    return Outcome(
        action=ImportAction.LEFT_OUT if why_not else ImportAction.START,
        what=JOB,
        source_id=arrival.source_id,
        target_id=job.id if job else arrival.source_id,
        name=f"{arrival.spec.app}/{job.name if job else arrival.spec.name}",
        words=why_not,
    )

"""Starts imported jobs at the tick where the source stopped: no due time is lost or run twice.

The source's next tick is the first undecided one. Ticks between it and now are misfires, and each
job's policy decides about them. `GiveBack` is the way back: it stops the jobs, so that the source
can run them again.
"""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.imports.items import ImportAction, ImportedJob, ImportItems, Outcome
from warren.scheduler.problems import Problem
from warren.sql.imports import origins
from warren.sql.imports.origins import JOB
from warren.sql.jobs import jobs
from warren.sql.models import App, Job


class TakeOver:
    """Starts the jobs that are started at one source, in one transaction per app."""

    def __init__(self, context: CommandContext, source: str, *, again: bool = False) -> None:
        self._context = context
        self._source = source
        self._again = again
        self._schedules = ScheduleChanges(context)

    def preview(self, items: ImportItems) -> list[Outcome]:
        """Return which jobs `write` would start, including jobs that are not imported yet."""

        def unit(session: Session) -> list[Outcome]:
            known = self._imported(session, [job.source_id for job in items.jobs])
            return [
                _outcome(job, known.get(job.source_id), self._why_not(session, job, known))
                for job in items.jobs
                if job.is_running
            ]

        return self._context.database.read(unit)

    def write(self, items: ImportItems) -> list[Outcome]:
        """Start the jobs that run at the source and are stopped here; return what was done."""
        by_app: dict[str, list[ImportedJob]] = defaultdict(list)
        for job in items.jobs:
            if job.is_running:
                by_app[job.spec.app].append(job)
        return [outcome for of_app in by_app.values() for outcome in self._start_app(of_app)]

    def _start_app(self, items: Sequence[ImportedJob]) -> list[Outcome]:
        def unit(session: Session) -> list[Outcome]:
            known = self._imported(session, [job.source_id for job in items])
            return [self._start(session, item, known) for item in items]

        return self._context.write(Right.ADMINISTER, unit)

    def _start(self, session: Session, item: ImportedJob, known: dict[int, Job]) -> Outcome:
        job = known.get(item.source_id)
        why_not = self._why_not(session, item, known)
        if job is None or why_not:
            return _outcome(item, job, why_not or "it is not here")
        job, now_ms = jobs.lock(session, job.id), self._context.now_ms()
        decided_ms = job.last_tick_at if origins.started(session, [job.id]) else 0
        try:
            self._schedules.take_over(
                session, job, item.next_tick_ms, now_ms, decided_ms=decided_ms
            )
        except Problem as problem:
            return _outcome(item, job, str(problem))
        self._context.note_job(session, Action.JOB_START, job, now_ms)
        return _outcome(item, job, "")

    def _imported(self, session: Session, source_ids: Sequence[int]) -> dict[int, Job]:
        """Return the imported jobs that still exist, by their ids at the source."""
        known = origins.read(session, self._source, JOB)
        wanted = {source_id_: known[source_id_] for source_id_ in source_ids if source_id_ in known}
        stored = origins.jobs(session, [origin.target_id for origin in wanted.values()])
        return {
            source_id: stored[origin.target_id]
            for source_id, origin in wanted.items()
            if origin.target_id in stored
        }

    def _why_not(self, session: Session, item: ImportedJob, known: dict[int, Job]) -> str:
        job = known.get(item.source_id)
        stays = "; ".join(map(str, item.stop_reasons)) or (job.stop_reason if job else "")
        if stays:
            return f"it stays stopped: {stays}"
        if job is None:
            return ""
        if session.get_one(App, job.app_id).name != item.spec.app:
            return f"it is in app {item.spec.app} there, but not here"
        if job.is_enabled:
            return "it is already started here; if XXL-JOB ran it meanwhile, it ran in both"
        if not self._again and origins.started(session, [job.id]):
            return "it was started here before, and was stopped; --again starts it"
        return ""


def _outcome(item: ImportedJob, job: Job | None, why_not: str) -> Outcome:
    return Outcome(
        action=ImportAction.LEFT_OUT if why_not else ImportAction.START,
        what=JOB,
        source_id=item.source_id,
        target_id=job.id if job else item.source_id,
        name=f"{item.spec.app}/{job.name if job else item.spec.name}",
        words=why_not,
    )


class GiveBack:
    """Stops the jobs that came from one source, in one transaction each."""

    def __init__(self, context: CommandContext, source: str) -> None:
        self._context = context
        self._source = source
        self._schedules = ScheduleChanges(context)

    def stop(self, *, is_preview: bool) -> list[Outcome]:
        """Stop those that are started here; return them."""

        def started(session: Session) -> list[Outcome]:
            known = origins.read(session, self._source, JOB)
            stored = origins.jobs(session, [origin.target_id for origin in known.values()])
            return [
                _stopped(session, source_id, stored[origin.target_id])
                for source_id, origin in known.items()
                if origin.target_id in stored and stored[origin.target_id].is_enabled
            ]

        outcomes = self._context.database.read(started)
        return outcomes if is_preview else [self._stop(job) for job in outcomes]

    def _stop(self, outcome: Outcome) -> Outcome:
        def unit(session: Session) -> Outcome:
            job, now_ms = jobs.lock(session, outcome.target_id), self._context.now_ms()
            if self._schedules.stop(session, job, now_ms):
                self._context.note_job(session, Action.JOB_STOP, job, now_ms)
            return outcome

        return self._context.write(Right.ADMINISTER, unit)


def _stopped(session: Session, source_id: int, job: Job) -> Outcome:
    return Outcome(
        action=ImportAction.STOP,
        what=JOB,
        source_id=source_id,
        target_id=job.id,
        name=f"{session.get_one(App, job.app_id).name}/{job.name}",
    )

"""Makes imported jobs the children of others, now that all of them are there."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.imports.decisions import JOB, JobStep, job_here
from scheduler.imports.outcomes import Did, Outcome
from scheduler.jobs import dependencies
from scheduler.jobs.audit_records import record_of_children
from scheduler.problems import Problem
from sql.imports import origins
from sql.imports.origins import Origin
from sql.jobs import child_links
from sql.models import Job


class LinkArrivals:
    """Links the jobs of one source, in the caller's transaction."""

    def __init__(self, context: CommandContext, source: str) -> None:
        self._context = context
        self._source = source

    def write(self, session: Session, steps: Sequence[JobStep]) -> list[Outcome]:
        """Give jobs that were written their children, and remember that they are whole.

        Returns those that would make a circle with links that were made here; they keep theirs.
        """
        child_links.lock(session)
        known = origins.read(session, self._source, JOB)
        unlinked = [
            step for step in steps if not _is_whole(step, known.get(step.arrival.source_id))
        ]
        found = origins.jobs(session, [step.target_id for step in unlinked])
        before = child_links.children(session, found)
        whole, refused = [], []
        for step in unlinked:
            job = found.get(step.target_id)
            if job is None:
                continue  # somebody deleted it a moment ago
            wanted = [known[child].target_id for child in step.arrival.child_ids if child in known]
            circle = self._link(session, job, before.get(job.id, ()), tuple(wanted))
            if circle:
                refused.append(_refused(step, str(circle)))
                continue
            here = job_here(job, step.spec.app, wanted)
            # A child that is not imported yet is linked by the import that brings it.
            there = step.arrival.there if len(wanted) == len(step.arrival.child_ids) else ""
            whole.append(Origin(step.arrival.source_id, job.id, there, here))
        origins.write(session, self._source, JOB, whole, now_ms=self._context.now_ms())
        return refused

    def _link(
        self, session: Session, job: Job, before: tuple[int, ...], wanted: tuple[int, ...]
    ) -> Problem | None:
        if before == wanted:
            return None
        child_links.set_children(session, job, wanted)
        try:
            dependencies.refuse_circles(session, [job.id])
        except Problem as circle:
            child_links.set_children(session, job, before)
            return circle
        self._context.note_job(
            session,
            Action.JOB_UPDATE,
            job,
            self._context.now_ms(),
            before=record_of_children(before),
            after=record_of_children(wanted),
        )
        return None


def _is_whole(step: JobStep, origin: Origin | None) -> bool:
    return origin is not None and origin.there == step.arrival.there


def _refused(step: JobStep, words: str) -> Outcome:
    return Outcome(
        did=Did.CONFLICT,
        what=JOB,
        source_id=step.arrival.source_id,
        target_id=step.target_id,
        name=f"{step.spec.app}/{step.spec.name}",
        words=f"its children stay as they are: {words}",
    )

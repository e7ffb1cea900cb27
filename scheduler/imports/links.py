"""Makes imported jobs the children of others, now that all of them are there."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.imports.decisions import JOB, JobStep, job_here
from scheduler.imports.outcomes import ImportAction, Outcome
from scheduler.jobs.audit_records import record_of_children
from scheduler.jobs.dependencies import find_circle
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
        if not steps:
            return []
        known = origins.read(session, self._source, JOB)
        unlinked = [
            step for step in steps if not _is_whole(step, known.get(step.arrival.source_id))
        ]
        found = origins.jobs(session, [step.target_id for step in unlinked])
        apps = origins.apps(session)  # held, as each note asks for one
        graph = child_links.children(session, child_links.with_children(session))
        whole, changed, refused = [], [], []
        for step in unlinked:
            job = found.get(step.target_id)
            if job is None:
                continue  # somebody deleted it a moment ago
            wanted = tuple(
                known[child].target_id for child in step.arrival.child_ids if child in known
            )
            before = graph.get(job.id, ())
            if before != wanted:
                graph[job.id] = wanted
                circle = find_circle(job.id, graph)
                if circle:
                    graph[job.id] = before
                    refused.append(_refused(step, " -> ".join(map(str, circle))))
                    continue
                changed.append((job, before, wanted))
            here = job_here(job, step.spec.app, wanted)
            # A child that is not imported yet is linked by the import that brings it.
            there = step.arrival.there if len(wanted) == len(step.arrival.child_ids) else ""
            whole.append(Origin(step.arrival.source_id, job.id, there, here))
        self._link(session, changed)
        now_ms = self._context.now_ms()
        origins.write(session, self._source, JOB, whole, now_ms=now_ms)
        del apps
        return refused

    def _link(
        self, session: Session, changed: Sequence[tuple[Job, tuple[int, ...], tuple[int, ...]]]
    ) -> None:
        child_links.give_children(session, [(job, wanted) for job, _, wanted in changed])
        now_ms = self._context.now_ms()
        for job, before, wanted in changed:
            self._context.note_job(
                session,
                Action.JOB_UPDATE,
                job,
                now_ms,
                before=record_of_children(before),
                after=record_of_children(wanted),
            )


def _is_whole(step: JobStep, origin: Origin | None) -> bool:
    return origin is not None and origin.there == step.arrival.there


def _refused(step: JobStep, words: str) -> Outcome:
    return Outcome(
        did=ImportAction.CONFLICT,
        what=JOB,
        source_id=step.arrival.source_id,
        target_id=step.target_id,
        name=f"{step.spec.app}/{step.spec.name}",
        words=f"its children stay as they are; with the new ones: {words}",
    )

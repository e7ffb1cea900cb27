"""Links imported jobs to their children, after all jobs were imported."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.imports.decisions import JOB, JobStep, job_fingerprint
from scheduler.imports.import_outcomes import ImportAction, Outcome
from scheduler.jobs.audit_records import record_of_children
from scheduler.jobs.circles import find_circle
from sql.imports import origins
from sql.imports.origins import Origin
from sql.instants import at
from sql.jobs import child_links
from sql.models import Job


class LinkImport:
    """Links the jobs of one source, in the caller's transaction."""

    def __init__(self, context: CommandContext, source: str) -> None:
        self._context = context
        self._source = source

    def write(self, session: Session, steps: Sequence[JobStep]) -> list[Outcome]:
        """Set the children of imported jobs, and record that these are completely imported.

        Returns the jobs whose children would make a circle with links made here; they keep their
        present children.
        """
        child_links.lock(session)
        if not steps:
            return []
        known = origins.read(session, self._source, JOB)
        unlinked = [
            step for step in steps if not _is_complete(step, known.get(step.item.source_id))
        ]
        stored = origins.jobs(session, [step.target_id for step in unlinked])
        # A session drops unreferenced objects, and every job's audit log entry needs its app.
        held = origins.apps(session)
        graph = child_links.children(session, child_links.with_children(session))
        complete, changed, refused = [], [], []
        for step in unlinked:
            job = stored.get(step.target_id)
            if job is None:
                continue  # somebody has just deleted it
            wanted = tuple(
                known[child].target_id for child in step.item.child_ids if child in known
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
            target = job_fingerprint(job, step.spec.app, wanted)
            # A child that is not imported yet is linked by the import that brings it in.
            is_linked = len(wanted) == len(step.item.child_ids)
            source = step.item.fingerprint if is_linked else ""
            complete.append(Origin(step.item.source_id, job.id, source, target))
        self._link(session, changed)
        now_ms = self._context.now_ms()
        origins.write(session, self._source, JOB, complete, now_ms=now_ms)
        del held
        return refused

    def _link(
        self, session: Session, changed: Sequence[tuple[Job, tuple[int, ...], tuple[int, ...]]]
    ) -> None:
        now_ms = self._context.now_ms()
        for job, _, _ in changed:
            job.update_time = at(now_ms)
        child_links.give_children(session, [(job, wanted) for job, _, wanted in changed])
        for job, before, wanted in changed:
            self._context.note_job(
                session,
                Action.JOB_UPDATE,
                job,
                now_ms,
                before=record_of_children(before),
                after=record_of_children(wanted),
            )


def _is_complete(step: JobStep, origin: Origin | None) -> bool:
    return origin is not None and origin.source_fingerprint == step.item.fingerprint


def _refused(step: JobStep, words: str) -> Outcome:
    return Outcome(
        action=ImportAction.CONFLICT,
        what=JOB,
        source_id=step.item.source_id,
        target_id=step.target_id,
        name=f"{step.spec.app}/{step.spec.name}",
        words=f"its children stay as they are; with the new ones: {words}",
    )

"""Links imported jobs to their children, after all jobs were imported."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.imports.decisions import JobStep, incomplete, job_fingerprint
from scheduler.imports.import_outcomes import ImportAction, Outcome
from scheduler.imports.items import ImportedJob
from scheduler.jobs.audit_records import record_of_children
from scheduler.jobs.circles import find_circle
from sql.imports import origins
from sql.imports.origins import JOB, Origin
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

        A child that is not imported yet is linked by the import that brings it in. A job that was
        edited here meanwhile only gets further children. Returns the jobs that get other children
        than at the source: those of a job whose children would make a circle with links made here
        stay as they are, and deleted children are left out.
        """
        child_links.lock(session)
        known = origins.read(session, self._source, JOB) if steps else {}
        unlinked = [step for step in steps if _is_unlinked(step, known.get(step.item.source_id))]
        if not unlinked:
            return []
        stored = origins.jobs(session, [step.target_id for step in unlinked])
        child_ids = {child for step in unlinked for child in step.item.child_ids}
        existing = origins.app_ids(
            session, [known[child].target_id for child in child_ids if child in known]
        )
        # A session drops unreferenced objects, and every job's audit log entry needs its app.
        held = origins.apps(session)
        graph = child_links.children(session, child_links.with_children(session))
        linked, changed, outcomes = [], [], []
        for step in unlinked:
            job = stored.get(step.target_id)
            if job is None:
                continue  # somebody has just deleted it
            origin = known[step.item.source_id]
            children = _children_of(step.item, known, existing)
            before = graph.get(job.id, ())
            is_edited = job_fingerprint(job, step.spec.app, before) != origin.target_fingerprint
            wanted = _with_further(before, children.ids) if is_edited else children.ids
            circle = _circle_with(graph, job.id, wanted)
            if circle:
                path = " -> ".join(map(str, circle))
                words = f"its children stay as they are; with the new ones: {path}"
                outcomes.append(_conflict(step, words))
                continue
            if before != wanted:
                changed.append((job, before, wanted))
            linked.append(
                origin._replace(
                    source_fingerprint=children.fingerprint,
                    target_fingerprint=origin.target_fingerprint
                    if is_edited
                    else job_fingerprint(job, step.spec.app, wanted),
                )
            )
            outcomes += [
                _conflict(step, f"its child {child} was deleted here and is not linked")
                for child in children.deleted
            ]
        self._link(session, changed)
        now_ms = self._context.now_ms()
        origins.write(session, self._source, JOB, linked, now_ms=now_ms)
        del held
        return outcomes

    def _link(
        self, session: Session, changed: Sequence[tuple[Job, tuple[int, ...], tuple[int, ...]]]
    ) -> None:
        now_ms = self._context.now_ms()
        for job, _, _ in changed:
            job.update_time = at(now_ms)
        child_links.set_children(session, [(job, wanted) for job, _, wanted in changed])
        for job, before, wanted in changed:
            self._context.note_job(
                session,
                Action.JOB_UPDATE,
                job,
                now_ms,
                before=record_of_children(before),
                after=record_of_children(wanted),
            )


@dataclass(frozen=True, slots=True)
class _Children:
    """What has become here of an item's children at the source.

    Attributes:
        ids: of those that exist here.
        deleted: the ids there of those that were deleted here.
        fingerprint: of the item; incomplete if a child was not imported yet.

    """

    ids: tuple[int, ...]
    deleted: tuple[int, ...]
    fingerprint: str


def _children_of(
    item: ImportedJob, known: Mapping[int, Origin], existing: Container[int]
) -> _Children:
    imported = [known[child] for child in item.child_ids if child in known]
    return _Children(
        ids=tuple(one.target_id for one in imported if one.target_id in existing),
        deleted=tuple(one.source_id for one in imported if one.target_id not in existing),
        fingerprint=item.fingerprint
        if len(imported) == len(item.child_ids)
        else incomplete(item.fingerprint),
    )


def _with_further(present: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    return (*present, *(child for child in wanted if child not in present))


def _circle_with(
    graph: dict[int, tuple[int, ...]], job_id: int, children: tuple[int, ...]
) -> Sequence[int] | None:
    """Give a job these children in the graph, unless they make a circle, which is returned."""
    before = graph.get(job_id, ())
    if before == children:
        return None
    graph[job_id] = children
    circle = find_circle(job_id, graph)
    if circle:
        graph[job_id] = before
    return circle


def _is_unlinked(step: JobStep, origin: Origin | None) -> bool:
    return origin is not None and origin.source_fingerprint == incomplete(step.item.fingerprint)


def _conflict(step: JobStep, words: str) -> Outcome:
    return Outcome(
        action=ImportAction.CONFLICT,
        what=JOB,
        source_id=step.item.source_id,
        target_id=step.target_id,
        name=f"{step.spec.app}/{step.spec.name}",
        words=words,
    )

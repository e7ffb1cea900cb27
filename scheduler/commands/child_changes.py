"""Changes the children of jobs, in the caller's transaction."""

from collections.abc import Collection

from sqlalchemy.orm import Session

from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.jobs import dependencies
from scheduler.jobs.audit_records import record_of_children
from scheduler.jobs.spec import JobSpec
from scheduler.problems import Code, Problem
from sql.instants import at
from sql.jobs import child_links, jobs
from sql.registry import apps


class ChildChanges:
    """Links jobs on behalf of one actor, and writes audit log entries.

    Jobs in apps that the actor may not see cannot become children; they keep their present parents
    and are never named.
    """

    def __init__(self, context: CommandContext) -> None:
        self._note = context.note_job
        self._actor = context.actor

    def link(
        self,
        session: Session,
        app_id: int,
        spec: JobSpec,
        now_ms: int,
        *,
        parents: Collection[int] | None = None,
    ) -> tuple[int, str | None]:
        """Set the children of a stored job; return its id and a sentence about what changed.

        `parents` are the ids of all jobs that have children, if the caller knows them.

        Raises:
            Problem: a child is unknown.

        """
        job = jobs.find_in_app(session, app_id, spec.name)
        assert job is not None
        if not spec.children and parents is not None and job.id not in parents:
            return job.id, None
        before = child_links.children_of(session, job.id)
        if not spec.children and not before:
            return job.id, None
        job = jobs.lock(session, job.id)
        words = dependencies.link(session, job, spec.children, self._actor.app_ids)
        if words:
            job.update_time = at(now_ms)
            session.flush()
            self._note(
                session,
                Action.JOB_UPDATE,
                job,
                now_ms,
                before=record_of_children(before),
                after=record_of_children(child_links.children_of(session, job.id)),
            )
        return job.id, words

    def refuse_circles(self, session: Session, job_ids: Collection[int]) -> None:
        """Raise Problem if one of the jobs is its own descendant."""
        try:
            dependencies.refuse_circles(session, job_ids)
        except Problem as circle:
            if self._actor.app_ids is None:
                raise
            facts = {name: circle.facts[name] for name in ("app", "job")}
            raise Problem(Code.HIDDEN_CIRCLE, "children", **facts) from None

    def refuse_orphans(self, session: Session, job_ids: Collection[int]) -> None:
        """Raise Problem if jobs to be deleted are children of jobs that stay."""
        try:
            dependencies.refuse_orphans(session, job_ids)
        except Problem:
            known = apps.ids_by_name(session, self._actor.app_ids)
            if all(row.app in known for row in child_links.parents(session, job_ids)):
                raise
            raise Problem(Code.STILL_A_HIDDEN_CHILD) from None

"""Changes the children of jobs, in the caller's transaction."""

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.jobs import dependencies
from warren.scheduler.jobs.audit_records import record_of_children
from warren.scheduler.jobs.dependencies import Family, KnownJobs, Link
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.sql.instants import at
from warren.sql.jobs import child_links, job_names, jobs


class ChildChanges:
    """Links jobs on behalf of one actor, and writes audit log entries.

    Jobs in apps that the actor may not see cannot become children; they keep their present parents
    and are never named.
    """

    def __init__(self, context: CommandContext) -> None:
        self._note = context.note_job
        self._actor = context.actor

    def link(self, session: Session, app_id: int, spec: JobSpec, now_ms: int) -> str | None:
        """Set the children of a stored job; return a sentence about what changed.

        Raises:
            Problem: a child is unknown, or the job is its own descendant.

        """
        job = job_names.find_in_app(session, app_id, spec.name)
        assert job is not None
        family = Family(job.id, app_id, spec.app, spec.name, spec.children)
        links = self.changes(KnownJobs(session), [family])
        self.write(session, links, now_ms)
        return links[0].words if links else None

    def changes(self, known: KnownJobs, families: Sequence[Family]) -> list[Link]:
        """Return the links that are to change, and have `known` know them; only reads.

        Raises:
            Problem: a child is unknown, there are too many, or a job is its own descendant.

        """
        links = [
            one for one in dependencies.link(known, families, self._actor.app_ids) if one.words
        ]
        known.plan(links)
        self._refuse_circles(known, [one.job_id for one in links])
        return links

    def write(self, session: Session, links: Sequence[Link], now_ms: int) -> None:
        """Lock jobs and give them their new children."""
        locked = jobs.lock_all(session, [link.job_id for link in links])
        for job in locked.values():
            job.update_time = at(now_ms)
        child_links.set_children(session, [(locked[one.job_id], one.after) for one in links])
        for link in links:
            self._note(
                session,
                Action.JOB_UPDATE,
                locked[link.job_id],
                now_ms,
                before=record_of_children(link.before),
                after=record_of_children(link.after),
            )

    def _refuse_circles(self, known: KnownJobs, job_ids: Collection[int]) -> None:
        try:
            dependencies.refuse_circles(known, job_ids)
        except Problem as circle:
            if self._actor.app_ids is None:
                raise
            facts = {name: circle.facts[name] for name in ("app", "job")}
            raise Problem(Code.HIDDEN_CIRCLE, "children", **facts) from None

    def refuse_orphans(self, known: KnownJobs, job_ids: Collection[int]) -> None:
        """Raise Problem if jobs to be deleted are children of jobs that stay."""
        try:
            dependencies.refuse_orphans(known, job_ids)
        except Problem:
            visible = known.app_ids(self._actor.app_ids)
            if all(row.app in visible for row in known.parents(job_ids)):
                raise
            raise Problem(Code.STILL_A_HIDDEN_CHILD) from None

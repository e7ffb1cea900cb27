"""What every command needs: who acts, on which database, by which clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from scheduler.actor import Actor, Right
from scheduler.commands.audit_log import Action, AuditLog
from scheduler.problems import Code, Problem
from sql.engine import Database
from sql.ids import RunIds
from sql.jobs import jobs
from sql.models import App, Job

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Who acts, and where.

    Attributes:
        database: where everything is.
        now_ms: the database's clock.
        actor: recorded in the history and in the audit log; what is not theirs does not exist.
        timezone: of jobs that name none.
        added_routes: those that an installation has besides XXL-JOB's.
        run_ids: for callers that trigger a lot; None = one is fetched for each run.

    """

    database: Database
    now_ms: Callable[[], int]
    actor: Actor
    timezone: str = "UTC"
    added_routes: Sequence[str] = ()
    run_ids: RunIds | None = None

    def write(self, right: Right, unit: Callable[[Session], T]) -> T:
        """Commit a unit of work of somebody who has the right to it.

        Raises:
            Problem: they have not.

        """
        self.actor.demand(right)
        return self.database.write(unit)

    def job(self, session: Session, job_id: int, *, lock: bool = False) -> Job:
        """Return a job, locked if wanted.

        Raises:
            Problem: there is none, or the caller may not see it.

        """
        job = session.get(Job, job_id)
        if job is None or not self.actor.knows_job(job.app_id, job.id):
            raise Problem(Code.NO_JOB, id=job_id)
        return jobs.lock(session, job_id) if lock else job

    def note(
        self,
        session: Session,
        action: Action,
        name: str,
        object_id: int,
        now_ms: int,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        """Write into the audit log what is done, and what it changes."""
        AuditLog(who=self.actor.who, origin=self.actor.origin).note(
            session,
            action,
            name,
            object_id=object_id,
            now_ms=now_ms,
            before=before,
            after=after,
        )

    def note_job(
        self,
        session: Session,
        action: Action,
        job: Job,
        now_ms: int,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        """Write into the audit log what is done to a job."""
        name = f"{session.get_one(App, job.app_id).name}/{job.name}"
        self.note(session, action, name, job.id, now_ms, before=before, after=after)

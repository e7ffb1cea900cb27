"""What every command needs: the actor, the database and its clock."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from warren.scheduler.actor import Actor, Right
from warren.scheduler.commands.audit_log import Action, AuditLog
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.calendar_rows import load_calendars
from warren.scheduler.schedules.working_days import Calendars
from warren.sql.accounts import idempotency
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.instants import DAY_MS
from warren.sql.jobs import job_rows
from warren.sql.models import App, Job

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What the commands of one actor share.

    Attributes:
        database: the database to act on.
        now_ms: the database's clock, in epoch milliseconds.
        actor: recorded in the schedule history and the audit log; it limits which apps and jobs
            exist for the commands.
        timezone: that of days and of jobs that name none, until a scheduler is registered.
        added_routes: the installed routes that are not built in.
        declared_calendars: calendars that are about to be stored with what is changed.
        run_ids: reserved run ids, for callers that trigger often; None = one is fetched per run.

    """

    database: Database
    now_ms: Callable[[], int]
    actor: Actor
    timezone: str = "UTC"
    added_routes: Sequence[str] = ()
    run_ids: RunIds | None = None
    declared_calendars: Calendars = field(default_factory=dict)

    @property
    def audit_log(self) -> AuditLog:
        """The audit log, for entries of this actor."""
        return AuditLog(who=self.actor.who, origin=self.actor.origin)

    def write(self, right: Right, unit: Callable[[Session], T]) -> T:
        """Commit a unit of work that needs a right.

        Raises:
            Problem: the actor does not have the right.

        """
        self.actor.demand(right)
        return self.database.write(unit)

    def calendars(self, session: Session, names: Iterable[str]) -> Calendars:
        """Return the existing calendars with these names; those about to be stored come first."""
        wanted = set(names)
        declared = {name: each for name, each in self.declared_calendars.items() if name in wanted}
        return {**load_calendars(session, wanted - declared.keys()), **declared}

    def job(self, session: Session, job_id: int, *, lock: bool = False) -> Job:
        """Return a job; with `lock`, its row is locked.

        Raises:
            Problem: there is no such job, or the actor may not see it.

        """
        job = session.get(Job, job_id)
        if job is None or not self.actor.knows_job(job.app_id, job.id):
            raise Problem(Code.NO_JOB, id=job_id)
        return job_rows.lock(session, job_id) if lock else job

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
        """Write an audit log entry; `before` and `after` are the changed values."""
        self.audit_log.note(
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
        """Write an audit log entry about a job."""
        name = f"{session.get_one(App, job.app_id).name}/{job.name}"
        self.note(session, action, name, job.id, now_ms, before=before, after=after)


#: How long an idempotency key is remembered.
KEY_MS = DAY_MS


def claimed_id(session: Session, once: IdempotentRequest | None, run_id: int, now_ms: int) -> int:
    """Return the id of a key: `run_id`, also without a key, or that of an earlier request.

    Raises:
        Problem: the key was used for a different request.

    """
    if once is None:
        return run_id
    noted = idempotency.claim(session, once, run_id=run_id, now_ms=now_ms, kept_ms=KEY_MS)
    if noted.body_hash != once.body_hash:
        raise Problem(Code.KEY_REUSED)
    return noted.run_id

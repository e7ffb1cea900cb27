"""What every command needs: the actor, the database and its clock, and entries in the audit log."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from warren.scheduler.actor import CLI, Actor, Right
from warren.scheduler.jobs.records import HIDDEN, SECRETS, cut
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.reading import load_calendars
from warren.scheduler.schedules.working_days import Calendars
from warren.sql.accounts import audit_log, idempotency
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.instants import DAY_MS
from warren.sql.jobs import job_rows
from warren.sql.models import App, AuditEntry, Job


class Action(StrEnum):
    """The actions of the audit log: kind of object, dot, verb."""

    APP_CREATE = "app.create"
    APP_UPDATE = "app.update"
    JOB_CREATE = "job.create"
    JOB_UPDATE = "job.update"
    JOB_START = "job.start"
    JOB_STOP = "job.stop"
    JOB_DELETE = "job.delete"
    JOB_TRIGGER = "job.trigger"
    JOB_EDIT_MANY = "job.edit_many"
    JOB_UNDO_EDIT = "job.undo_edit"
    JOB_MUTE = "job.mute"
    JOB_UNMUTE = "job.unmute"
    RUN_MOVE = "run.move"
    RUN_AGAIN = "run.again"
    RUN_KILL = "run.kill"
    BACKFILL_MAKE = "backfill.make"
    BACKFILL_PAUSE = "backfill.pause"
    BACKFILL_RESUME = "backfill.resume"
    BACKFILL_CANCEL = "backfill.cancel"
    RUN_CLEAR = "run.clear"
    ALARM_TEST = "alarm.test"
    ALARM_RESEND = "alarm.resend"
    ALARM_DISMISS = "alarm.dismiss"
    APP_PAUSE = "app.pause"
    APP_RESUME = "app.resume"
    CLUSTER_PAUSE = "cluster.pause"
    CLUSTER_RESUME = "cluster.resume"
    CALENDAR_APPLY = "calendar.apply"
    USER_ADD = "user.add"
    USER_PASSWORD = "user.password"  # noqa: S105 - the name of an action
    USER_RIGHTS = "user.rights"
    USER_DISABLE = "user.disable"
    USER_ENABLE = "user.enable"
    USER_DELETE = "user.delete"
    IDENTITY_LINK = "identity.link"
    IDENTITY_UNLINK = "identity.unlink"
    IDENTITY_END = "identity.end"
    RULES_APPLY = "rules.apply"
    APP_DELETE = audit_log.APP_DELETE
    EXECUTOR_DRAIN = "executor.drain"
    EXECUTOR_FORGET = "executor.forget"
    LIMIT_CREATE = "limit.create"
    LIMIT_UPDATE = "limit.update"
    LIMIT_DELETE = "limit.delete"
    INCIDENT_ACK = "incident.ack"
    GLUE_SAVE = "glue.save"
    TOKEN_ADD = "token.add"  # noqa: S105 - the name of an action
    TOKEN_REVOKE = "token.revoke"  # noqa: S105 - as above
    LOGIN_ALLOW = "login.allow"
    LOGIN_REFUSE = "login.refuse"
    SESSION_OPEN = "session.open"
    SESSION_REFUSE = "session.refuse"
    SESSION_FORGE = "session.forge"
    SESSION_END = "session.end"


class AuditLog:
    """Writes entries for one actor.

    Args:
        who: a user's name, or `cli:<user>@<host>`.
        origin: the client's address, or `cli`.

    """

    def __init__(self, *, who: str, origin: str = CLI) -> None:
        self._who = who
        self._origin = origin[:64]

    def note(
        self,
        session: Session,
        action: Action,
        name: str,
        *,
        now_ms: int,
        object_id: int = 0,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        """Write one entry; `before` and `after` are the changed values of the object."""
        values = self.values(
            action, name, object_id=object_id, now_ms=now_ms, before=before, after=after
        )
        audit_log.add(session, AuditEntry(**values))

    def values(
        self,
        action: Action,
        name: str,
        *,
        now_ms: int,
        object_id: int = 0,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return an entry that is to be written with many others."""
        return {
            "at": now_ms,
            "who": self._who,
            "origin": self._origin,
            "action": action.value,
            "kind": action.partition(".")[0],
            "object_id": object_id,
            "name": name[:255],
            "before": _json(before),
            "after": _json(after),
        }


def _json(values: Mapping[str, Any] | None) -> str | None:
    if values is None:
        return None
    return json.dumps({key: _shown(key, value) for key, value in values.items()})


def _shown(key: str, value: Any) -> Any:
    if key in SECRETS and value:
        return HIDDEN
    return cut(value) if isinstance(value, str) else value


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

"""Writes audit log entries, in the transaction of the action itself."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy.orm import Session

from warren.scheduler.actor import CLI
from warren.scheduler.jobs.audit_records import HIDDEN, SECRETS, cut
from warren.sql.accounts import audit_log
from warren.sql.models import AuditEntry


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

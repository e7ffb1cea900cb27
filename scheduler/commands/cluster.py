"""What people do with the cluster: drain executors, pause dispatch and resume it.

A drain request is a mark in the registry before it is a message; schedulers deliver it.
"""

import re
from enum import StrEnum

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.problems import Code, Problem
from sql.instants import LATEST_MS, iso
from sql.models import App
from sql.registry import drains, pauses
from sql.registry.pauses import EVERY_APP

#: In place of when a pause ends by itself: it does not.
NEVER = 0
#: Characters of a pause's reason.
LONGEST_REASON = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class PauseOutcome(StrEnum):
    """What became of a wish to pause."""

    PAUSED = "PAUSED"
    #: It was paused already, and has another reason or end now.
    CHANGED = "CHANGED"
    #: It was paused already.
    ALREADY = "ALREADY"


class ClusterCommands:
    """Acts on executors and schedulers for one person or program."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def drain(self, executor_id: int) -> bool:
        """Let an executor take nothing new, finish what runs, and end; False if already asked.

        It holds for the boot that has the address now: the next one takes runs again.

        Raises:
            Problem: no such executor has registered.

        """

        def unit(session: Session) -> bool:
            row = drains.lock(session, executor_id)
            actor = self._context.actor
            # Somebody limited to some jobs may drain no executor: it runs other people's jobs too.
            is_theirs = row and actor.job_ids is None
            if not row or not is_theirs or not actor.knows(drains.app_id(session, row.app)):
                raise Problem(Code.NO_EXECUTOR, id=executor_id)
            now_ms = self._context.now_ms()
            if not drains.ask(session, row, now_ms):
                return False
            told = {"app": row.app, "boot": row.boot_id}
            action = Action.EXECUTOR_DRAIN
            self._context.note(session, action, row.address, row.id, now_ms, after=told)
            return True

        return self._context.write(Right.OPERATE, unit)

    def pause(
        self, app_id: int = EVERY_APP, *, reason: str = "", until_ms: int | None = None
    ) -> PauseOutcome:
        """Stop dispatch, everywhere or of one app, until it is resumed; ticks are planned on.

        Where it is paused already, a reason or an end that is given replaces the old one, and NEVER
        removes the end.

        Args:
            app_id: the app; by default the whole cluster, which takes an administrator.
            reason: a line for people.
            until_ms: when it ends by itself; None = as it is, which is NEVER for a new pause.

        Raises:
            Problem: reason or end are not acceptable, or there is no such app.

        """
        check_reason(reason)

        def unit(session: Session) -> PauseOutcome:
            name = self._begin(session, app_id)
            now_ms = self._context.now_ms()
            if until_ms and not now_ms < until_ms <= LATEST_MS:
                raise Problem(Code.PAUSE_END, "until", got=iso(until_ms))
            old = pauses.of(session, app_id, now_ms)
            if old is None:
                by = self._context.actor.who
                end_ms = until_ms or None
                pauses.begin(session, app_id, now_ms=now_ms, until_ms=end_ms, by=by, reason=reason)
                self._note_pause(session, app_id, name, now_ms, after=_told(reason, end_ms))
                return PauseOutcome.PAUSED
            why = reason or old.reason
            end_ms = old.until_at if until_ms is None else until_ms or None
            if (why, end_ms) == (old.reason, old.until_at):
                return PauseOutcome.ALREADY
            pauses.change(session, old.id, until_ms=end_ms, reason=why)
            before, after = _told(old.reason, old.until_at), _told(why, end_ms)
            self._note_pause(session, app_id, name, now_ms, before=before, after=after)
            return PauseOutcome.CHANGED

        return self._context.write(_right(app_id), unit)

    def resume(self, app_id: int = EVERY_APP) -> bool:
        """Let dispatch go on, everywhere or of one app; False when it was not paused.

        Raises:
            Problem: there is no such app.

        """

        def unit(session: Session) -> bool:
            name = self._begin(session, app_id)
            now_ms = self._context.now_ms()
            if not pauses.end(session, app_id, now_ms=now_ms):
                return False
            action = Action.CLUSTER_RESUME if app_id == EVERY_APP else Action.APP_RESUME
            self._context.note(session, action, name, app_id, now_ms)
            return True

        return self._context.write(_right(app_id), unit)

    def _begin(self, session: Session, app_id: int) -> str:
        """Keep others from pausing and resuming; return the name of what is paused."""
        pauses.lock(session)
        if app_id == EVERY_APP:
            return "dispatch"
        app = session.get(App, app_id)
        # Somebody limited to some jobs may pause no app: it runs other people's jobs too.
        is_theirs = self._context.actor.knows(app_id) and self._context.actor.job_ids is None
        if app is None or not is_theirs:
            raise Problem(Code.NO_APP, id=app_id)
        return app.name

    def _note_pause(
        self, session: Session, app_id: int, name: str, now_ms: int, **told: dict[str, str]
    ) -> None:
        action = Action.CLUSTER_PAUSE if app_id == EVERY_APP else Action.APP_PAUSE
        self._context.note(session, action, name, app_id, now_ms, **told)


def check_reason(reason: str) -> None:
    """Raise Problem unless this can be the reason for a pause."""
    if len(reason) > LONGEST_REASON or _CONTROL.search(reason):
        raise Problem(Code.PAUSE_REASON, "reason", most=LONGEST_REASON, got=reason[:100])


def _right(app_id: int) -> Right:
    return Right.ADMINISTER if app_id == EVERY_APP else Right.OPERATE


def _told(reason: str, until_ms: int | None) -> dict[str, str]:
    """Return what of a pause goes into the audit log."""
    told = {"reason": reason, "until": iso(until_ms) or ""}
    return {name: value for name, value in told.items() if value}

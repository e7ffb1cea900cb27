"""Commands on mutes: somebody looks after a job's trouble, and its alarms need not be sent."""

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.app_names import is_line
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.problems import Code, Problem
from warren.sql.board import mutes
from warren.sql.board.mutes import StoredMute
from warren.sql.instants import DAY_MS, iso

#: The longest mute, and the longest reason.
MAX_DAYS, MAX_REASON_LENGTH = 30, 200


class MuteCommands:
    """Mutes and acknowledges the trouble of jobs, with entries in the audit log."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def mute(self, job_id: int, *, until_ms: int, why: str = "", silent: bool = True) -> None:
        """Note that the actor looks after a job until an instant, MAX_DAYS from now at most.

        It ends sooner if the job fails with another error. With `silent`, alarms about its runs
        are stored, but not sent. A mute replaces the job's earlier one.

        Raises:
            Problem: there is no such job, or reason or end are invalid.

        """
        if not is_line(why, MAX_REASON_LENGTH):
            raise Problem(Code.MUTE_REASON, "why", most=MAX_REASON_LENGTH, got=why[:100])

        def unit(session: Session) -> None:
            now_ms = self._context.now_ms()
            if not now_ms < until_ms <= now_ms + MAX_DAYS * DAY_MS:
                raise Problem(Code.MUTE_END, "until", most=MAX_DAYS, got=iso(until_ms) or until_ms)
            job = self._context.job(session, job_id, lock=True)
            mutes.put(
                session,
                StoredMute(
                    job_id=job_id,
                    silences=int(silent),
                    error_key=mutes.error_key_of(session, job_id),
                    made_at=now_ms,
                    made_by=self._context.actor.who,
                    until_at=until_ms,
                    reason=why,
                ),
            )
            after = {"until": iso(until_ms), "why": why, "silent": silent}
            self._context.note_job(session, Action.JOB_MUTE, job, now_ms, after=after)

        self._context.write(Right.OPERATE, unit)

    def unmute(self, job_id: int) -> bool:
        """End the mute of a job; return False if it has none.

        Raises:
            Problem: there is no such job.

        """

        def unit(session: Session) -> bool:
            job = self._context.job(session, job_id, lock=True)
            if mutes.of_job(session, job_id) is None:
                return False
            mutes.end(session, [job_id])
            self._context.note_job(session, Action.JOB_UNMUTE, job, self._context.now_ms())
            return True

        return self._context.write(Right.OPERATE, unit)

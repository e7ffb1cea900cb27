"""What people do with the cluster: drain executors, pause dispatch and resume it.

A drain request is a mark in the registry before it is a message; schedulers deliver it.
"""

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.command_context import CommandContext
from scheduler.problems import Code, Problem
from sql.registry import cluster, drains


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

    def pause(self) -> bool:
        """Stop dispatch everywhere; ticks are planned on. False when it is paused already."""
        return self._set_paused(Action.CLUSTER_PAUSE, self._context.now_ms())

    def resume(self) -> bool:
        """Let dispatch go on; False when it was not paused."""
        return self._set_paused(Action.CLUSTER_RESUME, 0)

    def _set_paused(self, action: Action, at_ms: int) -> bool:
        def unit(session: Session) -> bool:
            if not cluster.set_paused(session, at_ms=at_ms, by=self._context.actor.who):
                return False
            now_ms = at_ms or self._context.now_ms()
            self._context.note(session, action, "dispatch", 0, now_ms)
            return True

        return self._context.write(Right.ADMINISTER, unit)

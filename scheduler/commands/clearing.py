"""Deletes final runs of the past, as somebody asks for it."""

from collections.abc import Callable
from dataclasses import asdict, replace

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Code, Problem
from warren.scheduler.retention.clearing import Clearing, clear_all
from warren.scheduler.retention.clearing_criteria import CalendarDays, ClearingCriteria
from warren.sql.models import Job


class ClearingCommands:
    """Clears runs."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def clear(
        self,
        criteria: ClearingCriteria,
        *,
        dry_run: bool = False,
        on_progress: Callable[[int], None] = lambda _count: None,
    ) -> int:
        """Delete final runs in small steps; return how many.

        `on_progress` is called after each step with the count so far. With `dry_run`, runs are
        only counted. Runs that come due later are kept, so it ends however busy the cluster is.

        Raises:
            Problem: the criteria name an app or job that does not exist for the actor.

        """
        self._context.write(
            Right.OPERATE, lambda session: self._note_clearing(session, criteria, dry_run=dry_run)
        )
        database, setting = self._context.database, self._context.timezone
        # Cleared runs are added to the days that the schedulers have counted.
        days = CalendarDays(database.read(lambda session: cluster_zone(session, setting)))
        now_ms = self._context.now_ms()
        if criteria.before_ms is None and not criteria.keep:
            # Due times are stored in whole seconds.
            criteria = replace(criteria, keep=None, before_ms=now_ms + 1_000)
        clearing = Clearing(
            database,
            criteria,
            by=self._context.actor.who,
            days=days,
            now_ms=now_ms,
            dry_run=dry_run,
        )
        return clear_all(clearing, now_ms, on_progress=on_progress)

    def _note_clearing(
        self, session: Session, criteria: ClearingCriteria, *, dry_run: bool
    ) -> None:
        app_id = criteria.app_id
        if criteria.job_id is not None:
            job = session.get(Job, criteria.job_id)
            app_id = job.app_id if job else None
        if not self._context.actor.knows(app_id):
            raise Problem(Code.NOTHING_TO_CLEAR)
        if not dry_run:
            wanted = {name: value for name, value in asdict(criteria).items() if value is not None}
            now_ms = self._context.now_ms()
            self._context.note(session, Action.RUN_CLEAR, "runs", 0, now_ms, after=wanted)

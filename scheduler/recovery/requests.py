"""Sends requests to kill runs and to drain executors until they are carried out."""

import time
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages import Boot, Drain, Kill
from warren.broker.reasons import Reason
from warren.broker.stored_reasons import to_json
from warren.scheduler.completion.end import identity_of, why_killed
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import AddressedCommand, CommandSender, NodeContext
from warren.sql.jobs import job_rows
from warren.sql.models.job_tables import Scope
from warren.sql.registry import presence
from warren.sql.runs import queries
from warren.sql.runs.run_rows import RoutedRun

#: Time between two looks.
POLL_SECONDS = 0.5

log = structlog.get_logger()


class Killer:
    """Sends `Kill` for runs in flight that users asked to kill, or that newer ones replace."""

    def __init__(self, context: NodeContext, commands: CommandSender, roster: Roster) -> None:
        self._context = context
        self._commands = commands
        self._roster = roster
        self._sent_at: dict[int, float] = {}

    def run_round(self, now_ms: int) -> float:
        """Send the kills that are requested; return the seconds until the next look."""
        rows = self._context.database.read(
            lambda session: queries.kill_requested(session, now_ms=now_ms)
        )
        now = self._context.monotonic()
        wanted = {row.id for row in rows}
        self._sent_at = {
            run_id: at
            for run_id, at in self._sent_at.items()
            if run_id in wanted and now - at < self._context.timeouts.kill_again
        }
        # The run of a flow has no executor; the keeper of flows stops it.
        due = [row for row in rows if row.id not in self._sent_at and row.address]
        whys = (
            self._context.database.read(lambda session: _whys(session, due, now_ms)) if due else {}
        )
        orders = [order for row in due if (order := self._order(row, whys[row.id]))]
        if orders and self._commands.is_ready:
            self._commands.send(orders)
            self._sent_at.update((row.id, now) for row in due)
            log.info("kills_sent", run_ids=[row.id for row in due][:20])
        return POLL_SECONDS

    def _order(self, row: RoutedRun, why: Reason) -> AddressedCommand | None:
        app = self._context.app_names.name_of(row.app_id)
        if app is None:
            return None
        # The boot that has the address now may go on with the run of the one before.
        boot_id = self._roster.holder(app, row.address) or row.boot_id
        return AddressedCommand(
            boot=Boot(app, row.address, boot_id),
            message=Kill(
                run_id=row.id, reason=str(why), why=to_json(why), identity=identity_of(row)
            ),
        )


def _whys(session: Session, runs: Sequence[RoutedRun], now_ms: int) -> dict[int, Reason]:
    found = job_rows.for_runs(session, {run.job_id for run in runs})
    jobs = {job.id: job for job in found.values() if job.scope == Scope.CLUSTER}
    return {run.id: why_killed(session, run, jobs.get(run.job_id), now_ms=now_ms) for run in runs}


#: Pause between two orders to one boot; a repeated order changes nothing.
AGAIN_SECONDS = 5.0


class Drainer:
    """Lets no new runs go to boots that are being drained, and sends those boots the command.

    Args:
        context: the scheduler it works for.
        commands: sends commands to executors.
        roster: gets the boots to which nothing may be routed.
        clock: a monotonic clock in seconds.

    """

    def __init__(
        self,
        context: NodeContext,
        commands: CommandSender,
        roster: Roster,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._commands = commands
        self._roster = roster
        self._clock = clock
        self._told_at: dict[Boot, float] = {}

    def run_round(self, _now_ms: int) -> float:
        """Send drain commands that are due again; return the seconds until the next check."""
        wanted = [Boot(*row) for row in self._context.database.read(presence.requested)]
        self._roster.set_drained(wanted)
        now = self._clock()
        self._told_at = {
            boot: at
            for boot, at in self._told_at.items()
            if boot in wanted and now - at < AGAIN_SECONDS
        }
        due = [boot for boot in wanted if boot not in self._told_at]
        if due and self._commands.is_ready:
            self._commands.send([_order(boot) for boot in due])
            self._told_at.update((boot, now) for boot in due)
            log.info("drains_sent", addresses=[boot.address for boot in due][:20])
        return POLL_SECONDS


def _order(boot: Boot) -> AddressedCommand:
    return AddressedCommand(boot=boot, message=Drain(boot_id=boot.boot_id))

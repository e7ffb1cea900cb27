"""Delivers kill requests, which are rows first, to executors until the run is final."""

import structlog

from warren.broker.messages.to_executor import Kill
from warren.broker.messages.values import Boot
from warren.broker.reasons.codes import Why, to_json
from warren.scheduler.command_sender import AddressedCommand, CommandSender
from warren.scheduler.node_context import NodeContext
from warren.sql.runs import queries
from warren.sql.runs.run_rows import RoutedRun

#: Time between two looks.
POLL_SECONDS = 0.5
_WHY = Why.KILL_REQUESTED()

log = structlog.get_logger()


class Killer:
    """Sends `Kill` for runs in flight that somebody asked to kill."""

    def __init__(self, context: NodeContext, commands: CommandSender) -> None:
        self._context = context
        self._commands = commands
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
        orders = [order for row in due if (order := self._order(row))]
        if orders and self._commands.is_ready:
            self._commands.send(orders)
            self._sent_at.update((row.id, now) for row in due)
            log.info("kills_sent", run_ids=[row.id for row in due][:20])
        return POLL_SECONDS

    def _order(self, row: RoutedRun) -> AddressedCommand | None:
        app = self._context.app_names.name_of(row.app_id)
        if app is None:
            return None
        return AddressedCommand(
            boot=Boot(app, row.address, row.boot_id),
            message=Kill(run_id=row.id, reason=str(_WHY), why=to_json(_WHY)),
        )

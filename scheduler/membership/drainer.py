"""Delivers drain requests, which are stored in the registry first, to executors."""

import time
from collections.abc import Callable

import structlog

from warren.broker.messages.to_executor import Drain
from warren.broker.messages.values import Boot
from warren.scheduler.command_sender import AddressedCommand, CommandSender
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import NodeContext
from warren.sql.registry import presence

#: Time between two looks.
POLL_SECONDS = 0.5
#: Pause between two orders to one boot; a repeated order changes nothing.
AGAIN_SECONDS = 5.0

log = structlog.get_logger()


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

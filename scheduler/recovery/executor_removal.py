"""Removes the queues and registrations of executors that have been dead or departed for a day."""

import structlog
from sqlalchemy.orm import Session

from warren.broker import topology
from warren.broker.errors import BrokerError
from warren.broker.transport import Admin
from warren.scheduler.membership.roster import Member, Roster, Standing
from warren.scheduler.node_context import NodeContext
from warren.sql.registry import departures, presence

#: When they are removed, and the wait between two looks.
FORGET_SECONDS = 24 * 3600.0
FORGETTING_SECONDS = 60.0

log = structlog.get_logger()


class ExecutorRemoval:
    """Removes what is left of executors. Another scheduler may do the same: nothing is done twice.

    A dead executor is still registered, one that said goodbye is noted as departed: so its queue is
    found by schedulers that did not hear it.
    """

    def __init__(self, *, context: NodeContext, admin: Admin, roster: Roster) -> None:
        self._context = context
        self._admin = admin
        self._roster = roster
        self._looked_at = context.monotonic()

    def tick(self, now_ms: int) -> None:
        """Look, if the last look was long enough ago."""
        now = self._context.monotonic()
        if now - self._looked_at <= FORGETTING_SECONDS:
            return
        self._looked_at = now
        held, departed = self._context.database.read(
            lambda session: (_held(session), departures.read(session))
        )
        for (app, address), left_at in departed.items():
            if now_ms - left_at > FORGET_SECONDS * 1000:
                self._remove_departed(app, address, is_back=(app, address) in held)
        for member, standing in self._roster.members():
            if standing is not Standing.DEAD:
                continue
            boot_id, beat_at = held.get((member.app, member.address), (None, 0))
            silent_seconds = (now_ms - beat_at) / 1000
            if boot_id is None:  # it said goodbye, which this scheduler has heard itself
                silent_seconds = now - member.seen_at
            if boot_id in (None, member.boot_id) and silent_seconds > FORGET_SECONDS:
                self._remove(member)

    def _remove_departed(self, app: str, address: str, *, is_back: bool) -> None:
        if is_back or self._delete_queue(app, address):
            self._context.database.write(lambda session: departures.forget(session, app, address))

    def _remove(self, member: Member) -> None:
        if not self._delete_queue(member.app, member.address):
            return
        self._context.database.write(
            lambda session: presence.leave(
                session, presence.EXECUTOR, member.app, member.address, member.boot_id
            )
        )
        self._roster.forget(member.app, member.address, member.boot_id)
        log.info("executor_forgotten", app=member.app, address=member.address)

    def _delete_queue(self, app: str, address: str) -> bool:
        try:
            self._admin.delete_queue(topology.run_queue(app, address).name)
        except BrokerError as error:
            log.warning("queue_not_deleted", address=address, error=str(error))
            return False
        return True


def _held(session: Session) -> dict[tuple[str, str], tuple[str, int]]:
    """Return which boot holds each (app, address), and when it was last heard."""
    return {
        (row.app, row.address): (row.boot_id, row.beat_at)
        for row in presence.listing(session, presence.EXECUTOR)
    }

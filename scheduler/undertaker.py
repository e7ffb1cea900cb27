"""Settles what dead boots leave behind: their queues are drained, their runs planned again or LOST.

A trigger found unread in the queue provably never started, and is planned again at once. That proof
fails for a copy, and for a message that was handed out before: its executor may have died after the
start and before the acknowledgement. What is left then is LOST: nobody knows whether it started.
"""

from collections.abc import Callable, Sequence

import structlog

from broker import topology
from broker.errors import BadMessage, BrokerError, Expired
from broker.messages import Trigger
from broker.signing import Direction, Sealer
from broker.transport import Admin, Delivery
from scheduler.aftermath import End
from scheduler.app_names import AppNames
from scheduler.completion import Completion
from scheduler.counters import Counters
from scheduler.roster import Roster, Standing
from sql import presence, run_queries
from sql.engine import Database
from sql.ids import RunIds
from sql.rows import AnyRow
from sql.run_status import RunStatus

BATCH = 500
#: A run routed this lately may still be on its scheduler's way to the broker.
FRESH_MS = 11_000
#: When the queue and the registration of a dead executor are removed.
FORGET_MS = 24 * 3600 * 1000

log = structlog.get_logger()


class Undertaker:
    """Ends the runs of boots that this scheduler may call dead."""

    def __init__(
        self,
        *,
        database: Database,
        ids: RunIds,
        completion: Completion,
        admin: Admin,
        sealer: Sealer,
        roster: Roster,
        app_names: AppNames,
        counters: Counters,
        on_planned: Callable[[], None],
    ) -> None:
        self._database = database
        self._ids = ids
        self._completion = completion
        self._admin = admin
        self._sealer = sealer
        self._roster = roster
        self._app_names = app_names
        self._counters = counters
        self._on_planned = on_planned

    def tick(self, now_ms: int) -> float:
        """Settle the runs of dead boots; return the seconds until the next look."""
        if not self._roster.is_healthy:
            return 0.5
        for boot in self._database.read(run_queries.in_flight):
            app = self._app_names(boot.job_group).get(boot.job_group, "")
            standing = self._roster.standing(app, boot.executor_address, boot.boot_id)
            if standing is Standing.DEAD:
                self._bury(app, boot.executor_address, boot.boot_id, now_ms)
        self._forget(now_ms)
        return 0.5

    def _bury(self, app: str, address: str, boot_id: str, now_ms: int) -> None:
        left = self._in_flight(address, boot_id)
        holder = self._roster.holder(app, address)
        if holder in (None, boot_id):
            self._drain(app, address, now_ms)
        still = {row.id for row in self._in_flight(address, boot_id)}
        lost = [row for row in left if row.id in still and not _is_fresh(row, now_ms)]
        if lost:
            log.warning("executor_lost", app=app, address=address, runs=len(lost))
            self._end([_lost(row, now_ms) for row in lost])

    def _in_flight(self, address: str, boot_id: str) -> Sequence[AnyRow]:
        return self._database.read(
            lambda session: run_queries.of_boot(session, address, boot_id, limit=BATCH)
        )

    def _drain(self, app: str, address: str, now_ms: int) -> None:
        queue = topology.run_queue(app, address).name
        while self._admin.drain(
            queue, BATCH, lambda deliveries: self._end(self._unread(deliveries, address, now_ms))
        ):
            pass

    def _unread(self, deliveries: Sequence[Delivery], address: str, now_ms: int) -> list[End]:
        ends = []
        for delivery in deliveries:
            trigger = self._open(delivery, address)
            if trigger is None or trigger.resent or delivery.redelivered:
                continue
            ends.append(
                End(
                    run_id=trigger.run_id,
                    status=RunStatus.UNDELIVERED,
                    message=f"executor {address} ended before it took the trigger",
                    finished_at=now_ms,
                    never_started=True,
                    address=address,
                    boot_id=trigger.boot_id,
                )
            )
        return ends

    def _open(self, delivery: Delivery, address: str) -> Trigger | None:
        try:
            trigger = self._sealer.open(
                delivery, expect=Trigger, direction=Direction.TO_EXECUTOR, address=address
            )
        except Expired as error:
            trigger = error.message
        except BadMessage as error:
            self._counters.count("messages_rejected")
            log.warning("message_rejected", queue=delivery.queue, reason=str(error))
            return None
        assert isinstance(trigger, Trigger)
        return trigger

    def _end(self, ends: Sequence[End]) -> None:
        if not ends:
            return
        self._ids.reserve()
        tally = self._database.write(lambda session: self._completion.end(session, ends))
        if tally.planned:
            self._on_planned()

    def _forget(self, now_ms: int) -> None:
        """Remove what is left of executors that have been dead for a day."""
        for member, standing in self._roster.members():
            if standing is not Standing.DEAD:
                continue
            if self._seen_lately(member.app, member.address, member.boot_id, now_ms):
                continue
            try:
                self._admin.delete_queue(topology.run_queue(member.app, member.address).name)
            except BrokerError as error:
                log.warning("queue_not_deleted", address=member.address, error=str(error))
                continue
            self._database.write(
                lambda session, it=member: presence.leave(  # type: ignore[misc]
                    session, presence.EXECUTOR, it.app, it.address, it.boot_id
                )
            )
            self._roster.forget(member.app, member.address, member.boot_id)

    def _seen_lately(self, app: str, address: str, boot_id: str, now_ms: int) -> bool:
        """Whether the registry saw the boot within a day; one that it does not name is new."""
        rows = self._database.read(lambda s: presence.listing(s, presence.EXECUTOR))
        for row in rows:
            if (row.registry_key, row.registry_value, row.boot_id) == (app, address, boot_id):
                return int(row.beat_at) > now_ms - FORGET_MS
        return True


def _is_fresh(row: AnyRow, now_ms: int) -> bool:
    return row.status == RunStatus.ROUTED and now_ms - row.routed_at < FRESH_MS


def _lost(row: AnyRow, now_ms: int) -> End:
    return End(
        run_id=row.id,
        status=RunStatus.LOST,
        message=(
            f"executor {row.executor_address} ended or was cut off; "
            "nobody knows how far this run came"
        ),
        finished_at=now_ms,
    )

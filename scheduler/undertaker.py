"""Settles what dead boots leave behind: their queues are drained, their runs planned again or LOST.

A trigger found unread in the queue provably never started, and is planned again at once. That proof
fails for a copy, and for a message that was handed out before: its executor may have died after the
start and before the acknowledgement. What is left then is LOST: nobody knows whether it started.
"""

import time
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.orm import Session

from broker import topology
from broker.errors import BadMessage, BrokerError, Expired
from broker.messages import Trigger
from broker.signing import Direction, Sealer
from broker.transport import Admin, Delivery
from scheduler.aftermath import End
from scheduler.app_names import AppNames
from scheduler.bisection import bisect
from scheduler.completion import Completion
from scheduler.counters import Counters
from scheduler.patience import Patience
from scheduler.roster import Member, Roster, Standing
from sql import presence, run_queries
from sql.engine import Database
from sql.ids import RunIds
from sql.rows import AnyRow, Rows
from sql.run_status import RunStatus

BATCH = 500
#: Pause between two looks, shorter while somebody is being buried.
LOOK_SECONDS = 1.0
#: When the queue and the registration of a dead executor are removed, and the pause between looks.
FORGET_SECONDS = 24 * 3600.0
FORGETTING_SECONDS = 60.0
#: Triggers found unread that are remembered: the proof must survive a database that is away.
PROOFS = 100_000

log = structlog.get_logger()

_Boot = tuple[str, str, str]


class Undertaker:
    """Ends the runs of boots that this scheduler may call dead.

    Args:
        patience: `fresh` and `settle` are looked at.
        on_planned: called after a commit that planned further attempts.

    """

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
        patience: Patience,
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
        self._fresh_ms = int(patience.fresh * 1000)
        self._settle_seconds = patience.settle
        self._on_planned = on_planned
        self._found_empty_at: dict[_Boot, float] = {}
        self._proven: set[int] = set()
        self._forgot_at = time.monotonic()

    def tick(self, now_ms: int) -> float:
        """Settle the runs of dead boots; return the seconds until the next look."""
        if not self._roster.is_healthy:
            return LOOK_SECONDS
        dead = self._dead()
        self._found_empty_at = {key: at for key, at in self._found_empty_at.items() if key in dead}
        ended = sum(self._bury(boot, now_ms) for boot in dead)
        if time.monotonic() - self._forgot_at > FORGETTING_SECONDS:
            self._forgot_at = time.monotonic()
            self._forget(now_ms)
        if ended >= BATCH:
            return 0
        return self._settle_seconds / 2 if dead else LOOK_SECONDS

    def _dead(self) -> list[_Boot]:
        """Return the dead boots that have runs in flight and no successor that could be asked."""
        boots = []
        for row in self._database.read(run_queries.in_flight):
            app = self._app_names(row.job_group).get(row.job_group, "")
            boot = (app, row.executor_address, row.boot_id)
            if self._is_dead(boot):
                boots.append(boot)
        return boots

    def _is_dead(self, boot: _Boot) -> bool:
        app, address, boot_id = boot
        if self._roster.standing(app, address, boot_id) is not Standing.DEAD:
            return False
        holder = self._roster.holder(app, address)
        # The queue is the holder's, and the holder's journal knows more than we do.
        return holder is None or self._roster.standing(app, address, holder) is Standing.DEAD

    def _bury(self, boot: _Boot, now_ms: int) -> int:
        """Drain a dead boot's queue; once it stays empty, end what is left. Return how many."""
        app, address, boot_id = boot
        if self._drain(app, address, now_ms):
            self._found_empty_at.pop(boot, None)
        now = time.monotonic()
        if now - self._found_empty_at.setdefault(boot, now) < self._settle_seconds:
            return 0
        rows = self._in_flight(address, boot_id)
        lost = [row for row in rows if not self._is_fresh(row, now_ms)]
        # A scheduler that was frozen just now has lost its right to judge.
        if not lost or not self._is_dead(boot):
            return 0
        log.warning("executor_lost", app=app, address=address, boot_id=boot_id, runs=len(lost))
        self._end([_lost(row, now_ms) for row in lost])
        return len(lost)

    def _in_flight(self, address: str, boot_id: str) -> Rows:
        return self._database.read(
            lambda session: run_queries.of_boot(session, address, boot_id, limit=BATCH)
        )

    def _is_fresh(self, row: AnyRow, now_ms: int) -> bool:
        """Whether a trigger may still be on its scheduler's way to the broker."""
        return bool(row.status == RunStatus.ROUTED and now_ms - row.routed_at < self._fresh_ms)

    def _drain(self, app: str, address: str, now_ms: int) -> int:
        queue = topology.run_queue(app, address).name
        total = 0
        while found := self._admin.drain(
            queue, BATCH, lambda deliveries: self._end(self._unread(deliveries, address, now_ms))
        ):
            total += found
        return total

    def _unread(self, deliveries: Sequence[Delivery], address: str, now_ms: int) -> list[End]:
        triggers = [
            trigger
            for delivery in deliveries
            if (trigger := self._open(delivery, address)) and self._is_proof(trigger, delivery)
        ]
        if len(self._proven) > PROOFS:
            self._proven.clear()
        self._proven.update(trigger.run_id for trigger in triggers)
        return [_untaken(trigger, address, now_ms) for trigger in triggers]

    def _is_proof(self, trigger: Trigger, delivery: Delivery) -> bool:
        """Whether this trigger, found unread, is the only one of its run and was never handed out.

        What this undertaker took and had to give back is marked as redelivered, and still a proof.
        """
        if trigger.resent:
            return False
        return not delivery.redelivered or trigger.run_id in self._proven

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
        return trigger if isinstance(trigger, Trigger) else None

    def _end(self, ends: Sequence[End]) -> None:
        bisect(ends, self._write, _skip)

    def _write(self, ends: Sequence[End]) -> None:
        self._ids.reserve()
        tally = self._database.write(lambda session: self._completion.end(session, ends))
        if tally.planned:
            self._on_planned()

    def _forget(self, now_ms: int) -> None:
        """Remove what is left of executors that have been dead for a day."""
        dead = [member for member, standing in self._roster.members() if standing is Standing.DEAD]
        if not dead:
            return
        registered = self._database.read(_registered)
        for member in dead:
            boot_id, beat_at = registered.get((member.app, member.address), (None, 0))
            silent_seconds = (now_ms - beat_at) / 1000
            if boot_id is None:  # it said goodbye, which this scheduler has heard itself
                silent_seconds = time.monotonic() - member.seen_at
            if boot_id in (None, member.boot_id) and silent_seconds > FORGET_SECONDS:
                self._remove(member)

    def _remove(self, member: Member) -> None:
        try:
            self._admin.delete_queue(topology.run_queue(member.app, member.address).name)
        except BrokerError as error:
            log.warning("queue_not_deleted", address=member.address, error=str(error))
            return
        self._database.write(
            lambda session: presence.leave(
                session, presence.EXECUTOR, member.app, member.address, member.boot_id
            )
        )
        self._roster.forget(member.app, member.address, member.boot_id)
        log.info("executor_forgotten", app=member.app, address=member.address)


def _skip(end: End, error: Exception) -> None:
    log.error("run_not_ended", run_id=end.run_id, error=str(error))


def _registered(session: Session) -> dict[tuple[str, str], tuple[str, int]]:
    return {
        (row.registry_key, row.registry_value): (row.boot_id, row.beat_at)
        for row in presence.listing(session, presence.EXECUTOR)
    }


def _untaken(trigger: Trigger, address: str, now_ms: int) -> End:
    return End(
        run_id=trigger.run_id,
        status=RunStatus.UNDELIVERED,
        message=f"executor {address} ended before it took the trigger",
        finished_at=now_ms,
        never_started=True,
        address=address,
        boot_id=trigger.boot_id,
        # A run that was decided anew since may have arrived by another copy.
        routed_at=trigger.routed_at_ms or None,
    )


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

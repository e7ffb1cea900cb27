"""Cleans up after dead boots: drains their queues, and plans their runs again or ends them LOST.

A run whose trigger is found unread in the queue provably never started, and is planned again at
once. That is no proof for a copy, or for a message that was delivered before: its executor may have
died between the start and the acknowledgement. All other runs end LOST: they may have started.
First, what their executor reported before it died is read and stored.

A day after an executor has died or departed, its queues and registration are removed; sooner if its
app has used up most of its addresses.
"""

from collections import Counter
from collections.abc import Sequence

import structlog
from sqlalchemy.orm import Session

from warren.broker import topology
from warren.broker.codec import unpacked
from warren.broker.errors import BadMessage, BrokerError, Expired, QueueUnavailable
from warren.broker.messages import Boot, Trigger, Triggers
from warren.broker.reasons import Why
from warren.broker.signing import Direction, Sealer
from warren.broker.transport import Admin, Delivery
from warren.scheduler.completion.completion import RunEnder
from warren.scheduler.completion.end import End, lost, never_started
from warren.scheduler.membership.registrar import ADDRESS_LIMIT
from warren.scheduler.membership.roster import Roster, Standing
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds import MinuteNotes, bisect
from warren.sql.registry import presence
from warren.sql.run_status import RunStatus
from warren.sql.runs import queries
from warren.sql.runs.run_rows import RoutedRun
from warren.sql.runs.transitions import SentTo

#: After how long they are removed, by the share of its addresses that their app has used up.
FORGET_SECONDS = {0.0: 24 * 3600.0, 0.5: 3600.0, 0.9: 60.0}
#: The wait between two looks.
FORGETTING_SECONDS = 60.0


class ExecutorRemoval:
    """Removes what is left of executors. Another scheduler may do the same: nothing is done twice.

    A dead executor is still registered, and one that said goodbye is recorded as departed. So its
    queue is found even by schedulers that never received a heartbeat from it.
    """

    def __init__(self, *, context: NodeContext, admin: Admin, roster: Roster) -> None:
        self._context = context
        self._admin = admin
        self._roster = roster
        self._looked_at = context.monotonic()

    def run_round(self, now_ms: int) -> None:
        """Remove what is due for removal, if the last round was long enough ago."""
        now = self._context.monotonic()
        if now - self._looked_at <= FORGETTING_SECONDS:
            return
        self._looked_at = now
        held, departed, busy = self._context.database.read(
            lambda session: (_held(session), presence.read(session), queries.in_flight(session))
        )
        is_busy = {(self._context.app_names.name_of(row.app_id), row.address) for row in busy}
        addresses = Counter(app for app, _ in {*held, *departed})
        for (app, address), left_at in departed.items():
            is_back = (app, address) in held
            if now_ms - left_at > _forget_ms(addresses[app]) and (app, address) not in is_busy:
                self._remove_departed(app, address, is_back=is_back)
        for (app, address), (boot_id, beat_at) in held.items():
            is_dead = self._roster.standing(app, address, boot_id) is Standing.DEAD
            is_due = now_ms - beat_at > _forget_ms(addresses[app])
            if is_dead and is_due and (app, address) not in is_busy:
                self._remove(Boot(app, address, boot_id))
        for member, standing in self._roster.members():
            is_old = now - member.seen_at > max(FORGET_SECONDS.values())
            if standing is Standing.DEAD and is_old and (member.app, member.address) not in held:
                self._roster.forget(member.app, member.address, member.boot_id)

    def _remove_departed(self, app: str, address: str, *, is_back: bool) -> None:
        if is_back or self._delete_queue(app, address):
            self._context.database.write(lambda session: presence.forget(session, app, address))

    def _remove(self, boot: Boot) -> None:
        if not self._delete_queue(boot.app, boot.address):
            return
        self._context.database.write(
            lambda session: presence.leave(session, presence.EXECUTOR, *boot)
        )
        self._roster.forget(*boot)
        log.info("executor_forgotten", app=boot.app, address=boot.address)

    def _delete_queue(self, app: str, address: str) -> bool:
        try:
            self._admin.delete_queue(topology.run_queue(app, address).name)
        except BrokerError as error:
            log.warning("queue_not_deleted", address=address, error=str(error))
            return False
        return True


def _forget_ms(addresses: int) -> float:
    """Return after how long an executor is removed whose app has this many addresses."""
    share = addresses / ADDRESS_LIMIT
    return 1000 * next(after for least, after in reversed(FORGET_SECONDS.items()) if share >= least)


def _held(session: Session) -> dict[tuple[str, str], tuple[str, int]]:
    """Return which boot holds each (app, address), and when it was last seen."""
    return {
        (row.app, row.address): (row.boot_id, row.beat_at)
        for row in presence.listing(session, presence.EXECUTOR)
    }


BATCH = 500
#: Wait between two checks, shorter while a dead boot is being settled.
POLL_SECONDS = 1.0
#: Triggers found unread that are remembered: the proof must survive an unavailable database.
PROOFS = 100_000

log = structlog.get_logger()


class Reaper:
    """Ends the runs of boots that this scheduler may call dead."""

    def __init__(
        self,
        *,
        context: NodeContext,
        ender: RunEnder,
        admin: Admin,
        sealer: Sealer,
        roster: Roster,
    ) -> None:
        self._context = context
        self._ender = ender
        self._admin = admin
        self._sealer = sealer
        self._roster = roster
        self._fresh_ms = int(context.timeouts.fresh * 1000)
        self._settle_seconds = context.timeouts.settle
        self._silence_seconds = context.timeouts.silence
        self._dead_after_ms = int(context.timeouts.dead_after * 1000)
        self._found_empty_at: dict[Boot, float] = {}
        self._unjudged = MinuteNotes(context.monotonic)
        self._proven: set[int] = set()
        self._removal = ExecutorRemoval(context=context, admin=admin, roster=roster)

    def run_round(self, now_ms: int) -> float:
        """Settle the runs of dead boots; return the seconds until the next look."""
        if not self._roster.is_healthy:
            return POLL_SECONDS
        dead = self._dead(now_ms)
        self._found_empty_at = {key: at for key, at in self._found_empty_at.items() if key in dead}
        ended = sum(self._settle(boot, now_ms) for boot in dead)
        if facts := self._unjudged.due():
            log.warning("executor_not_judged", **facts)
        self._removal.run_round(now_ms)
        if ended >= BATCH:
            return 0
        return self._settle_seconds / 2 if dead else POLL_SECONDS

    def _dead(self, now_ms: int) -> list[Boot]:
        """Return the dead boots that have runs in flight and no successor that could be asked."""
        boots = []
        for row in self._context.database.read(queries.in_flight):
            app = self._context.app_names.name_of(row.app_id) or ""
            boot = Boot(app, row.address, row.boot_id)
            if self._is_dead(boot, now_ms):
                boots.append(boot)
        return boots

    def _is_dead(self, boot: Boot, now_ms: int) -> bool:
        app, address, boot_id = boot
        if self._roster.standing(app, address, boot_id) is not Standing.DEAD:
            return False
        holder = self._roster.holder(app, address)
        # The queue is the holder's, and the holder's journal knows more than we do.
        if holder is not None and self._roster.standing(app, address, holder) is not Standing.DEAD:
            return False
        return not self._is_seen_by_others(boot, now_ms)

    def _is_seen_by_others(self, boot: Boot, now_ms: int) -> bool:
        """Whether the registry shows a recent heartbeat of the boot that holds the address.

        Another scheduler may have admitted an executor, and sent it runs, before this one did.
        """
        app, address, boot_id = boot
        seen = self._context.database.read(
            lambda session: presence.last_beat(session, presence.EXECUTOR, app, address)
        )
        if seen is None or (seen[0] == boot_id and self._roster.has_left(*boot)):
            return False
        return abs(now_ms - seen[1]) <= self._dead_after_ms

    def _settle(self, boot: Boot, now_ms: int) -> int:
        """Drain a dead boot's queue; once it stays empty, end what is left. Return how many."""
        app, address, boot_id = boot
        try:
            is_drained = self._drain(app, address, now_ms)
        except QueueUnavailable as error:
            self._found_empty_at.pop(boot, None)
            self._unjudged.note(app, address, error)
            return 0  # what is in it tells what never started
        if is_drained:
            self._found_empty_at.pop(boot, None)
        if boot not in self._found_empty_at and self._has_unread_reports():
            return 0
        now = self._context.monotonic()
        if now - self._found_empty_at.setdefault(boot, now) < self._patience_seconds(boot):
            return 0
        rows = self._in_flight(app, address, boot_id)
        left = [row for row in rows if not self._is_fresh(row, now_ms)]
        # A scheduler that was just frozen may not judge others.
        if not left or not self._is_dead(boot, now_ms):
            return 0
        log.warning("executor_lost", app=app, address=address, boot_id=boot_id, runs=len(left))
        why = Why.EXECUTOR_LOST(address=address)
        self._end([lost(row.id, why, now_ms) for row in left])
        return len(left)

    def _has_unread_reports(self) -> bool:
        """Whether reports, perhaps of a dead boot, are still queued for schedulers."""
        return bool(self._admin.count_messages(topology.callback_queue().name))

    def _patience_seconds(self, boot: Boot) -> float:
        """Return how long a boot's queue must stay empty before its runs are LOST.

        A boot that said goodbye has reported all its runs, but storing the reports may take
        schedulers longer than receiving the goodbye.
        """
        has_left = self._roster.has_left(*boot)
        return max(self._silence_seconds if has_left else 0.0, self._settle_seconds)

    def _in_flight(self, app: str, address: str, boot_id: str) -> list[RoutedRun]:
        # An executor chooses its address and boot id, so only the app separates it from others'
        # runs.
        app_id = self._context.app_names.id_of(app)
        return self._context.database.read(
            lambda session: queries.of_boot(session, app_id, address, boot_id, limit=BATCH)
        )

    def _is_fresh(self, row: RoutedRun, now_ms: int) -> bool:
        """Whether a trigger may still be on its way from its scheduler to the broker."""
        # The clock may have been set back since it was routed.
        age_ms = abs(now_ms - row.routed_at)
        return bool(row.status == RunStatus.ROUTED and age_ms < self._fresh_ms)

    def _drain(self, app: str, address: str, now_ms: int) -> int:
        queue = topology.run_queue(app, address).name
        total = 0

        def settle(deliveries: Sequence[Delivery]) -> None:
            self._end(self._unread(deliveries, app, address, now_ms))

        while drained := self._admin.drain(queue, BATCH, settle):
            total += drained
        return total

    def _unread(
        self, deliveries: Sequence[Delivery], app: str, address: str, now_ms: int
    ) -> list[End]:
        triggers = [
            trigger
            for delivery in deliveries
            for trigger in self._open(delivery, app, address)
            if self._is_proof(trigger, delivery)
        ]
        if len(self._proven) > PROOFS:
            self._proven.clear()
        self._proven.update(trigger.run_id for trigger in triggers)
        app_id = self._context.app_names.id_of(app)
        return [
            _untaken(trigger, SentTo(app_id, address, trigger.boot_id), now_ms)
            for trigger in triggers
        ]

    def _is_proof(self, trigger: Trigger, delivery: Delivery) -> bool:
        """Whether this unread trigger is the only one of its run and was never delivered.

        Runs of a delivered message may have begun, so no trigger in it is proof. A message that
        this reaper took and returned is marked as redelivered, but is still proof.
        """
        if trigger.resent:
            return False
        return not delivery.redelivered or trigger.run_id in self._proven

    def _open(self, delivery: Delivery, app: str, address: str) -> list[Trigger]:
        try:
            message = self._sealer.open(
                delivery,
                expect=Trigger | Triggers,
                direction=Direction.TO_EXECUTOR,
                app=app,
                address=address,
            )
        except Expired as error:
            message = error.message
            if not isinstance(message, Trigger | Triggers):
                return []
        except BadMessage as error:
            self._reject(delivery, error)
            return []
        triggers: list[Trigger] = []
        for trigger, _size in unpacked(message, 0):
            if isinstance(trigger, Trigger):
                triggers.append(trigger)
            else:
                self._reject(delivery, trigger)
        return triggers

    def _reject(self, delivery: Delivery, error: BadMessage) -> None:
        self._context.counters.count("messages_rejected")
        log.warning("message_rejected", queue=delivery.queue, reason=str(error))

    def _end(self, ends: Sequence[End]) -> None:
        bisect(ends, self._ender.end, _skip)


def _skip(end: End, error: Exception) -> None:
    log.error("run_not_ended", run_id=end.run_id, error=str(error))


def _untaken(trigger: Trigger, sent_to: SentTo, now_ms: int) -> End:
    return never_started(
        trigger.run_id,
        Why.TRIGGER_UNREAD(address=sent_to.address),
        now_ms,
        sent_to=sent_to,
        # A run that was routed again since may have arrived in another copy.
        routed_at=trigger.routed_at_ms or None,
    )

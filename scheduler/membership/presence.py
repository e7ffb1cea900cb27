"""Receives the heartbeats and goodbyes of executors; `registrar` decides whom to admit.

Each scheduler has its own heartbeat queue, so each receives all heartbeats, and its own canaries.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from sqlalchemy.orm import Session

from warren.broker.errors import BadMessage, Forged
from warren.broker.messages import (
    ADDRESS_PATTERN,
    APP_PATTERN,
    Boot,
    Canary,
    CatalogueAnswer,
    Goodbye,
    Heartbeat,
)
from warren.broker.signing import Direction, Sealer, address_of, app_of
from warren.broker.transport import Consumer, Delivery
from warren.scheduler.membership.registrar import Registrar, ToldEpochs
from warren.scheduler.membership.registration import (
    BootAccounts,
    registration,
    stored_returns_seconds,
)
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds import NAP_SECONDS
from warren.sql import epochs
from warren.sql.epochs import Cause
from warren.sql.registry import presence

#: Deliveries taken in one round.
BATCH = 500
#: Its place in a scheduler's registered load.
REJECTED_KEY = "rejected"
#: The problems of this scheduler, and the executors whose queues it cannot reach, likewise.
ISSUES_KEY = "ailments"
UNREACHABLE_KEY = "unreachable"
#: How many executors a registration names.
UNREACHABLE_LIMIT = 1_000
#: Whether this scheduler sends e-mails, in its registration.
MAILS_KEY = "mails"
#: For how long, and for how many executors, wrong signatures are reported: anyone may send some.
REJECTED_SECONDS = 30.0
REJECTED_LIMIT = 20

log = structlog.get_logger()


class Presence:
    """The role that listens; newcomers go to the registrar, so that no one waits for them.

    Args:
        on_canary: called with the number of each of this scheduler's own canaries that returns.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        consumer: Consumer,
        sealer: Sealer,
        roster: Roster,
        registrar: Registrar,
        accounts: BootAccounts,
        epochs: ToldEpochs,
        on_canary: Callable[[int], None],
    ) -> None:
        self._context = context
        self._consumer = consumer
        self._sealer = sealer
        self._roster = roster
        self._registrar = registrar
        self._accounts = accounts
        self._epochs = epochs
        self._on_canary = on_canary
        self._rejected: dict[str, float] = {}
        #: The first id of the newest epoch; lower if that is not known here yet.
        self._first_id = 1

    def load(self) -> None:
        """Start with the executors in the registry, as if each had just sent a heartbeat."""
        rows = self._context.database.read(lambda s: presence.listing(s, presence.EXECUTOR))
        self._registrar.learn_catalogues(row.catalogue or "" for row in rows)
        for row in rows:
            returns_seconds = stored_returns_seconds(row)
            boot = Boot(row.app, row.address, row.boot_id)
            self._roster.recall(*boot, returns_seconds=returns_seconds)
            if row.account is not None:
                self._accounts.settle(boot, row.account)

    def run_round(self, _now_ms: int) -> float:
        """Handle what has arrived; waits for the first message unless `wake` is called."""
        deliveries = self._consumer.take(BATCH, NAP_SECONDS)
        messages = [(self._open(delivery), delivery.user) for delivery in deliveries]
        # Ack first: even if the database fails, none of this is worth receiving again.
        self._consumer.ack(deliveries)
        heard = [(message, user) for message, user in messages if isinstance(message, Heartbeat)]
        goodbyes = [(message, user) for message, user in messages if isinstance(message, Goodbye)]
        for canary, _ in messages:
            if isinstance(canary, Canary) and canary.node == self._context.node:
                self._on_canary(canary.number)
        for answer, _ in messages:
            if isinstance(answer, CatalogueAnswer):
                self._registrar.take_catalogue(answer)
        # The round's own time may predate a long wait.
        self._hear(heard, goodbyes, self._context.now_ms())
        return 0

    def rejected(self) -> list[str]:
        """Return the executors, as APP/ADDRESS, whose heartbeats lately had no valid signature.

        They are what the heartbeats claim. Called by any thread.
        """
        oldest = self._context.monotonic() - REJECTED_SECONDS
        return sorted(name for name, at in list(self._rejected.items()) if at > oldest)

    def wake(self) -> None:
        """Let a round that waits end at once."""
        self._consumer.wake()

    def _open(self, delivery: Delivery) -> Any:
        try:
            message = self._sealer.open(
                delivery,
                expect=Heartbeat | Goodbye | CatalogueAnswer | Canary,
                direction=Direction.FROM_EXECUTOR,
            )
            if not isinstance(message, Canary):
                self._accounts.prove(_boot(message), delivery.user)
        except BadMessage as error:
            if isinstance(error, Forged):
                self._note_rejected(delivery)
            self._context.counters.count("messages_rejected")
            log.warning("message_rejected", queue=delivery.queue, reason=str(error))
            return None
        return message

    def _note_rejected(self, delivery: Delivery) -> None:
        app, address = app_of(delivery), address_of(delivery)
        if not re.fullmatch(APP_PATTERN, app) or not re.fullmatch(ADDRESS_PATTERN, address):
            return
        self._rejected.pop(f"{app}/{address}", None)
        if len(self._rejected) >= REJECTED_LIMIT:
            del self._rejected[next(iter(self._rejected))]
        self._rejected[f"{app}/{address}"] = self._context.monotonic()

    def _compare_ids(self, beats: Sequence[Heartbeat]) -> None:
        """Begin an epoch of run ids if an executor knows an id that was not assigned yet.

        This happens before it is welcomed, so before anything is sent to it. The same if it met an
        id of this epoch twice; its heartbeats continue to report that.
        """
        database = self._context.database
        for beat in beats:
            seen_id, twice_id = beat.last_run_id or 0, beat.repeated_id
            if seen_id > database.seen_ids.highest or twice_id >= self._first_id:
                told_by = f"{beat.app}/{beat.address}"
                database.begin_epoch(
                    Cause.EXECUTOR, seen_id=seen_id, twice_id=twice_id, told_by=told_by
                )
                _, self._first_id = database.read(epochs.newest)

    def _hear(
        self,
        heartbeats: Sequence[tuple[Heartbeat, str]],
        goodbyes: Sequence[tuple[Goodbye, str]],
        now_ms: int,
    ) -> None:
        """Handle the messages, each with the broker account that sent it."""
        self._epochs.hear(beat for beat, _ in heartbeats)
        latest = {(_boot(beat), user): beat for beat, user in heartbeats}
        for goodbye, user in goodbyes:
            # A goodbye is a boot's last message; a heartbeat in the same batch is older.
            latest.pop((_boot(goodbye), user), None)
            self._roster.dismiss(*_boot(goodbye))
            log.info("executor_left", app=goodbye.app, address=goodbye.address)
        known = [
            beat
            for (boot, _), beat in latest.items()
            # A boot whose account is unknown counts once the registrar has admitted it.
            if self._accounts.knows(boot) and self._roster.hear(beat)
        ]
        for (_, user), beat in latest.items():
            # Every heartbeat is answered: a lost Welcome comes again, and clocks stay together.
            self._registrar.greet(beat, user)
        self._compare_ids([beat for beat, _ in heartbeats])
        if known or goodbyes:
            self._context.database.write(lambda session: _record(session, known, goodbyes, now_ms))


def _boot(message: Heartbeat | Goodbye | CatalogueAnswer) -> Boot:
    return Boot(message.app, message.address, message.boot_id)


def _record(
    session: Session,
    heartbeats: Sequence[Heartbeat],
    goodbyes: Sequence[tuple[Goodbye, str]],
    now_ms: int,
) -> None:
    for beat in sorted(heartbeats, key=_boot):
        presence.renew(session, registration(beat, now_ms))
    for bye, user in sorted(goodbyes, key=lambda goodbye: _boot(goodbye[0])):
        if presence.leave(session, presence.EXECUTOR, *_boot(bye), account=user):
            presence.note(session, bye.app, bye.address, now_ms)

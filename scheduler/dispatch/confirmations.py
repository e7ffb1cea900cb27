"""Records the broker's confirms of published triggers: SENT, UNDELIVERED, or left to the rescuer.

A separate role, because the dispatcher must not wait for the broker while more comes due.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.completion.completion import RunEnder
from warren.scheduler.completion.end import End, never_started
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds import NAP_SECONDS
from warren.scheduler.triggers import BatchResult, RoutedTrigger, TriggerBatch
from warren.sql.errors import DatabaseUnavailable
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions

#: The most unconfirmed batches; after that the dispatcher waits.
UNCONFIRMED_LIMIT = 4
#: For how long a trigger that was not confirmed in time counts against the broker, unless another
#: one is confirmed. The rescuer sends it again sooner.
STALLED_SECONDS = 30.0

log = structlog.get_logger()


class Confirmations:
    """Records whether one scheduler's triggers arrived.

    Args:
        on_unknown: called with the ids of runs whose trigger the broker neither confirmed nor
        returned.
        on_missing: called with the app and address of an executor whose queue does not exist.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        ender: RunEnder,
        on_unknown: Callable[[Sequence[int]], None],
        on_missing: Callable[[str, str], None],
    ) -> None:
        self._context = context
        self._ender = ender
        self._on_unknown = on_unknown
        self._on_missing = on_missing
        self._changed = threading.Condition()
        self._on_the_way: deque[TriggerBatch] = deque()
        self._confirmed_at = self._unconfirmed_at = float("-inf")

    @property
    def are_stalled(self) -> bool:
        """Whether the broker lately left triggers unconfirmed, and has confirmed none since."""
        since = self._context.monotonic() - self._unconfirmed_at
        return self._unconfirmed_at > self._confirmed_at and since <= STALLED_SECONDS

    def note_unconfirmed(self) -> None:
        """Record that the broker has left another message to an executor unconfirmed."""
        self._unconfirmed_at = self._context.monotonic()

    def add(self, batch: TriggerBatch) -> None:
        with self._changed:
            self._on_the_way.append(batch)
        self._context.wakes.wake("confirmations")

    def wait_for_room(self, seconds: float) -> bool:
        """Wait until there is room for another batch; return False on timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: len(self._on_the_way) < UNCONFIRMED_LIMIT, seconds
            )

    def run_round(self, _now_ms: int) -> float:
        """Record the oldest batch and all settled ones; return the seconds until the next round."""
        self._settle()
        return 0 if self._on_the_way else NAP_SECONDS

    def drain(self) -> None:
        """Record all batches that are still unconfirmed."""
        while self._on_the_way:
            self._settle()

    def _settle(self) -> None:
        results: list[BatchResult] = []
        for batch in list(self._on_the_way):
            if results and not batch.is_settled:
                break
            results.append(batch.result())
        try:
            self._note(results)
        except DatabaseUnavailable:
            raise  # recorded when the database is back
        except Exception:
            self._strike_off(len(results))  # the rescuer finds these runs unconfirmed
            raise
        self._strike_off(len(results))

    def _strike_off(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                self._on_the_way.popleft()
            self._changed.notify_all()

    def _note(self, results: Sequence[BatchResult]) -> None:
        now_ms = self._context.now_ms()
        sent: list[int] = []
        ends: list[End] = []
        unknown: list[int] = []
        now = self._context.monotonic()
        for result in results:
            if result.confirmed or result.returned:
                self._confirmed_at = now
            elif result.is_published and result.unknown:
                self._unconfirmed_at = now
            sent += [item.trigger.run_id for item in result.confirmed]
            ends += [_returned(item, now_ms) for item in result.returned]
            ends += [_unsendable(item, why, now_ms) for item, why in result.unsendable]
            unknown += [item.trigger.run_id for item in result.unknown]
            for app, address in {(item.app, item.address) for item in result.returned}:
                self._on_missing(app, address)
        if sent or ends:
            self._ender.end(ends, first=lambda session: self._mark_sent(session, sent, now_ms))
        if unknown:
            self._on_unknown(unknown)
            log.warning("triggers_unconfirmed", count=len(unknown))

    def _mark_sent(self, session: Session, sent: list[int], now_ms: int) -> None:
        if sent:
            transitions.mark_sent(session, sent, node=self._context.node, now_ms=now_ms)


def _returned(item: RoutedTrigger, now_ms: int) -> End:
    trigger, why = item.trigger, Why.QUEUE_MISSING(address=item.address)
    return never_started(trigger.run_id, why, now_ms, routed_at=trigger.routed_at_ms)


def _unsendable(item: RoutedTrigger, why: str, now_ms: int) -> End:
    return End(
        run_id=item.trigger.run_id,
        status=RunStatus.FAILED,
        message=Why.TRIGGER_NOT_MADE(why=why),
        finished_at=now_ms,
        routed_at=item.trigger.routed_at_ms,
    )

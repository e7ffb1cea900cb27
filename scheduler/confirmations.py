"""What the broker said of published triggers, into rows: SENT, UNDELIVERED, or a rescuer's case.

A role of its own, because the dispatcher must not wait for the broker while more comes due.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.orm import Session

from scheduler.aftermath import End
from scheduler.completion import Completion
from scheduler.delivery import Parcel, Receipt, Shipment
from sql import runs
from sql.engine import Database
from sql.errors import DatabaseUnavailable
from sql.ids import RunIds
from sql.run_status import RunStatus

#: Shipments on their way before the dispatcher makes no more.
ROOM = 4
#: How long a round waits for the first shipment.
IDLE_SECONDS = 0.5

log = structlog.get_logger()


class Confirmations:
    """Notes the fates of one scheduler's triggers.

    Args:
        node: this scheduler's name, the owner of what it routed.
        on_unknown: told the ids of runs of whose trigger the broker did not say what became.
        on_missing: told the app and address of an executor whose queue is not there.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        now_ms: Callable[[], int],
        ids: RunIds,
        completion: Completion,
        on_unknown: Callable[[Sequence[int]], None],
        on_missing: Callable[[str, str], None],
    ) -> None:
        self._node = node
        self._database = database
        self._now_ms = now_ms
        self._ids = ids
        self._completion = completion
        self._on_unknown = on_unknown
        self._on_missing = on_missing
        self._changed = threading.Condition()
        self._on_the_way: deque[Shipment] = deque()

    def add(self, shipment: Shipment) -> None:
        """Take a shipment that was published."""
        with self._changed:
            self._on_the_way.append(shipment)
            self._changed.notify_all()

    def wait_for_room(self, seconds: float) -> bool:
        """Wait until one more shipment may be made; False when time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._on_the_way) < ROOM, seconds)

    def tick(self, _now_ms: int) -> float:
        """Note the oldest shipment and what else is settled, waiting for the first one."""
        with self._changed:
            self._changed.wait_for(lambda: self._on_the_way, IDLE_SECONDS)
        self._settle()
        return 0

    def drain(self) -> None:
        """Note everything that is on its way."""
        while self._on_the_way:
            self._settle()

    def _settle(self) -> None:
        receipts: list[Receipt] = []
        for shipment in list(self._on_the_way):
            if receipts and not shipment.is_settled:
                break
            receipts.append(shipment.receipt())
        try:
            self._note(receipts)
        except DatabaseUnavailable:
            raise  # it is noted when the database is back
        except Exception:
            self._strike_off(len(receipts))  # the rescuer will find these runs unconfirmed
            raise
        self._strike_off(len(receipts))

    def _strike_off(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                self._on_the_way.popleft()
            self._changed.notify_all()

    def _note(self, receipts: Sequence[Receipt]) -> None:
        now_ms = self._now_ms()
        sent: list[int] = []
        ends: list[End] = []
        unknown: list[int] = []
        for receipt in receipts:
            sent += [item.trigger.run_id for item in receipt.confirmed]
            ends += [_returned(item, now_ms) for item in receipt.returned]
            ends += [_unsendable(item, why, now_ms) for item, why in receipt.unsendable]
            unknown += [item.trigger.run_id for item in receipt.unknown]
            for app, address in {(item.app, item.address) for item in receipt.returned}:
                self._on_missing(app, address)
        if sent or ends:
            self._ids.reserve()
            self._database.write(lambda session: self._record(session, sent, ends, now_ms))
        if unknown:
            self._on_unknown(unknown)
            log.warning("triggers_unconfirmed", count=len(unknown))

    def _record(self, session: Session, sent: list[int], ends: list[End], now_ms: int) -> None:
        if sent:
            runs.mark_sent(session, sent, node=self._node, now_ms=now_ms)
        if ends:
            self._completion.end(session, ends)


def _returned(item: Parcel, now_ms: int) -> End:
    return End(
        run_id=item.trigger.run_id,
        status=RunStatus.UNDELIVERED,
        message=f"the queue of executor {item.address} is missing",
        finished_at=now_ms,
        never_started=True,
        routed_at=item.trigger.routed_at_ms,
    )


def _unsendable(item: Parcel, why: str, now_ms: int) -> End:
    return End(
        run_id=item.trigger.run_id,
        status=RunStatus.FAILED,
        message=f"cannot make its trigger: {why}",
        finished_at=now_ms,
        routed_at=item.trigger.routed_at_ms,
    )

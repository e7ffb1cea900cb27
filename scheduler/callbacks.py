"""Executors' reports into rows: one transaction a batch, acknowledged after its commit.

A callback that cannot be stored is found by bisection, dead-lettered alone, and its run ends
FAILED with the reason, so that one bad report never holds up the others.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy.orm import Session

from broker import topology
from broker.errors import BadMessage
from broker.messages import (
    Callback,
    Finished,
    NotStarted,
    Outcome,
    Report,
    Started,
    StillOpen,
    WhichOpen,
)
from broker.signing import Direction, Sealer
from broker.transport import Consumer, Delivery, Publisher
from scheduler.aftermath import End
from scheduler.bisection import bisect
from scheduler.completion import Completion, Tally
from scheduler.counters import Counters
from sql import run_queries, runs
from sql.engine import Database
from sql.errors import DatabaseUnavailable
from sql.ids import RunIds
from sql.run_status import IN_FLIGHT, RunStatus

#: Deliveries taken in one round; each carries up to 100 reports.
BATCH = 50
#: Shortest time from one round to the next: a transaction costs as much as thirty reports in it.
#: A callback after a pause is stored at once.
GATHER_SECONDS = 0.05
#: How long an answer to `WhichOpen` is good for.
ANSWER_SECONDS = 30.0

_STATUS: dict[Outcome, RunStatus] = {outcome: RunStatus(outcome.value) for outcome in Outcome}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Item:
    """One report, the executor that made it, and the delivery that brought it."""

    delivery: Delivery
    address: str
    report: Report


class Callbacks:
    """Moves runs as their executors report.

    Args:
        on_planned: called after a commit that planned further attempts.
        on_freed: told after a commit how many runs ended at each address of each app.

    """

    def __init__(
        self,
        *,
        database: Database,
        ids: RunIds,
        completion: Completion,
        consumer: Consumer,
        publisher: Publisher,
        sealer: Sealer,
        counters: Counters,
        on_planned: Callable[[], None],
        on_freed: Callable[[Mapping[tuple[int, str], int]], None],
    ) -> None:
        self._database = database
        self._ids = ids
        self._completion = completion
        self._consumer = consumer
        self._publisher = publisher
        self._sealer = sealer
        self._counters = counters
        self._on_planned = on_planned
        self._on_freed = on_freed
        self._held: list[Delivery] = []
        self._items: list[_Item] = []

    def tick(self, now_ms: int) -> float:
        """Store what has arrived, waiting up to half a second for the first message.

        Returns the seconds in which further ones gather for the next round.
        """
        if not self._held:
            self._take()
        if not self._held:
            return 0
        began_at = time.monotonic()
        spoiled = self._store(self._items, now_ms)
        rejected = {id(item.delivery) for item in spoiled}
        self._consumer.ack([item for item in self._held if id(item) not in rejected])
        self._consumer.reject([item for item in self._held if id(item) in rejected])
        # Only now: a database that is away must find the same deliveries here next round.
        self._held, self._items = [], []
        return max(0.0, began_at + GATHER_SECONDS - time.monotonic())

    def _take(self) -> None:
        for delivery in self._consumer.take(BATCH, 0.5):
            try:
                message = self._sealer.open(
                    delivery, expect=Callback | WhichOpen, direction=Direction.FROM_EXECUTOR
                )
            except BadMessage as error:
                self._counters.count("messages_rejected")
                log.warning("message_rejected", queue=delivery.queue, reason=str(error))
                self._consumer.reject([delivery])
                continue
            self._held.append(delivery)
            if isinstance(message, WhichOpen):
                self._answer(message)
            else:
                self._items += [
                    _Item(delivery, message.address, report) for report in message.reports
                ]

    def _store(self, items: list[_Item], now_ms: int) -> list[_Item]:
        """Store reports; return those that the database would not take."""
        spoiled: list[_Item] = []

        def give_up(item: _Item, error: Exception) -> None:
            self._give_up(item, error, now_ms)
            spoiled.append(item)

        bisect(items, lambda part: self._write(part, now_ms), give_up)
        return spoiled

    def _write(self, items: Sequence[_Item], now_ms: int) -> None:
        self._ids.reserve()
        tally = self._database.write(lambda session: self._move(session, items, now_ms))
        self._count(tally)
        self._on_freed(tally.freed)
        if tally.planned:
            self._on_planned()

    def _move(self, session: Session, items: Sequence[_Item], now_ms: int) -> Tally:
        started = [item for item in items if isinstance(item.report, Started)]
        if started:
            _start(session, started)
        ends = [_end(item, now_ms) for item in items if not isinstance(item.report, Started)]
        return self._completion.end(session, ends) if ends else Tally()

    def _give_up(self, item: _Item, error: Exception, now_ms: int) -> None:
        """End the run of a report that cannot be stored; when that fails too, go on without it."""
        self._counters.count("callbacks_unstorable")
        words = " ".join(str(error).split())[:500]
        log.error("callback_unstorable", run_id=item.report.run_id, error=words)
        end = End(
            run_id=item.report.run_id,
            status=RunStatus.FAILED,
            message=f"its result could not be stored: {words}",
            finished_at=now_ms,
            address=item.address,
            boot_id=item.report.boot_id,
        )
        try:
            self._database.write(lambda session: self._completion.end(session, [end]))
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("run_not_ended", run_id=item.report.run_id)

    def _count(self, tally: Tally) -> None:
        self._counters.count("callbacks_stored", len(tally.won))
        if tally.lost:
            self._counters.count("callbacks_ignored", len(tally.lost))
            log.debug("callbacks_ignored", run_ids=tally.lost[:20])
        if tally.strange or tally.unknown:
            self._counters.count("callbacks_rejected", len(tally.strange) + len(tally.unknown))
            log.warning(
                "callbacks_rejected",
                not_theirs=list(tally.strange)[:20],
                unknown=list(tally.unknown)[:20],
            )

    def _answer(self, question: WhichOpen) -> None:
        """Tell an executor that was out of contact which of its waiting runs may still start."""
        try:
            rows = self._database.read(
                lambda session: run_queries.by_ids(session, question.run_ids)
            )
        except DatabaseUnavailable as error:
            log.warning("question_not_answered", address=question.address, error=str(error))
            return  # it is asked again every few seconds
        theirs = (question.address, question.boot_id)
        still_open = tuple(
            row.id
            for row in rows
            if row.status in IN_FLIGHT and (row.executor_address, row.boot_id) == theirs
        )
        queue = topology.command_queue(question.app, question.address, question.boot_id)
        message = self._sealer.seal(
            StillOpen(asked=question.run_ids, open_ids=still_open),
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=queue.name,
            address=question.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=ANSWER_SECONDS,
            durable=False,
        )
        self._publisher.publish([message])


def _start(session: Session, items: Sequence[_Item]) -> None:
    rows = {
        row.id: (row.executor_address, row.boot_id)
        for row in run_queries.by_ids(session, [item.report.run_id for item in items])
    }
    started = {
        item.report.run_id: item.report.started_at_ms
        for item in items
        if isinstance(item.report, Started)
        and rows.get(item.report.run_id) == (item.address, item.report.boot_id)
    }
    if started:
        runs.start(session, started)


def _end(item: _Item, now_ms: int) -> End:
    report = item.report
    if isinstance(report, NotStarted):
        return End(
            run_id=report.run_id,
            status=RunStatus.UNDELIVERED,
            message=report.reason,
            finished_at=now_ms,
            never_started=True,
            address=item.address,
            boot_id=report.boot_id,
        )
    assert isinstance(report, Finished)
    return End(
        run_id=report.run_id,
        status=_STATUS[report.outcome],
        message=report.message,
        finished_at=report.finished_at_ms,
        started_at=report.started_at_ms or None,
        log_tail=report.log_tail,
        address=item.address,
        boot_id=report.boot_id,
    )

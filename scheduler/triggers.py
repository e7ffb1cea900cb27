"""Triggers: built from rows, put into messages, published, and confirmed by the broker.

Those for one boot share a message. A trigger that is sent again travels alone: if it is unreadable,
it must not take the others down with it a second time. Nothing else publishes triggers, and they
are published after the commit that routed their runs.

What the broker confirms becomes SENT, what it returns UNDELIVERED; the rest is left to the rescuer.
A separate role records that, because the dispatcher must not wait for the broker while more comes
due.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import structlog
from sqlalchemy.orm import Session

from warren.broker import topology
from warren.broker.codec import encode, packed, stretches
from warren.broker.errors import Malformed
from warren.broker.messages import HIGH, LOW, NORMAL, Block, Trigger, Triggers
from warren.broker.process_use import ProcessUse
from warren.broker.reasons import Why
from warren.broker.signing import Direction, Sealer
from warren.broker.transport import Batch, Confirm, Outgoing, Publisher
from warren.scheduler.completion.completion import RunEnder
from warren.scheduler.completion.end import End, never_started
from warren.scheduler.jobs.script_cache import Script
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds import NAP_SECONDS
from warren.scheduler.schedules.registry import OneTime
from warren.sql.errors import DatabaseUnavailable
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.models.job_tables import Priority
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions
from warren.sql.runs.run_rows import PlannedRun, RoutedRun

#: How long an executor may take a trigger from its queue; the id is remembered for longer.
TRIGGER_VALID_SECONDS = 600.0

#: Returns how many triggers a boot of an app's address takes in one message.
Capacity = Callable[[str, str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTrigger:
    """A routed run with its trigger."""

    app: str
    address: str
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class Pack:
    """A message and its triggers, which arrive or fail together."""

    triggers: Sequence[RoutedTrigger]
    message: Outgoing


class TriggerMessages:
    def __init__(self, sealer: Sealer, capacity: Capacity) -> None:
        self._sealer = sealer
        self._capacity = capacity

    def make(
        self, triggers: Iterable[RoutedTrigger]
    ) -> tuple[list[Pack], list[tuple[RoutedTrigger, str]]]:
        """Return messages, and the triggers that fit into none, with the reason."""
        packs: list[Pack] = []
        unsendable: list[tuple[RoutedTrigger, str]] = []
        for alike in self._by_boot(triggers):
            try:
                packs += list(self._packs(alike))
            except (Malformed, ValueError):  # one of them is at fault: try each by itself
                for routed in alike:
                    try:
                        packs.append(self._alone(routed))
                    except (Malformed, ValueError) as error:
                        unsendable.append((routed, str(error)))
        return packs, unsendable

    def _by_boot(self, triggers: Iterable[RoutedTrigger]) -> Iterator[list[RoutedTrigger]]:
        """Yield the triggers that may share a message, in the order of the first of each."""
        by_boot: dict[tuple[str, str, str, int], list[RoutedTrigger]] = defaultdict(list)
        for routed in triggers:
            trigger = routed.trigger
            alone = trigger.run_id if trigger.resent else 0
            by_boot[routed.app, routed.address, trigger.boot_id, alone].append(routed)
        yield from by_boot.values()

    def _packs(self, alike: Sequence[RoutedTrigger]) -> Iterator[Pack]:
        first = alike[0]
        limit = self._capacity(first.app, first.address, first.trigger.boot_id)
        if len(alike) == 1 or limit <= 1:
            yield from map(self._alone, alike)
            return
        encoded = [encode(routed.trigger) for routed in alike]
        for stretch in stretches([len(item) for item in encoded], limit):
            together = alike[stretch]
            if len(together) == 1:
                yield self._alone(together[0])
            else:
                yield Pack(together, self._seal(first, packed(encoded[stretch])))

    def _alone(self, routed: RoutedTrigger) -> Pack:
        return Pack([routed], self._seal(routed, routed.trigger))

    def _seal(self, to: RoutedTrigger, message: Trigger | Triggers) -> Outgoing:
        return self._sealer.seal(
            message,
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=_run_queue_name(to.app, to.address),
            app=to.app,
            address=to.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=TRIGGER_VALID_SECONDS,
        )


_RANKS: dict[str, int] = {Priority.HIGH: HIGH, Priority.NORMAL: NORMAL, Priority.LOW: LOW}


def rank_of(priority: str) -> int:
    """Return a job's class of priority, as `warren.broker.turns` has it; unknown = normal."""
    return _RANKS.get(priority, NORMAL)


@lru_cache(maxsize=4_096)
def _run_queue_name(app: str, address: str) -> str:
    """Return a queue's name, cached because checking it costs 5 us per trigger."""
    return topology.run_queue(app, address).name


def routed_trigger(
    run: PlannedRun | RoutedRun,
    job: JobToRun,
    *,
    app: str,
    address: str,
    boot_id: str,
    routed_at: int,
    script: Script | None = None,
    resent: bool = False,
    holds_limits: bool = False,
    epoch: int = 0,
) -> RoutedTrigger:
    """Return the trigger of a run for a boot of an executor; a script replaces the handler.

    Raises:
        ValueError: the job's row holds a value that no trigger can carry.

    """
    return RoutedTrigger(
        app=app,
        address=address,
        trigger=Trigger(
            run_id=run.id,
            job_id=run.job_id,
            boot_id=boot_id,
            kind=run.kind,
            handler=run.handler or "",
            param=run.param or "",
            attempt=run.starts,
            shard_index=run.shard_index,
            shard_total=run.shard_total,
            scheduled_at_ms=run.scheduled_at,
            run_date=run.run_date.isoformat() if run.run_date else "",
            block=Block(job.block) if run.backfill_id is None else Block.SERIAL_EXECUTION,
            concurrency=job.concurrency,
            timeout_seconds=job.timeout,
            process=ProcessUse(job.process) if job.process else None,
            one_time=job.schedule_kind == OneTime.kind,
            script_language=script.language if script else "",
            script_source=script.source if script else "",
            resent=resent,
            routed_at_ms=routed_at,
            due_at_ms=run.due_at,
            traceparent=run.traceparent or "",
            holds_limits=holds_limits,
            priority=rank_of(job.priority),
            epoch=epoch,
        ),
    )


#: How long a broker may take to confirm before the outcome counts as unknown.
CONFIRM_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """Triggers by what happened to them; `is_published`: they were given to the broker."""

    confirmed: list[RoutedTrigger]
    returned: list[RoutedTrigger]
    unknown: list[RoutedTrigger]
    unsendable: list[tuple[RoutedTrigger, str]]
    is_published: bool


class TriggerBatch:
    """Triggers whose confirms are awaited; `batch` is None if they were not published."""

    def __init__(
        self,
        packs: Sequence[Pack],
        batch: Batch | None,
        unsendable: list[tuple[RoutedTrigger, str]],
    ) -> None:
        self._packs = packs
        self._batch = batch
        self._unsendable = unsendable
        self._give_up_at = time.monotonic() + CONFIRM_SECONDS

    @property
    def is_settled(self) -> bool:
        """Whether `result` would return at once."""
        return self._batch is None or self._batch.is_settled

    def result(self) -> BatchResult:
        """Wait for the confirm of each message, up to 5 s from its publishing.

        It applies to every trigger in the message.
        """
        by_fate: dict[Confirm, list[RoutedTrigger]] = {fate: [] for fate in Confirm}
        for pack, fate in zip(self._packs, self._fates(), strict=True):
            by_fate[fate] += pack.triggers
        return BatchResult(
            confirmed=by_fate[Confirm.CONFIRMED],
            returned=by_fate[Confirm.RETURNED],
            unknown=by_fate[Confirm.UNKNOWN],
            unsendable=self._unsendable,
            is_published=self._batch is not None,
        )

    def _fates(self) -> list[Confirm]:
        if self._batch is None:
            return [Confirm.UNKNOWN] * len(self._packs)
        return self._batch.wait(max(0.0, self._give_up_at - time.monotonic()))


class TriggerPublisher:
    """Sends triggers to executors' queues.

    Args:
        publisher: where they are published.
        messages: packs and signs them.
        stale_seconds: how long after its decision a trigger may still be published.
        stamp: adds the trace that a trigger belongs to.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        publisher: Publisher,
        messages: TriggerMessages,
        *,
        stale_seconds: float,
        stamp: Callable[[Trigger], Trigger] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._messages = messages
        self._stale_seconds = stale_seconds
        self._stamp = stamp
        self._clock = clock

    @property
    def is_open(self) -> bool:
        """Whether the broker takes messages now."""
        return self._publisher.is_ready

    def send(self, triggers: Iterable[RoutedTrigger], *, decided_at: float) -> TriggerBatch:
        """Publish triggers; those that do not fit into a message are reported as unsendable.

        `decided_at` is the monotonic time of the commit or query that allowed it.
        """
        if self._stamp is not None:
            triggers = [replace(item, trigger=self._stamp(item.trigger)) for item in triggers]
        packs, unsendable = self._messages.make(triggers)
        is_stale = self._clock() - decided_at > self._stale_seconds
        messages = [pack.message for pack in packs]
        batch = None if is_stale else self._publisher.publish(messages)
        return TriggerBatch(packs, batch, unsendable)


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

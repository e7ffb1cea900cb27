"""Publishes triggers, with pipelined confirms; nothing else does.

It runs after the commit that routed the runs.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from warren.broker.messages import Trigger
from warren.broker.transport import Batch, Confirm, Publisher
from warren.scheduler.triggers.messages import Pack, RoutedTrigger, TriggerMessages

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

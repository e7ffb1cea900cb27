"""Simulates crashes, cut network cables and lost messages inside one process."""

import asyncio
import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from warren.broker.transport import (
    Batch,
    Confirm,
    Consumer,
    Delivery,
    Outgoing,
    Publisher,
    Transport,
)
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

T = TypeVar("T")

#: The name of the connection on which a scheduler publishes triggers.
TRIGGERS = "triggers"


class MortalDatabase:
    """A database that commits nothing after `die`.

    `before_next_write` is called once, when the next write is asked for; `before_commit` and
    `after_commit` in each write, and may raise. `loses_next_answer`: the next write is committed
    and made again, as the database layer does when a commit gets no answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_dead = False
        self.before_next_write: Callable[[], None] | None = None
        self.loses_next_answer = False
        self.before_commit: Callable[[], None] = lambda: None
        self.after_commit: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def die(self) -> None:
        self.is_dead = True

    def read(self, unit: Callable[[Any], T]) -> T:
        self._check()
        return self._database.read(unit)

    def write(self, unit: Callable[[Any], T]) -> T:
        def checked(session: Any) -> T:
            result = unit(session)
            self.before_commit()
            self._check()
            return result

        self._check()
        before, self.before_next_write = self.before_next_write, None
        if before is not None:
            before()
        if self.loses_next_answer:
            self.loses_next_answer = False
            self._database.write(checked)
        result = self._database.write(checked)
        self.after_commit()
        self._check()
        return result

    def _check(self) -> None:
        if self.is_dead:
            raise DatabaseUnavailable("this process is dead")


class CuttableTransport:
    """A transport whose cable can be cut: nothing is sent or received, and nobody is told.

    A thread that uses it after the death of its process blocks from then on, and ends with the
    test. A thread with an event loop ends at once.

    `published` is all that was published through it; `loses_confirms` lets messages pass, but not
    their confirms, and `loses_messages` neither, by the name of the publisher.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_cut = False
        self.is_dead = False
        self.published: defaultdict[str, list[Outgoing]] = defaultdict(list)
        self.loses_confirms: set[str] = set()
        self.loses_messages: set[str] = set()
        self._is_over = threading.Event()

    def die(self) -> None:
        """Close the connections, as the death of their process does."""
        self.is_cut = self.is_dead = True
        self._transport.close()

    def check_alive(self) -> None:
        if self.is_dead:
            if not _has_event_loop():
                self._is_over.wait()
            raise SystemExit  # ends a thread silently

    def publisher(self, name: str, **options: Any) -> "_Publisher":
        return _Publisher(self, name, self._transport.publisher(name, **options))

    def consumer(self, name: str, queues: Sequence[Any], *, prefetch: int) -> "_Consumer":
        return _Consumer(self, self._transport.consumer(name, queues, prefetch=prefetch))

    def admin(self, name: str, **options: Any) -> Any:
        return self._transport.admin(name, **options)

    def check(self) -> None:
        self._transport.check()

    def close(self) -> None:
        self.die()
        self._is_over.set()


def _has_event_loop() -> bool:
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


class _Unconfirmed:
    """Messages of which no confirm comes."""

    is_settled = True

    def __init__(self, count: int) -> None:
        self._count = count

    def wait(self, timeout_seconds: float) -> list[Confirm]:  # noqa: ARG002
        return [Confirm.UNKNOWN] * self._count


class _Publisher:
    def __init__(self, cable: CuttableTransport, name: str, publisher: Publisher) -> None:
        self._cable = cable
        self._name = name
        self._publisher = publisher

    @property
    def is_ready(self) -> bool:
        return not self._cable.is_cut and self._publisher.is_ready

    @property
    def missing_exchanges(self) -> int:
        return self._publisher.missing_exchanges

    def publish(self, messages: Sequence[Outgoing]) -> Batch:
        cable = self._cable
        cable.check_alive()
        cable.published[self._name].extend(messages)
        unconfirmed = _Unconfirmed(len(messages))
        if cable.is_cut or self._name in cable.loses_messages:
            return unconfirmed
        batch = self._publisher.publish(messages)
        return unconfirmed if self._name in cable.loses_confirms else batch

    def close(self) -> None:
        self._publisher.close()


class _Consumer:
    def __init__(self, cable: CuttableTransport, consumer: Consumer) -> None:
        self._cable = cable
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def take(self, limit: int, timeout_seconds: float) -> list[Delivery]:
        self._cable.check_alive()
        if self._cable.is_cut:
            time.sleep(min(timeout_seconds, 0.05))
            return []
        return self._consumer.take(limit, timeout_seconds)

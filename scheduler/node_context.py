"""What nearly all roles of a scheduler share, as one value, with its connections to the broker.

Connections are opened and closed together. Timeouts and claim limits are values that tests can
lower. Commands to boots of executors are not durable: the role that sends one repeats it until it
sees the effect.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from sqlalchemy.orm import Session

from warren.broker import topology
from warren.broker.errors import QueueUnavailable
from warren.broker.messages import Boot, Command
from warren.broker.rpc import Requester
from warren.broker.signing import Direction, Sealer
from warren.broker.transport import Batch, Outgoing, Publisher, Transport
from warren.scheduler.metrics import RunMetrics
from warren.scheduler.rounds import WakeUps
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.registry import apps
from warren.sql.registry.presence import EXECUTOR_ALIVE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLimits:
    """Limits of one transaction that routes runs.

    Attributes:
        runs: most runs claimed.
        shards: once a claim has this many triggers, further broadcasts wait for the next claim.
        script_characters: once a claim has this many characters of scripts, further scripts wait
            for the next claim.

    """

    runs: int = 500
    shards: int = 2_000
    script_characters: int = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds.

    Attributes:
        dead_after: silence after which an executor counts as dead; three missed heartbeats.
        lapse: gap between two self checks after which a scheduler no longer judges others.
        no_executor: how long a due run waits while its app, its requested executors or its handler
            are nowhere online, before it ends UNDELIVERED.
        silence: time without a report about a run before its executor is asked about it.
        answer: how long an executor may take to answer, also if another one claims its address.
        probe: how long an executor may take to answer a probe before a route skips it.
        owner_silent: silence of a scheduler after which others send the runs that it routed.
        take_over: age at which any scheduler sends an unconfirmed trigger again.
        fresh: age up to which an unconfirmed trigger may still reach a dead executor's queue.
        settle: how long a dead executor's queue must stay empty before its runs are LOST; another
            scheduler may hold a message from it.
        stale: how long after its decision a trigger may still be published. A scheduler that was
            frozen in between publishes nothing: others have taken over its runs and may have sent
            them elsewhere.
        kill_again: time between two orders to kill the same run.

    """

    dead_after: float = EXECUTOR_ALIVE_MS / 1_000
    lapse: float = 2.0
    no_executor: float = 60.0
    silence: float = 10.0
    answer: float = 2.0
    probe: float = 1.0
    owner_silent: float = 1.5
    take_over: float = 10.0
    fresh: float = 4.0
    settle: float = 1.0
    stale: float = 0.75
    kill_again: float = 2.0


#: How long a command is valid, by default.
VALID_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedCommand:
    """A command, and the boot that it is for."""

    boot: Boot
    message: Command
    valid_seconds: float = VALID_SECONDS


class CommandSender:
    """Publishes commands; any role may use it."""

    def __init__(self, publisher: Publisher, sealer: Sealer) -> None:
        self._publisher = publisher
        self._sealer = sealer

    @property
    def is_ready(self) -> bool:
        """Whether the broker takes messages now."""
        return self._publisher.is_ready

    def send(self, commands: Sequence[AddressedCommand]) -> Batch:
        """Publish commands; the returned batch has their confirms, in the same order."""
        return self._publisher.publish([self._seal(command) for command in commands])

    def _seal(self, command: AddressedCommand) -> Outgoing:
        return self._sealer.seal(
            command.message,
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=topology.command_queue(*command.boot).name,
            app=command.boot.app,
            address=command.boot.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=command.valid_seconds,
            durable=False,
        )


class Counters:
    """Numbers that only grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counts[name] += by

    def all(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def __getitem__(self, name: str) -> int:
        """Return the value of a counter; 0 if it was never counted."""
        with self._lock:
            return self._counts[name]


#: The most callbacks prefetched; each carries up to 100 reports.
CALLBACK_PREFETCH = 100
HEARTBEAT_PREFETCH = 1_000
#: How long RabbitMQ may confirm nothing before no more runs are claimed. A run that was claimed is
#: sent however late; one that was not follows its job's misfire policy.
SILENT_SECONDS = 1.0
#: How long RabbitMQ may take to declare a queue. While its disk stalls, that is over the five
#: seconds of a connection, and a scheduler that gave up then would not start.
DECLARE_SECONDS = 30.0


class Connections:
    """Publishers, consumers and admins of one scheduler.

    Triggers have a connection of their own, so that nothing delays them. The roles that settle runs
    have their own admin, so that draining a queue does not delay new executors.

    Args:
        transport: makes the connections.
        sealer: signs and verifies messages.
        node: the scheduler's name; its queues contain it.
        quorum: whether its queues and that of callbacks are quorum queues.

    Raises:
        BrokerUnavailable: the broker does not answer.
        TopologyError: an exchange or queue exists with different arguments.

    """

    def __init__(self, transport: Transport, sealer: Sealer, node: str, *, quorum: bool) -> None:
        reports = topology.callback_queue(quorum=quorum)
        with ExitStack() as opened:
            self.admin = transport.admin("admin", answer_seconds=DECLARE_SECONDS)
            opened.callback(self.admin.close)
            self._reports = reports
            self._declare()
            self.settling_admin = transport.admin("settling")
            opened.callback(self.settling_admin.close)
            self.triggers = transport.publisher("triggers", silent_seconds=SILENT_SECONDS)
            opened.callback(self.triggers.close)
            self.commands = transport.publisher("commands")
            opened.callback(self.commands.close)
            beats = topology.heartbeat_queue(node, quorum=quorum)
            self.heartbeats = transport.consumer("heartbeats", [beats], prefetch=HEARTBEAT_PREFETCH)
            opened.callback(self.heartbeats.close)
            self.reports = transport.consumer(
                "callbacks", [reports.name], prefetch=CALLBACK_PREFETCH
            )
            opened.callback(self.reports.close)
            answered = topology.answer_queue(node, quorum=quorum)
            answers = transport.consumer("answers", [answered], prefetch=HEARTBEAT_PREFETCH)
            self.requester = Requester(self.commands, answers, sealer, node)
            opened.callback(self.requester.close)
            self._opened = opened.pop_all()

    @property
    def losses(self) -> tuple[int, ...]:
        """A value that changes whenever exchanges, queues or bindings may be gone.

        A new connection may be one to a broker that has lost its data. A message that reached no
        exchange shows that the exchange was deleted, with all its bindings.
        """
        return (
            self.heartbeats.generation,
            self.triggers.missing_exchanges,
            self.commands.missing_exchanges,
        )

    def restore(self) -> None:
        """Declare the exchanges again, and the queues that this scheduler reads.

        Raises:
            BrokerUnavailable: the broker does not answer; call this again.

        """
        self._declare()
        self.heartbeats.declare_again()
        self.requester.declare_again()

    def _declare(self) -> None:
        self.admin.declare_exchanges()
        try:
            self.admin.declare_queues([self._reports])
        except QueueUnavailable as error:
            # Reports wait in the journals until its node is back; runs can be sent meanwhile.
            log.warning("queue_not_declared", queue=self._reports.name, error=str(error))

    def close(self) -> None:
        """Close all connections in reverse order; closing again does nothing."""
        self._opened.close()


T = TypeVar("T")

log = structlog.get_logger()


class AppNames:
    """A cache of the names of apps, which never change; an unknown name reloads it.

    So does another server, whose apps may have other ids.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: dict[int, str] = {}
        self._turns = -1

    def known(self) -> Mapping[int, str]:
        """Return the names of all known apps by their ids."""
        return self._names

    def name_of(self, app_id: int) -> str | None:
        """Return an app's name; None if there is no such app."""
        if app_id not in self._names or self._is_old:
            self._read()
        return self._names.get(app_id)

    def id_of(self, name: str) -> int:
        """Return an app's id; 0, which no app has, for an unknown name."""
        if name not in self._names.values() or self._is_old:
            self._read()
        return next((app_id for app_id, known in self._names.items() if known == name), 0)

    def refresh(self) -> bool:
        """Read all names again; return whether any has changed.

        The name of a deleted app may have been given to a new one, with another id.
        """
        before = self._names
        self._read()
        return self._names != before

    @property
    def _is_old(self) -> bool:
        return self._turns != self._database.seen_ids.turns

    def _read(self) -> None:
        turns = self._database.seen_ids.turns
        ids = self._database.read(apps.ids_by_name)
        self._turns = turns
        self._names = {app_id: name for name, app_id in ids.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """What the roles of one scheduler share.

    Attributes:
        node: the scheduler's name, stored as the owner of the runs that it routes.
        database: where jobs and runs are stored.
        clock: the database's clock.
        monotonic: this process's clock of elapsed time, in seconds.
        ids: reserved ids for new runs.
        app_names: names and ids of apps.
        counters: counts events; they are logged when the scheduler stops.
        timeouts: how long to wait for others.
        limits: how much one claim may contain.
        wakes: wakes other roles.
        metrics: counts ended runs for Prometheus.

    """

    node: str
    database: Database
    clock: DatabaseClock
    monotonic: Callable[[], float]
    ids: RunIds
    app_names: AppNames
    counters: Counters
    timeouts: Timeouts
    limits: ClaimLimits
    wakes: WakeUps
    metrics: RunMetrics = field(default_factory=RunMetrics)

    def now_ms(self) -> int:
        """Return the time of the database's clock in epoch milliseconds."""
        return self.clock.now_ms()

    def write_runs(self, unit: Callable[[Session], T], *, has_planned: Callable[[T], object]) -> T:
        """Commit a unit of work that may plan runs, and wake the dispatcher if it did.

        Ids are reserved first, so that the transaction does not lock their counter.
        """
        self.ids.reserve()
        written = self.database.write(unit)
        if has_planned(written):
            self.wakes.wake("dispatcher")
        return written

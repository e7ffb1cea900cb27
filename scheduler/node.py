"""One scheduler: its roles, wired, each in a thread of its own.

    planner ─> rows ─> dispatcher ─> [broker] ─> executor ─> [broker] ─> callbacks ─> rows
    pulse, presence, greeter: who lives     rescuer, undertaker, inquirer, killer: what broke

Stopping ends intake first (planner, dispatcher), then the rest, and leaves the registry last, so
that others take over what was routed and not confirmed.
"""

import secrets
from collections.abc import Callable

import structlog

from broker import topology
from broker.rpc import Requester
from broker.signing import Sealer
from broker.transport import Transport
from scheduler.app_names import AppNames
from scheduler.callbacks import Callbacks
from scheduler.completion import Completion
from scheduler.counters import Counters
from scheduler.delivery import Delivery
from scheduler.dispatcher import Dispatcher
from scheduler.greeter import Greeter
from scheduler.inquirer import Inquirer
from scheduler.killer import Killer
from scheduler.loop import Loop
from scheduler.planner import Planner
from scheduler.presence import Presence
from scheduler.pulse import Pulse
from scheduler.rescuer import Rescuer
from scheduler.roster import Roster
from scheduler.undertaker import Undertaker
from scheduler.workload import Workload
from sql import cluster, schema
from sql.clock import DatabaseClock
from sql.engine import Database
from sql.ids import RunIds

#: Callbacks in hand at once; each carries up to 100 reports.
CALLBACK_PREFETCH = 100
HEARTBEAT_PREFETCH = 1_000
#: How long a stopping role may take to finish its round.
ROUND_SECONDS = 15.0

log = structlog.get_logger()


class SchedulerNode:
    """A scheduler; start any number of them on one database and broker.

    Args:
        host: a name for people; the node's own name adds a suffix that no earlier start had.
        timezone: for jobs that name none.
        quorum: whether run and callback queues are quorum queues.

    Raises:
        SchemaMismatch: the database has another schema.
        DatabaseUnavailable: the database does not answer.
        BrokerUnavailable: the broker does not answer.

    """

    def __init__(
        self,
        *,
        host: str,
        database: Database,
        transport: Transport,
        secret: str,
        timezone: str,
        quorum: bool = False,
    ) -> None:
        schema.check(database)
        self.boot_id = secrets.token_hex(8)
        self.name = f"{host[:48]}-{self.boot_id[:6]}"
        self.counters = Counters()
        self.clock = DatabaseClock(database)
        self._database = database
        self._transport = transport
        self._timezone = timezone
        self._quorum = quorum
        cluster_id = database.read(cluster.cluster_id)
        self._sealer = Sealer(secret, cluster_id, self.clock.now_ms)
        self.roster = Roster()
        self._app_names = AppNames(database)
        self._ids = RunIds(database)
        self._completion = Completion(self._ids, self.clock.now_ms)
        self._declare()
        self._open_connections()
        self._make_roles()

    def start(self) -> None:
        """Begin to schedule."""
        self.presence.load()
        for loop in self._loops:
            loop.start()
        log.info("scheduler_started", node=self.name)

    def stop(self) -> None:
        """End in order: no new work, then the rest, then the registration."""
        for loop in self._loops:
            loop.stop()
        for loop in self._loops:
            if not loop.join(ROUND_SECONDS):
                log.warning("role_did_not_end", role=loop.name)
        self._requester.close()
        try:
            self.pulse.leave()
        except Exception as error:  # noqa: BLE001 - others notice its silence after 1.5 s
            log.warning("registration_not_removed", error=str(error))
        for connection in self._connections:
            connection.close()
        log.info("scheduler_stopped", node=self.name)

    @property
    def failing_roles(self) -> list[str]:
        """The roles whose last round failed."""
        return [loop.name for loop in self._loops if loop.failing]

    def _declare(self) -> None:
        self._admin = self._transport.admin("admin")
        self._admin.declare_exchanges()
        self._admin.declare_queues([topology.callback_queue(quorum=self._quorum)])

    def _open_connections(self) -> None:
        transport, name = self._transport, self.name
        self._triggers = transport.publisher("triggers")
        self._words = transport.publisher("words")
        self._heartbeats = transport.consumer(
            "heartbeats", [topology.heartbeat_queue(name)], prefetch=HEARTBEAT_PREFETCH
        )
        self._answers = transport.consumer(
            "answers", [topology.answer_queue(name)], prefetch=HEARTBEAT_PREFETCH
        )
        self._reports = transport.consumer(
            "callbacks", [topology.callback_queue(quorum=self._quorum)], prefetch=CALLBACK_PREFETCH
        )
        self._requester = Requester(self._words, self._answers, self._sealer, name)
        self._connections = (
            self._reports,
            self._heartbeats,
            self._triggers,
            self._words,
            self._admin,
        )

    def _make_roles(self) -> None:
        self._make_lifelines()
        self._make_circle()
        self._loops = [
            self._loop("clock", lambda _now: self.clock.tick(), longest_seconds=5.0),
            self._loop("pulse", self.pulse.tick),
            self._loop("greeter", self.greeter.tick),
            self._loop("presence", self.presence.tick),
            self._loop("planner", self._when_steady(self.planner.tick)),
            self._dispatching,
            self._loop("callbacks", self.callbacks.tick),
            self._loop("rescuer", self.rescuer.tick),
            self._loop("undertaker", self.undertaker.tick),
            self._loop("inquirer", self.inquirer.tick),
            self._loop("killer", self.killer.tick),
        ]

    def _make_lifelines(self) -> None:
        self.pulse = Pulse(
            node=self.name,
            boot_id=self.boot_id,
            database=self._database,
            publisher=self._words,
            sealer=self._sealer,
            roster=self.roster,
            is_clock_steady=lambda: self.clock.is_steady,
        )
        self.greeter = Greeter(
            database=self._database,
            admin=self._admin,
            publisher=self._words,
            sealer=self._sealer,
            requester=self._requester,
            roster=self.roster,
            beats=self._heartbeats,
            quorum=self._quorum,
        )
        self.presence = Presence(
            node=self.name,
            database=self._database,
            consumer=self._heartbeats,
            sealer=self._sealer,
            roster=self.roster,
            greeter=self.greeter,
            counters=self.counters,
            on_canary=self.pulse.hear_canary,
        )
        self.killer = Killer(
            database=self._database,
            publisher=self._words,
            sealer=self._sealer,
            app_names=self._app_names,
        )

    def _make_circle(self) -> None:
        delivery = Delivery(self._triggers, self._sealer)
        self.rescuer = Rescuer(
            node=self.name,
            database=self._database,
            completion=self._completion,
            delivery=delivery,
            roster=self.roster,
            app_names=self._app_names,
            now_ms=self.clock.now_ms,
        )
        self.dispatcher = Dispatcher(
            node=self.name,
            database=self._database,
            ids=self._ids,
            completion=self._completion,
            delivery=delivery,
            roster=self.roster,
            workload=Workload(self._database),
            app_names=self._app_names,
            on_unknown=self.rescuer.note_unknown,
        )
        self._dispatching = self._loop("dispatcher", self.dispatcher.tick)
        self.planner = Planner(
            self._database,
            self._ids,
            timezone=self._timezone,
            on_planned=self._dispatching.wake,
        )
        self.callbacks = Callbacks(
            database=self._database,
            ids=self._ids,
            completion=self._completion,
            consumer=self._reports,
            publisher=self._words,
            sealer=self._sealer,
            counters=self.counters,
            on_planned=self._dispatching.wake,
        )
        self._make_settlers(delivery)

    def _make_settlers(self, delivery: Delivery) -> None:
        self.undertaker = Undertaker(
            database=self._database,
            ids=self._ids,
            completion=self._completion,
            admin=self._admin,
            sealer=self._sealer,
            roster=self.roster,
            app_names=self._app_names,
            counters=self.counters,
            on_planned=self._dispatching.wake,
        )
        self.inquirer = Inquirer(
            database=self._database,
            ids=self._ids,
            completion=self._completion,
            delivery=delivery,
            admin=self._admin,
            requester=self._requester,
            roster=self.roster,
            app_names=self._app_names,
            on_planned=self._dispatching.wake,
        )

    def _loop(
        self, name: str, tick: Callable[[int], float], *, longest_seconds: float = 0.5
    ) -> Loop:
        return Loop(name, lambda: tick(self.clock.now_ms()), longest_seconds=longest_seconds)

    def _when_steady(self, tick: Callable[[int], float]) -> Callable[[int], float]:
        """While the database's clock jumps nothing is planned."""
        return lambda now_ms: tick(now_ms) if self.clock.is_steady else 0.5

"""One scheduler: its roles, wired, each in a thread of its own.

    planner ─> rows ─> dispatcher ─> [broker] ─> executor ─> [broker] ─> callbacks ─> rows
    pulse, presence, greeter: who lives     rescuer, undertaker, inquirer, killer: what broke
    reporter: the day report                cleaner: what is past its time

Stopping lets each role finish its round, notes what the broker has confirmed, and leaves the
registry last, so that others take over what was routed and not confirmed.
"""

import secrets
import time
from collections.abc import Callable, Mapping

import structlog

from broker.signing import Sealer
from broker.transport import Transport
from scheduler.alarms.policy import AlarmPolicy
from scheduler.alarms.roles import AlarmRoles
from scheduler.app_addresses import AppAddresses
from scheduler.app_names import AppNames
from scheduler.callbacks import Callbacks
from scheduler.cleaner import Cleaner
from scheduler.completion import Completion
from scheduler.confirmations import Confirmations
from scheduler.connections import Connections
from scheduler.counters import Counters
from scheduler.delivery import Delivery
from scheduler.dispatcher import Dispatcher
from scheduler.drainer import Drainer
from scheduler.greeter import Greeter
from scheduler.inquirer import Inquirer
from scheduler.killer import Killer
from scheduler.loop import LONGEST_SECONDS, Loop
from scheduler.patience import Patience
from scheduler.planner import Planner
from scheduler.presence import Presence
from scheduler.probes import Probes
from scheduler.pulse import Pulse
from scheduler.reporter import LOOK_SECONDS, Reporter
from scheduler.rescuer import Rescuer
from scheduler.roster import Roster
from scheduler.routing import Router, with_added
from scheduler.undertaker import Undertaker
from scheduler.workload import LIMIT, Workload
from sql import cluster, schema
from sql.clock import DatabaseClock
from sql.engine import Database
from sql.ids import RunIds

#: How long the stopping roles may take together to finish their rounds.
ROUND_SECONDS = 8.0

log = structlog.get_logger()


class SchedulerNode:
    """A scheduler; start any number of them on one database and broker.

    Args:
        host: a name for people; the node's own name adds a suffix that no earlier start had.
        timezone: for jobs that name none.
        quorum: whether run and callback queues are quorum queues.
        patience: how long it waits before it judges others.
        address_limit: runs in flight that one executor may have.
        added_routes: by name, routes besides XXL-JOB's.
        alarms: how failures are told.
        run_retention_days: how many days runs are kept that are over; 0 = for ever.

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
        patience: Patience | None = None,
        address_limit: int = LIMIT,
        added_routes: Mapping[str, Router] | None = None,
        alarms: AlarmPolicy | None = None,
        run_retention_days: int = 0,
    ) -> None:
        schema.check(database)
        self.boot_id = secrets.token_hex(8)
        self.name = f"{host[:48]}-{self.boot_id[:6]}"
        self.counters = Counters()
        self.clock = DatabaseClock(database)
        self._database = database
        self._timezone = timezone
        self._run_retention_days = run_retention_days
        self._quorum = quorum
        self._patience = patience or Patience()
        self._workload = Workload(database, limit=address_limit)
        self._routers = with_added(added_routes or {})
        cluster_id = database.read(cluster.cluster_id)
        self._sealer = Sealer(secret, cluster_id, self.clock.now_ms)
        self.roster = Roster(patience=self._patience)
        self._app_names = AppNames(database)
        self._ids = RunIds(database)
        policy = alarms or AlarmPolicy(timezone=timezone)
        self._completion = Completion(self._ids, self.clock.now_ms, policy.defaults)
        self._connections = Connections(transport, self._sealer, self.name, quorum=quorum)
        self._make_roles()
        self._alarm_roles = AlarmRoles(
            policy,
            database=database,
            roster=self.roster,
            now_ms=self.clock.now_ms,
            cluster_id=cluster_id,
        )

    def start(self) -> None:
        """Begin to schedule.

        Raises:
            DatabaseUnavailable: the database does not answer; nothing was started.

        """
        try:
            self.presence.load()
        except Exception:
            self._connections.close()
            raise
        for loop in self._loops:
            loop.start()
        self._alarm_roles.start()
        log.info("scheduler_started", node=self.name)

    def stop(self) -> None:
        """End in order: the rounds under way, the last confirms, the registration."""
        give_up_at = time.monotonic() + ROUND_SECONDS
        for loop in self._loops:
            loop.stop()
        self._alarm_roles.stop()
        for loop in self._loops:
            if not loop.join(max(0.0, give_up_at - time.monotonic())):
                log.warning("role_did_not_end", role=loop.name)
        self._leave()
        for name in self._alarm_roles.join(max(0.0, give_up_at - time.monotonic())):
            log.warning("role_did_not_end", role=name)
        self._connections.close()
        log.info("scheduler_stopped", node=self.name)

    @property
    def failing_roles(self) -> list[str]:
        """The roles whose last round failed."""
        failing = [loop.name for loop in self._loops if loop.failing]
        return failing + self._alarm_roles.failing_roles

    def _leave(self) -> None:
        """Note what was confirmed and give up the registration; all of it can be missed."""
        if self._pulsing.failing:
            return  # the database is away, and others notice our silence after 1.5 s
        try:
            if self._confirming.join(0):
                self.confirmations.drain()
            self.reporter.leave()
            self.cleaner.leave()
            self.pulse.leave()
        except Exception as error:  # noqa: BLE001 - others send again what is not noted
            log.warning("scheduler_left_untidy", error=str(error))

    def _make_roles(self) -> None:
        self._delivery = Delivery(self._connections.triggers, self._sealer)
        self._make_greeting()
        self._make_lifelines()
        self._make_sending()
        self._make_circle()
        self._make_settlers()
        self._make_keepers()
        self._loops = [
            self._loop("clock", lambda _now: self.clock.tick(), longest_seconds=5.0),
            self._pulsing,
            self._loop("greeter", self.greeter.tick),
            self._loop("presence", self.presence.tick),
            self._loop("planner", self._when_steady(self.planner.tick)),
            self._dispatching,
            self._confirming,
            self._loop("callbacks", self.callbacks.tick),
            self._loop("rescuer", self.rescuer.tick),
            self._loop("undertaker", self.undertaker.tick, longest_seconds=1.0),
            self._loop("inquirer", self.inquirer.tick, longest_seconds=1.0),
            self._loop("killer", self.killer.tick),
            self._loop("drainer", self.drainer.tick),
            self._loop("reporter", self.reporter.tick, longest_seconds=LOOK_SECONDS),
            self._loop("cleaner", self.cleaner.tick, longest_seconds=LOOK_SECONDS),
        ]

    def _make_greeting(self) -> None:
        opened = self._connections
        self.greeter = Greeter(
            database=self._database,
            admin=opened.admin,
            publisher=opened.words,
            sealer=self._sealer,
            requester=opened.requester,
            roster=self.roster,
            beats=opened.heartbeats,
            quorum=self._quorum,
            patience=self._patience,
            on_joined=self._wake_dispatcher,
        )

    def _make_lifelines(self) -> None:
        opened = self._connections
        self.pulse = Pulse(
            node=self.name,
            boot_id=self.boot_id,
            database=self._database,
            publisher=opened.words,
            sealer=self._sealer,
            roster=self.roster,
            is_clock_steady=lambda: self.clock.is_steady,
            failing_roles=lambda: self.failing_roles,
        )
        self._pulsing = self._loop("pulse", self.pulse.tick)
        self.presence = Presence(
            node=self.name,
            database=self._database,
            consumer=opened.heartbeats,
            sealer=self._sealer,
            roster=self.roster,
            greeter=self.greeter,
            counters=self.counters,
            on_canary=self.pulse.hear_canary,
        )
        self.killer = Killer(
            database=self._database,
            publisher=opened.words,
            sealer=self._sealer,
            app_names=self._app_names,
        )
        self.drainer = Drainer(
            database=self._database,
            publisher=opened.words,
            sealer=self._sealer,
            roster=self.roster,
        )

    def _make_sending(self) -> None:
        self.rescuer = Rescuer(
            node=self.name,
            database=self._database,
            ids=self._ids,
            completion=self._completion,
            delivery=self._delivery,
            roster=self.roster,
            app_names=self._app_names,
            patience=self._patience,
            now_ms=self.clock.now_ms,
            on_missing=self.greeter.note_missing,
        )
        self.confirmations = Confirmations(
            node=self.name,
            database=self._database,
            now_ms=self.clock.now_ms,
            ids=self._ids,
            completion=self._completion,
            on_unknown=self.rescuer.note_unknown,
            on_missing=self.greeter.note_missing,
        )
        self._confirming = self._loop("confirmations", self.confirmations.tick)
        probes = Probes(
            requester=self._connections.requester,
            answer_seconds=self._patience.probe,
            on_let_go=self._wake_dispatcher,
        )
        self.dispatcher = Dispatcher(
            node=self.name,
            database=self._database,
            now_ms=self.clock.now_ms,
            ids=self._ids,
            completion=self._completion,
            delivery=self._delivery,
            confirmations=self.confirmations,
            roster=self.roster,
            workload=self._workload,
            probes=probes,
            routers=self._routers,
            app_names=self._app_names,
            app_addresses=AppAddresses(self._database),
            patience=self._patience,
        )
        self._dispatching = self._loop("dispatcher", self.dispatcher.tick)

    def _make_circle(self) -> None:
        self.planner = Planner(
            self._database,
            self._ids,
            timezone=self._timezone,
            on_planned=self._wake_dispatcher,
        )
        self.callbacks = Callbacks(
            database=self._database,
            ids=self._ids,
            completion=self._completion,
            consumer=self._connections.reports,
            publisher=self._connections.words,
            sealer=self._sealer,
            counters=self.counters,
            on_planned=self._wake_dispatcher,
            on_freed=self._workload.free,
        )

    def _make_settlers(self) -> None:
        opened = self._connections
        self.undertaker = Undertaker(
            database=self._database,
            ids=self._ids,
            completion=self._completion,
            admin=opened.settling_admin,
            sealer=self._sealer,
            roster=self.roster,
            app_names=self._app_names,
            counters=self.counters,
            patience=self._patience,
            on_planned=self._wake_dispatcher,
        )
        self.inquirer = Inquirer(
            database=self._database,
            now_ms=self.clock.now_ms,
            ids=self._ids,
            completion=self._completion,
            delivery=self._delivery,
            admin=opened.settling_admin,
            requester=opened.requester,
            roster=self.roster,
            app_names=self._app_names,
            patience=self._patience,
            on_planned=self._wake_dispatcher,
        )

    def _make_keepers(self) -> None:
        self.reporter = Reporter(node=self.name, database=self._database, timezone=self._timezone)
        self.cleaner = Cleaner(
            node=self.name,
            database=self._database,
            timezone=self._timezone,
            run_retention_days=self._run_retention_days,
        )

    def _wake_dispatcher(self) -> None:
        self._dispatching.wake()

    def _loop(
        self, name: str, tick: Callable[[int], float], *, longest_seconds: float = LONGEST_SECONDS
    ) -> Loop:
        return Loop(name, lambda: tick(self.clock.now_ms()), longest_seconds=longest_seconds)

    def _when_steady(self, tick: Callable[[int], float]) -> Callable[[int], float]:
        """While the database's clock jumps nothing is planned."""
        return lambda now_ms: tick(now_ms) if self.clock.is_steady else 0.5

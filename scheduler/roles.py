"""Creates the roles of one scheduler and connects them.

    planner ─> rows ─> dispatcher ─> [broker] ─> executor ─> [broker] ─> callbacks ─> rows

Around this circle: pending work wakes roles that have work; self health, presence and registrar
know which processes are alive; missed runs, rescuer, reaper, reconciler and killer handle what goes
wrong; load recorder and reporter keep statistics; cleaner deletes expired runs; the watcher opens
incidents when jobs do not meet their expectations.
"""

import secrets
from collections.abc import Callable

from warren.broker.messages.values import boot_seconds
from warren.broker.signing import ClusterKeys, Sealer
from warren.broker.transport import Transport
from warren.scheduler.alarms.events import AlarmPolicy
from warren.scheduler.alarms.roles import AlarmRoles
from warren.scheduler.app_names import AppNames
from warren.scheduler.backfills.refill import Refill
from warren.scheduler.command_sender import CommandSender
from warren.scheduler.completion.callbacks import Callbacks
from warren.scheduler.completion.completion import Completion, RunEnder
from warren.scheduler.completion.run_spans import RunSpans
from warren.scheduler.dispatch.confirmations import Confirmations
from warren.scheduler.dispatch.dispatcher import SWEEP_MS, Dispatcher
from warren.scheduler.dispatch.missed_runs import MissedRuns
from warren.scheduler.dispatch.planner import Planner
from warren.scheduler.dispatch.route_resolver import Destinations, RouteResolver
from warren.scheduler.dispatch.run_sender import RunSender
from warren.scheduler.dispatch.workload import Workload
from warren.scheduler.jobs.script_cache import Scripts
from warren.scheduler.membership.boot_accounts import BootAccounts
from warren.scheduler.membership.catalogues import Catalogues
from warren.scheduler.membership.drainer import Drainer
from warren.scheduler.membership.executor_queues import ExecutorQueues
from warren.scheduler.membership.load_recorder import LoadRecorder
from warren.scheduler.membership.presence import MAILS_KEY, REJECTED_KEY, Presence
from warren.scheduler.membership.registrar import Registrar
from warren.scheduler.membership.registration import AppSettings
from warren.scheduler.membership.roster import Roster
from warren.scheduler.membership.self_health import ZONE_KEY, SelfHealth
from warren.scheduler.membership.uptime import SendingUptime
from warren.scheduler.metrics.recorder import MetricsRecorder
from warren.scheduler.node_context import Connections, Counters, NodeContext
from warren.scheduler.options import NodeOptions
from warren.scheduler.recovery.flow_keeper import FlowKeeper
from warren.scheduler.recovery.killer import Killer
from warren.scheduler.recovery.reaper import Reaper
from warren.scheduler.recovery.reconciler import Reconciler
from warren.scheduler.recovery.rescuer import Rescuer
from warren.scheduler.retention.cleaner import Cleaner
from warren.scheduler.retention.reporter import Reporter
from warren.scheduler.rounds import pending_work
from warren.scheduler.rounds.loop import JobWatch, WakeUp
from warren.scheduler.rounds.pending_work import PendingWork
from warren.scheduler.rounds.role_loops import RoleLoops
from warren.scheduler.routing.probes import Probes
from warren.scheduler.routing.routes import with_added
from warren.scheduler.triggers.messages import TriggerMessages
from warren.scheduler.triggers.publisher import TriggerPublisher
from warren.scheduler.watch.watcher import Watcher
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.registry import cluster
from warren.sql.registry.presence import process_name
from warren.sql.schema import version


class Roles:
    """All roles of one scheduler, with their dependencies.

    Args:
        host: the first part of the scheduler's name; a random suffix makes it new at each start.
        database: where jobs and runs are stored.
        transport: connects to the broker.
        keys: sign and verify all messages.
        options: from the settings.
        monotonic: the clock of elapsed time, in seconds; it also counts what the host slept.

    Raises:
        SchemaMismatch: the database has another version of the schema.
        DatabaseUnavailable: the database does not answer.
        BrokerUnavailable: the broker does not answer.

    """

    def __init__(
        self,
        *,
        host: str,
        database: Database,
        transport: Transport,
        keys: ClusterKeys,
        options: NodeOptions,
        monotonic: Callable[[], float] = boot_seconds,
    ) -> None:
        version.check(database)
        self.boot_id = secrets.token_hex(8)
        self.name = process_name(host, self.boot_id)
        self.clock = DatabaseClock(database, monotonic=monotonic)
        self.counters = Counters()
        self.catalogues = Catalogues(database, monotonic)
        self.roster = Roster(monotonic, timeouts=options.timeouts, catalogues=self.catalogues)
        self._options = options
        self.context = NodeContext(
            node=self.name,
            database=database,
            clock=self.clock,
            monotonic=monotonic,
            ids=RunIds(database),
            app_names=AppNames(database),
            counters=self.counters,
            timeouts=options.timeouts,
            limits=options.limits,
            wake_dispatcher=WakeUp(monotonic),
            backfilled=JobWatch(monotonic),
        )
        cluster_id = database.read(cluster.cluster_id)
        database.write(lambda session: cluster.join(session, keys.fingerprints(cluster_id)))
        self._sealer = Sealer(keys, cluster_id, self.clock.now_ms)
        self.connections = Connections(transport, self._sealer, self.name, quorum=options.quorum)
        self._commands = CommandSender(self.connections.commands, self._sealer)
        messages = TriggerMessages(self._sealer, self.roster.triggers_per_message)
        self.run_spans = None
        if options.spans is not None:
            self.run_spans = RunSpans(database, cluster_id, options.spans)
        stamp = self.run_spans.stamp if self.run_spans else None
        self.publisher = TriggerPublisher(
            self.connections.triggers,
            messages,
            stale_seconds=options.timeouts.stale,
            stamp=stamp,
            clock=monotonic,
        )
        policy = options.alarm_policy
        self.heartbeat_url = policy.heartbeat_url
        self.completion = Completion(self.context.ids, self.clock.now_ms, policy.defaults)
        note = self.run_spans.note if self.run_spans else None
        self._ender = RunEnder(self.context, self.completion, on_ended=note)
        self._accounts = BootAccounts(self.roster.holder, clock=monotonic)
        self.uptime = SendingUptime(database, monotonic)
        self.workload = Workload(database, limit=options.address_limit, clock=monotonic)
        self._make_roles()
        self.loops = RoleLoops(self.clock.now_ms, self.work)
        self.alarm_roles = AlarmRoles(
            policy,
            database=database,
            roster=self.roster,
            now_ms=self.clock.now_ms,
            cluster_id=cluster_id,
            work=self.work,
            keys=keys,
        )

    @property
    def failing_roles(self) -> list[str]:
        """The roles whose last round failed."""
        return self.loops.failing + self.alarm_roles.loops.failing

    def leave(self) -> None:
        """Release leases and leave the registry, so that others take over at once."""
        self.reporter.leave()
        self.cleaner.leave()
        self.metrics_recorder.flush()
        self.watcher.leave()
        self.self_health.leave()

    def close(self) -> None:
        """Close the connections to the broker."""
        if self.run_spans is not None:
            self.run_spans.close()
        self.connections.close()

    def _make_roles(self) -> None:
        self._make_membership()
        self._make_health()
        self._make_sending()
        self._make_planning()
        self._make_callbacks()
        self._make_recovery()
        self._make_retention()

    def _make_membership(self) -> None:
        opened = self.connections
        self.executor_queues = ExecutorQueues(
            opened.admin,
            losses=lambda: (*opened.losses, self.self_health.lost_canaries),
            restore=opened.restore,
            quorum=self._options.quorum,
        )
        self.registrar = Registrar(
            context=self.context,
            commands=self._commands,
            queues=self.executor_queues,
            requester=opened.requester,
            roster=self.roster,
            accounts=self._accounts,
            catalogues=self.catalogues,
        )
        self.drainer = Drainer(
            self.context, self._commands, self.roster, clock=self.context.monotonic
        )

    def _make_health(self) -> None:
        opened = self.connections
        self.self_health = SelfHealth(
            context=self.context,
            boot_id=self.boot_id,
            publisher=opened.commands,
            sealer=self._sealer,
            roster=self.roster,
            load=lambda: {
                "failing": self.failing_roles,
                REJECTED_KEY: self.presence.rejected(),
                MAILS_KEY: (self._options.alarms or AlarmPolicy()).mail_server is not None,
                ZONE_KEY: self._options.timezone,
            },
        )
        self.presence = Presence(
            context=self.context,
            consumer=opened.heartbeats,
            sealer=self._sealer,
            roster=self.roster,
            registrar=self.registrar,
            accounts=self._accounts,
            on_canary=self.self_health.hear_canary,
        )

    def _make_sending(self) -> None:
        probes = Probes(
            requester=self.connections.requester,
            answer_seconds=self._options.timeouts.probe,
            on_let_go=self.context.wake_dispatcher.set,
            clock=self.context.monotonic,
        )

        def note_missing(app: str, address: str) -> None:
            self.executor_queues.note_missing(app, address)
            probes.note_missing(app, address)

        self.rescuer = Rescuer(
            context=self.context,
            ender=self._ender,
            publisher=self.publisher,
            roster=self.roster,
            on_missing=note_missing,
        )
        self.confirmations = Confirmations(
            context=self.context,
            ender=self._ender,
            on_unknown=self.rescuer.note_unknown,
            on_missing=note_missing,
        )
        self._make_dispatcher(probes)

    def _make_dispatcher(self, probes: Probes) -> None:
        resolver = RouteResolver(probes, with_added(self._options.added_routes))
        settings = AppSettings(self.context.database, self.context.monotonic)
        self.dispatcher = Dispatcher(
            context=self.context,
            ender=self._ender,
            destinations=Destinations(self.roster, settings, self.workload),
            resolver=resolver,
            sender=RunSender(
                context=self.context,
                completion=self.completion,
                roster=self.roster,
                workload=self.workload,
                resolver=resolver,
                probes=probes,
                publisher=self.publisher,
                confirmations=self.confirmations,
                scripts=Scripts(),
                alarm_defaults=self._options.alarm_policy.defaults,
            ),
            uptime=self.uptime,
        )
        self.work = PendingWork(
            self.context.database,
            since_ms=self.dispatcher.since_ms,
            on_look=self.uptime.hear,
            clock=self.context.monotonic,
        )
        self.dispatching = self.work.resting(
            self.dispatcher.run_round,
            pending_work.dispatcher,
            awake=self.context.wake_dispatcher,
            rest=self.dispatcher.rest,
            rest_seconds=SWEEP_MS / 1000,
        )

    def _make_planning(self) -> None:
        self.planner = Planner(
            self.context,
            self.completion,
            timezone=self._options.timezone,
            alarm_defaults=self._options.alarm_policy.defaults,
        )
        self.missed_runs = MissedRuns(
            context=self.context,
            completion=self.completion,
            uptime=self.uptime,
            has_pauses=self.work.may_have_pauses,
            alarm_defaults=self._options.alarm_policy.defaults,
        )

        self.refill = Refill(self.context, self.completion, timezone=self._options.timezone)
        self.refilling = self.work.resting(
            self.refill.run_round, pending_work.backfills, awake=self.context.backfilled.awake
        )

    def _make_callbacks(self) -> None:
        self.callbacks = Callbacks(
            context=self.context,
            ender=self._ender,
            consumer=self.connections.reports,
            sealer=self._sealer,
            commands=self._commands,
            accounts=self._accounts,
            on_freed=self.workload.free,
        )

    def _make_recovery(self) -> None:
        opened = self.connections
        self.reaper = Reaper(
            context=self.context,
            ender=self._ender,
            admin=opened.settling_admin,
            sealer=self._sealer,
            roster=self.roster,
        )
        self.reconciler = Reconciler(
            context=self.context,
            ender=self._ender,
            publisher=self.publisher,
            admin=opened.settling_admin,
            requester=opened.requester,
            roster=self.roster,
        )
        self.killer = Killer(self.context, self._commands)
        self.flow_keeper = FlowKeeper(self.context, self._ender, self.completion)

    def _make_retention(self) -> None:
        database, timezone = self.context.database, self._options.timezone
        self.load_recorder = LoadRecorder(database)
        self.metrics_recorder = MetricsRecorder(
            database, self.context.metrics, jobs_limit=self._options.metrics_jobs
        )
        self.reporter = Reporter(node=self.name, database=database, timezone=timezone)
        self.cleaner = Cleaner(
            node=self.name,
            database=database,
            timezone=timezone,
            run_retention_days=self._options.run_retention_days,
        )
        self.watcher = Watcher(
            node=self.name,
            database=database,
            roster=self.roster,
            defaults=self._options.alarm_policy.defaults,
            timezone=timezone,
            clock=self.context.monotonic,
        )

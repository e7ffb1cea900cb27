"""Creates the roles of one scheduler and connects them.

planner ─> rows ─> dispatcher ─> [broker] ─> executor ─> [broker] ─> callbacks ─> rows

Around this circle: pending work wakes roles that have work; self health, presence and registrar
know which processes are alive; missed runs, rescuer, reaper, reconciler and killer handle what goes
wrong; load recorder and reporter keep statistics, board keeper the state of jobs; cleaner deletes
expired runs; the watcher opens incidents when jobs do not meet their expectations.

completion ─> rows ─> rate limiter ─> rows ─> mailer | webhooks        absence, health ─> rows
completion ─> rows ─> run webhooks
"""

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from warren.broker.messages import boot_seconds
from warren.broker.signing import ClusterKeys, Sealer
from warren.broker.transport import Transport
from warren.scheduler import pending_work
from warren.scheduler.alarms.events import AlarmPolicy
from warren.scheduler.alarms.mail import Mailer
from warren.scheduler.alarms.message import MessageContext
from warren.scheduler.alarms.rate_limiter import AlarmRateLimiter
from warren.scheduler.alarms.sender import AlarmSender, Send, SlowTargets
from warren.scheduler.alarms.watches import (
    AbsenceWatch,
    CalendarWatch,
    EpochWatch,
    HealthIssueWatch,
)
from warren.scheduler.alarms.webhook import SignedWebhook, Webhook
from warren.scheduler.backfills.refill import Refill
from warren.scheduler.board.keeper import BoardKeeper
from warren.scheduler.completion.callbacks import Callbacks
from warren.scheduler.completion.completion import Completion, RunEnder
from warren.scheduler.completion.log_places import LogPlacesRole
from warren.scheduler.completion.run_spans import RunSpans, SpanExporter
from warren.scheduler.dispatch.decisions import IN_FLIGHT_LIMIT, Workload
from warren.scheduler.dispatch.dispatcher import Dispatcher
from warren.scheduler.dispatch.missed_runs import MissedRuns
from warren.scheduler.dispatch.planner import Planner
from warren.scheduler.log_store.store import LogStore
from warren.scheduler.membership.catalogues import Catalogues
from warren.scheduler.membership.presence import (
    ISSUES_KEY,
    MAILS_KEY,
    REJECTED_KEY,
    UNREACHABLE_KEY,
    UNREACHABLE_LIMIT,
    Presence,
)
from warren.scheduler.membership.registrar import ExecutorQueues, Registrar, ToldEpochs
from warren.scheduler.membership.registration import AppSettings, BootAccounts, LoadRecorder
from warren.scheduler.membership.roster import Roster
from warren.scheduler.membership.self_health import ZONE_KEY, SelfHealth
from warren.scheduler.membership.uptime import SendingUptime
from warren.scheduler.metrics import METRICS_JOBS, MetricsRecorder
from warren.scheduler.node_context import (
    AppNames,
    ClaimLimits,
    CommandSender,
    Connections,
    Counters,
    NodeContext,
    Timeouts,
)
from warren.scheduler.pending_work import PendingWork, WakeCondition
from warren.scheduler.recovery.flow_keeper import FlowKeeper
from warren.scheduler.recovery.reaper import Reaper
from warren.scheduler.recovery.reconciler import Reconciler
from warren.scheduler.recovery.requests import Drainer, Killer
from warren.scheduler.recovery.rescuer import Rescuer
from warren.scheduler.retention.clearing import Cleaner
from warren.scheduler.retention.log_removal import LogRemoval
from warren.scheduler.retention.reporter import Reporter
from warren.scheduler.rounds import LONGEST_SECONDS, NAP_SECONDS, Loop, Role, WakeUps
from warren.scheduler.routing.probes import Probes
from warren.scheduler.routing.routes import Router, with_added
from warren.scheduler.triggers import Confirmations, TriggerMessages, TriggerPublisher
from warren.scheduler.watch.watcher import Watcher
from warren.sql.alarms.alarms import MessageKind, secret_of
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.models import Alarm
from warren.sql.registry import cluster
from warren.sql.registry.presence import process_name
from warren.sql.schema import version


class RoleLoops:
    """The threads of the roles that are added.

    Args:
        now_ms: the clock whose time is passed to rounds.
        work: knows whether there is work for resting roles.
        wakes: wakes roles.

    """

    def __init__(self, now_ms: Callable[[], int], work: PendingWork, wakes: WakeUps) -> None:
        self._now_ms = now_ms
        self._work = work
        self._wakes = wakes
        self._loops: list[Loop] = []

    @property
    def roles(self) -> list[Role]:
        """All roles, in the order in which they were added."""
        return [role for loop in self._loops for role in loop.roles]

    @property
    def failing(self) -> list[str]:
        """The roles whose last round failed."""
        return [role.name for role in self.roles if role.failing]

    def all_advance(self, names: Collection[str], within_seconds: float) -> bool:
        """Whether the last rounds of these roles succeeded, and not long ago."""
        since = time.monotonic() - within_seconds
        roles = [role for role in self.roles if role.name in names]
        return len(roles) == len(names) and all(
            not role.failing and role.succeeded_at >= since for role in roles
        )

    def add(
        self,
        name: str,
        run_round: Callable[[int], float],
        *,
        longest_seconds: float = LONGEST_SECONDS,
        on_stop: Callable[[], None] = lambda: None,
    ) -> Loop:
        """Make the thread of a role, which others can wake by its name.

        Args:
            name: for the thread and the log.
            run_round: one round, called with the time; returns the seconds until the next one.
            longest_seconds: the longest wait between two rounds.
            on_stop: ends a wait within a round.

        """
        role = self._role(name, run_round, longest_seconds)
        loop = Loop(role, awake=self._wakes.of(name), on_stop=on_stop)
        self._loops.append(loop)
        return loop

    def add_resting(
        self,
        name: str,
        run_round: Callable[[int], float],
        wants: WakeCondition,
        *,
        longest_seconds: float = LONGEST_SECONDS,
        **rest: Any,
    ) -> Loop:
        """Make the thread of a role that rests while there is no work for it.

        What it does then is said as for `PendingWork.resting`.
        """
        role = self._work.resting(
            run_round, wants, longest_seconds=longest_seconds, awake=self._wakes.of(name), **rest
        )
        return self.add(name, role, longest_seconds=NAP_SECONDS)

    def add_periodic(self, thread: str, rounds: Mapping[str, Callable[[int], float]]) -> None:
        """Make one thread for roles that nobody wakes and that may wait for each other."""
        roles = [self._role(name, run_round, inf) for name, run_round in rounds.items()]
        self._loops.append(Loop(*roles, name=thread))

    def _role(self, name: str, run_round: Callable[[int], float], longest_seconds: float) -> Role:
        return Role(name, lambda: run_round(self._now_ms()), longest_seconds=longest_seconds)

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Ask for no further round."""
        for loop in self._loops:
            loop.stop()

    def join(self, seconds: float) -> Sequence[str]:
        """Wait for the current rounds; return the roles that are still busy after `seconds`."""
        give_up_at = time.monotonic() + seconds
        return [
            loop.name
            for loop in self._loops
            if not loop.join(max(0.0, give_up_at - time.monotonic()))
        ]


ALARM_LONGEST_SECONDS = 5.0
#: There may be a message for every run, and each occupies a thread while it is sent.
RUN_WEBHOOK_THREADS = 4


class AlarmRoles:
    """The alarm roles of one scheduler; without a mail server it leaves e-mails to others."""

    def __init__(
        self,
        policy: AlarmPolicy,
        *,
        database: Database,
        now_ms: Callable[[], int],
        cluster_id: str,
        work: PendingWork,
        wakes: WakeUps,
        keys: ClusterKeys,
    ) -> None:
        self._policy = policy
        self._database = database
        self._now_ms = now_ms
        self._wakes = wakes
        limiter = AlarmRateLimiter(
            database=database, per_hour=policy.per_hour, on_ready=self._wake_senders
        )
        self.loops = RoleLoops(now_ms, work, wakes)
        self._add("alarm rate limiter", limiter.run_round, pending_work.alarm_rate_limiter)
        post = Webhook(policy.webhook_allow, secret_of=self._secret_of)
        webhook = self._sender(post.send, MessageKind.WEBHOOK, SlowTargets())
        self._add("webhooks", webhook.run_round, pending_work.webhooks)
        slow = SlowTargets()
        for number in range(1, RUN_WEBHOOK_THREADS + 1):
            signed = self._sender(
                SignedWebhook(post, keys.of_webhooks).send, MessageKind.RUN_END, slow
            )
            self._add(f"run webhooks {number}", signed.run_round, pending_work.run_webhooks)
        if policy.mail_server is not None:
            mail = Mailer(policy.mail_server, domain=f"{cluster_id}.warren")
            mailer = self._sender(mail.send, MessageKind.MAIL, SlowTargets())
            self._add("mailer", mailer.run_round, pending_work.mailer)

    def _add(self, name: str, run_round: Callable[[int], float], wanted: WakeCondition) -> None:
        self.loops.add_resting(name, run_round, wanted, longest_seconds=ALARM_LONGEST_SECONDS)

    def _sender(self, send: Send, kind: MessageKind, slow: SlowTargets) -> AlarmSender:
        return AlarmSender(
            kind=kind,
            database=self._database,
            send=send,
            context=MessageContext(self._policy.timezone, self._policy.console_url),
            now_ms=self._now_ms,
            slow=slow,
        )

    def _secret_of(self, alarm: Alarm) -> str:
        own = self._database.read(lambda session: secret_of(session, alarm))
        usual = self._policy.defaults
        return own or (usual.secret if usual.webhook == alarm.target else "")

    def _wake_senders(self) -> None:
        self._wakes.wake("webhooks")
        self._wakes.wake("mailer")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The options of one scheduler.

    Attributes:
        timezone: the zone of jobs that have none of their own.
        quorum: whether all queues are quorum queues, but the one of rejected messages.
        timeouts: how long the scheduler waits for others.
        limits: how much one claim may contain.
        address_limit: most runs in flight to one executor.
        added_routes: the installation's own routes by name, besides XXL-JOB's.
        alarms: how alarms are sent; None = only to the targets of jobs and apps.
        run_retention_days: days that final runs are kept; 0 = forever.
        spans: exports the spans of runs; None = no spans.
        metrics_jobs: how many jobs have metrics of their own.
        log_store: where finished logs go; None = nowhere.

    """

    timezone: str
    quorum: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: ClaimLimits = field(default_factory=ClaimLimits)
    address_limit: int = IN_FLIGHT_LIMIT
    added_routes: Mapping[str, Router] = field(default_factory=dict)
    alarms: AlarmPolicy | None = None
    run_retention_days: int = 0
    spans: SpanExporter | None = None
    metrics_jobs: int = METRICS_JOBS
    log_store: LogStore | None = None

    @property
    def alarm_policy(self) -> AlarmPolicy:
        """How alarms are sent."""
        return self.alarms or AlarmPolicy(timezone=self.timezone)


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
            wakes=WakeUps(monotonic),
        )
        cluster_id = database.read(cluster.cluster_id)
        database.write(lambda session: cluster.join(session, keys.fingerprints(cluster_id)))
        self._sealer = Sealer(keys, cluster_id, self.clock.now_ms)
        self._epochs = ToldEpochs(database, keys, cluster_id)
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
        self.refill = Refill(self.context, self.completion, timezone=options.timezone)
        on_ended = [self.refill.hear, *([self.run_spans.note] if self.run_spans else [])]
        self._ender = RunEnder(self.context, self.completion, on_ended)
        self._accounts = BootAccounts(self.roster.holder, clock=monotonic)
        self.uptime = SendingUptime(database, monotonic)
        self.workload = Workload(database, limit=options.address_limit, clock=monotonic)
        self._make_roles()
        self.loops = RoleLoops(self.clock.now_ms, self.work, self.context.wakes)
        self.alarm_roles = AlarmRoles(
            policy,
            database=database,
            now_ms=self.clock.now_ms,
            cluster_id=cluster_id,
            work=self.work,
            wakes=self.context.wakes,
            keys=keys,
        )

    @property
    def failing_roles(self) -> list[str]:
        """The roles whose last round failed."""
        return self.loops.failing + self.alarm_roles.loops.failing

    def leave(self) -> None:
        """Release leases and leave the registry, so that others take over at once."""
        self.board_keeper.leave()
        self.reporter.leave()
        self.cleaner.leave()
        if self.log_removal is not None:
            self.log_removal.leave()
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
        self._make_watches()

    def _make_membership(self) -> None:
        opened = self.connections
        self.executor_queues = ExecutorQueues(
            opened.admin,
            losses=lambda: (*opened.losses, self.self_health.lost_canaries),
            restore=opened.restore,
            quorum=self._options.quorum,
            clock=self.context.monotonic,
        )
        self.registrar = Registrar(
            context=self.context,
            commands=self._commands,
            queues=self.executor_queues,
            requester=opened.requester,
            roster=self.roster,
            accounts=self._accounts,
            catalogues=self.catalogues,
            epochs=self._epochs,
            log_store=store.kind if (store := self._options.log_store) else "",
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
                ISSUES_KEY: self.self_health.issues(),
                UNREACHABLE_KEY: self._unreachable(),
                MAILS_KEY: (self._options.alarms or AlarmPolicy()).mail_server is not None,
                ZONE_KEY: self._options.timezone,
            },
            are_stalled=lambda: self.confirmations.are_stalled,
            are_reports_read=lambda: opened.reports.is_ready,
        )
        self.presence = Presence(
            context=self.context,
            consumer=opened.heartbeats,
            sealer=self._sealer,
            roster=self.roster,
            registrar=self.registrar,
            accounts=self._accounts,
            epochs=self._epochs,
            on_canary=self.self_health.hear_canary,
        )

    def _unreachable(self) -> list[str]:
        """Return the executors that get nothing from this scheduler, as APP/ADDRESS."""
        return ["/".join(place) for place in self.roster.unreachable()][:UNREACHABLE_LIMIT]

    def _make_sending(self) -> None:
        def note_unreachable(app: str, address: str) -> None:
            self.roster.set_reachable(app, address, is_reachable=False)
            self.executor_queues.note_missing(app, address)

        def note_unconfirmed() -> None:
            self.confirmations.note_unconfirmed()
            self.roster.set_health(False)

        probes = Probes(
            requester=self.connections.requester,
            answer_seconds=self._options.timeouts.probe,
            on_let_go=lambda: self.context.wakes.wake("dispatcher"),
            on_returned=note_unreachable,
            on_unconfirmed=note_unconfirmed,
            clock=self.context.monotonic,
        )

        def note_missing(app: str, address: str) -> None:
            note_unreachable(app, address)
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
        self.dispatcher = Dispatcher(
            context=self.context,
            completion=self.completion,
            ender=self._ender,
            roster=self.roster,
            settings=AppSettings(self.context.database, self.context.monotonic),
            workload=self.workload,
            uptime=self.uptime,
            probes=probes,
            routers=with_added(self._options.added_routes),
            publisher=self.publisher,
            confirmations=self.confirmations,
            alarm_defaults=self._options.alarm_policy.defaults,
        )
        self.work = PendingWork(
            self.context.database,
            since_ms=self.dispatcher.peeks.since_ms,
            on_look=self.uptime.hear,
            clock=self.context.monotonic,
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

    def _make_callbacks(self) -> None:
        self.log_places = None
        if (store := self._options.log_store) is not None:
            self.log_places = LogPlacesRole(self.context, store, self._commands)
        self.callbacks = Callbacks(
            context=self.context,
            ender=self._ender,
            consumer=self.connections.reports,
            sealer=self._sealer,
            commands=self._commands,
            accounts=self._accounts,
            on_freed=self.workload.free,
            is_pressing=lambda: self.dispatcher.left_out.are_limits_underused,
            on_logs=self.log_places.ask if self.log_places else lambda _question: None,
            on_whole=lambda rows: self.log_removal.drop_parts(rows) if self.log_removal else None,
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
        self.killer = Killer(self.context, self._commands, self.roster)
        self.flow_keeper = FlowKeeper(self.context, self._ender, self.completion)

    def _make_retention(self) -> None:
        database, timezone = self.context.database, self._options.timezone
        self.load_recorder = LoadRecorder(database)
        self.metrics_recorder = MetricsRecorder(
            database, self.context.metrics, jobs_limit=self._options.metrics_jobs
        )
        self.board_keeper = BoardKeeper(node=self.name, database=database, timezone=timezone)
        self.reporter = Reporter(node=self.name, database=database, timezone=timezone)
        self.cleaner = Cleaner(
            node=self.name,
            database=database,
            timezone=timezone,
            run_retention_days=self._options.run_retention_days,
        )
        self.log_removal = None
        if (store := self._options.log_store) is not None:
            self.log_removal = LogRemoval(node=self.name, database=database, store=store)

    def _make_watches(self) -> None:
        database, policy = self.context.database, self._options.alarm_policy
        self.absence_watch = AbsenceWatch(
            database=database,
            roster=self.roster,
            absence_seconds=policy.absence_seconds,
            defaults=policy.defaults,
        )
        self.health_watch = HealthIssueWatch(
            database=database,
            roster=self.roster,
            defaults=policy.defaults,
            node=self.name,
            issues=self.self_health.issues,
        )
        self.calendar_watch = CalendarWatch(database=database, defaults=policy.defaults)
        self.epoch_watch = EpochWatch(
            database=database, roster=self.roster, defaults=policy.defaults
        )
        self.watcher = Watcher(
            node=self.name,
            database=database,
            roster=self.roster,
            defaults=policy.defaults,
            timezone=self._options.timezone,
            clock=self.context.monotonic,
        )

"""The executor's core: handles the events of one boot, on one thread and event loop.

inbox ──batch──> intake ──> active runs ──> run states ──group commit──> acks, starts, outbox
slots ──finished──> active runs ──^                                                      │
outbox ──confirmed──> run states <───────────────────────────────────────────────────────┘

`Startup` waits for the welcome and reports what earlier boots left; `Watch` handles heartbeats, and
changes that no event reports: lost contact, health issues and absence.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import structlog

from warren.broker.codec import MAX_PACK_TRIGGERS
from warren.broker.messages import (
    CallEnd,
    CatalogueAnswer,
    Command,
    Drain,
    Finished,
    Goodbye,
    HealthIssue,
    Heartbeat,
    Load,
    NotStarted,
    NotWelcome,
    OpenRunsQuery,
    Progress,
    Question,
    Refused,
    Report,
    Trigger,
    Triggers,
    Welcome,
)
from warren.broker.reasons import Why
from warren.broker.topology import HEARTBEAT_KEY, command_queue, run_queue
from warren.broker.transport import Confirm, Publisher
from warren.executor.boot_context import BootContext
from warren.executor.errors import JournalFailed, NewerJournal
from warren.executor.fork_server.frames import Await, Call
from warren.executor.journal.file import CallKey
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.lanes.active_runs import ActiveRuns, LogFollower, LogKeeper
from warren.executor.lanes.readiness import Contact, Readiness
from warren.executor.lanes.reporting import ProgressReports, Reporting
from warren.executor.messaging.heartbeat import HeartbeatThread, LoadMeter, SchedulerClock
from warren.executor.messaging.inbox import Arrival, Inbox, deliveries_of
from warren.executor.messaging.outbox import Outbox, Sender
from warren.executor.processes.interface import SlotEvents, SlotPool
from warren.executor.requests import (
    AwaitedCalls,
    CommandHandler,
    EarlyKills,
    Intake,
    QueryResponder,
)
from warren.executor.run_life import Event

#: The most unsettled commands, or messages of up to fifty triggers; the rest stays with the broker,
#: where it provably never started if this host dies.
PREFETCH = 40
#: Seconds until the next try after the journal could not be begun.
JOURNAL_RETRY_SECONDS = 1.0
#: After this long without a welcome, log the likely reasons once.
WELCOME_SECONDS = 10.0
#: For how long schedulers that ask for the catalogue are assumed to have received the last answer,
#: and how long an answer is valid.
SEND_AGAIN_SECONDS = 3.0
CATALOGUE_SECONDS = 60.0
#: How often to check conditions that no event reports: with runs, and without any.
CHECK_SECONDS, IDLE_CHECK_SECONDS = 0.25, 1.0
#: How long an `OpenRunsQuery` is valid.
QUESTION_SECONDS = 10.0
#: How long a goodbye is valid, and how long to wait for the broker's confirm.
GOODBYE_SECONDS = 60.0
GOODBYE_CONFIRM_SECONDS = 2.0
#: How long an executor of remote runs may be away and still continue them.
REMOTE_RETURN_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The roles of one boot."""

    slots: SlotPool
    handlers: Sequence[str]
    contact: Contact
    commits: GroupCommit
    publisher: Publisher
    sender: Sender
    outbox: Outbox
    readiness: Readiness
    active_runs: ActiveRuns
    intake: Intake
    commands: CommandHandler
    load: LoadMeter
    heartbeats: HeartbeatThread
    progress: ProgressReports
    reporting: Reporting
    awaited: AwaitedCalls


def assemble(context: BootContext, core: "Core") -> Roles:
    """Build the roles of one boot, with open slots; raises if the handlers cannot be loaded.

    It is long because it is a list: each role once, with everything it depends on.
    """
    slots = context.make_slots(
        loop=context.loop,
        events=SlotEvents(
            partial(core.run_moved, event=Event.STARTED),
            core.run_finished,
            core.slots_ready,
            core.run_moved,
            core.run_progressed,
            core.run_called,
            core.run_awaits,
        ),
        script_folder=context.script_folder,
        notes_folder=context.notes_folder,
    )
    handlers = slots.open()
    address, clock = context.identity.address, context.clock
    is_back = context.run_states.knows_boot(context.identity.boot_id)
    contact = Contact(clock.monotonic(), is_back=is_back)
    commits = GroupCommit(
        context.loop,
        context.run_states,
        context.log,
        core.journal_changed,
        context.limits.commit_pace,
    )
    publisher = context.transport.publisher(f"{address} callbacks")
    sender = Sender(context.identity, context.sealer, publisher)
    outbox = Outbox(
        sender,
        partial(core.post, core.reports_confirmed),
        context.log,
        on_calls_confirmed=partial(core.post, core.calls_confirmed),
    )
    readiness = Readiness(contact, commits, outbox, context.disks, clock, slots=slots)
    reporting = Reporting(context, commits, outbox)
    active_runs = ActiveRuns(
        context,
        slots=slots,
        commits=commits,
        contact=contact,
        readiness=readiness,
        reporting=reporting,
    )
    early_kills = EarlyKills(clock.monotonic)
    intake = Intake(
        context,
        slots=slots,
        active_runs=active_runs,
        outbox=outbox,
        early_kills=early_kills,
        readiness=readiness,
        reporting=reporting,
    )
    load = LoadMeter(clock.monotonic)
    answers = QueryResponder(
        context,
        sender=sender,
        active_runs=active_runs,
        intake=intake,
        load=load,
        readiness=readiness,
    )
    awaited = AwaitedCalls(sender, clock.monotonic)
    commands = CommandHandler(
        context,
        slots=slots,
        active_runs=active_runs,
        intake=intake,
        early_kills=early_kills,
        contact=contact,
        answers=answers,
        awaited=awaited,
    )
    return Roles(
        slots=slots,
        handlers=handlers,
        contact=contact,
        commits=commits,
        publisher=publisher,
        sender=sender,
        outbox=outbox,
        readiness=readiness,
        active_runs=active_runs,
        intake=intake,
        commands=commands,
        load=load,
        heartbeats=_make_heartbeats(context, core),
        progress=ProgressReports(sender, clock.monotonic),
        reporting=reporting,
        awaited=awaited,
    )


def make_inbox(
    context: BootContext, core: "Core", queue: str, expect: Any, receive: Callable[..., None]
) -> Inbox:
    """Return an inbox for one queue; `receive` gets each batch on the core's thread."""
    address = context.identity.address
    name = "triggers" if queue.startswith("warren.run.") else "commands"
    consumer = context.transport.consumer(f"{address} {name}", [queue], prefetch=PREFETCH)
    post: Callable[[list[Arrival]], None] = partial(core.post, receive)
    return Inbox(
        name,
        consumer,
        context.sealer,
        address=address,
        expect=expect,
        post=post,
        log=context.log,
    )


def _make_heartbeats(context: BootContext, core: "Core") -> HeartbeatThread:
    publisher = context.transport.publisher(f"{context.identity.address} heartbeats")
    return HeartbeatThread(
        Sender(context.identity, context.sealer, publisher),
        core.compose_heartbeat,
        partial(core.post, core.heard),
        context.clock,
        context.log,
        beat_seconds=context.limits.beat_seconds,
    )


def make_log_keeper(context: BootContext, roles: Roles) -> LogKeeper:
    """Return what stores logs; loaded only where there is a log store."""
    from warren.executor.log_uploads.sending import LogSender  # noqa: PLC0415 - see above
    from warren.executor.log_uploads.uploads import LogUploads, Pauses  # noqa: PLC0415
    from warren.executor.log_uploads.waiting_logs import WaitingLogs  # noqa: PLC0415

    return LogUploads(
        WaitingLogs(context.state_folder, context.limits.log_spool_bytes),
        context.run_logs,
        roles.sender,
        LogSender(context.identity.app, context.log_folder),
        folder=context.state_folder,
        is_busy=lambda: roles.active_runs.waiting_count > 0,
        is_late=roles.slots.has_late_log,
        log=context.log,
        # The logs of remote runs are copied now and then; their executors have them.
        pauses=Pauses(part_seconds=0) if roles.slots.is_remote else Pauses(),
    )


def start_log_printer(context: BootContext, roles: Roles) -> LogFollower:
    """Return what prints logs; loaded only where that is asked for."""
    from warren.executor.log_uploads.printing import LogPrinter, to_stdout  # noqa: PLC0415

    is_late = roles.slots.has_late_log
    printer = LogPrinter(context.identity, context.run_logs, is_late, to_stdout, context.log)
    printer.start()
    return printer


class Startup:
    """The startup of one boot. Used from the core's thread.

    `make_run_inbox` makes the inbox for triggers, available as `run_inbox` from then on.
    """

    def __init__(
        self, context: BootContext, roles: Roles, make_run_inbox: Callable[[], Inbox]
    ) -> None:
        self._context = context
        self._identity = context.identity
        self._clock = context.clock
        self._log = context.log
        self._roles = roles
        self._make_run_inbox = make_run_inbox
        self._is_closed = False
        self._started_at = self._clock.monotonic()
        self.was_welcomed = False
        #: Whether reports are sent.
        self.is_reporting = False
        self._reason = ""
        self._sent = ""
        self._sent_at = float("-inf")
        self.run_inbox: Inbox | None = None

    def start(self) -> None:
        """Start waiting for the welcome."""
        self._context.loop.call_later(WELCOME_SECONDS, self._miss_welcome)

    def close(self) -> None:
        """Ignore welcomes from now on."""
        self._is_closed = True

    def welcome(self, welcome: Welcome, cluster: str) -> None:
        """Handle a welcome: each one sets the clock, the first one begins the boot.

        It counts even if it is late or expired: it answers a heartbeat of this process, which
        bounds its age, and our clock may be what it has to correct.
        """
        if self._is_closed or welcome.boot_id != self._identity.boot_id or not cluster:
            return
        if not self._clock.learn(welcome.now_ms, asked_at_ms=welcome.heartbeat_sent_at_ms):
            return
        self._roles.heartbeats.welcome()
        self._roles.readiness.note_welcome(welcome.now_ms)
        self._context.known_epoch.learn(welcome, cluster)
        self._keep_logs(has_store=bool(welcome.log_store))
        if not self.was_welcomed:
            self.was_welcomed = True
            self._context.sealer.pin(cluster)
            self._log.info("executor_welcomed", cluster=cluster)
            self._begin()
        if welcome.wants_catalogue:
            self._send_catalogue()

    def _keep_logs(self, *, has_store: bool) -> None:
        """Store logs from now on, if a scheduler has a log store."""
        active_runs = self._roles.active_runs
        if active_runs.log_keeper is None:
            if not has_store:
                return
            try:
                active_runs.log_keeper = make_log_keeper(self._context, self._roles)
            except OSError as error:
                self._log.error("log_store_not_reached", waiting=0, why=str(error))
                return
        active_runs.log_keeper.told(has_store=has_store)

    def _send_catalogue(self) -> None:
        """Send the catalogue to all schedulers; once, however many of them ask."""
        catalogue, now = self._roles.slots.catalogue, self._clock.monotonic()
        if catalogue is None:
            return
        if catalogue.fingerprint == self._sent and now - self._sent_at < SEND_AGAIN_SECONDS:
            return
        self._sent, self._sent_at = catalogue.fingerprint, now
        answer = CatalogueAnswer(
            app=self._identity.app,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            contents=msgspec.Raw(catalogue.contents),
        )
        self._roles.sender.send(answer, key=HEARTBEAT_KEY, valid_seconds=CATALOGUE_SECONDS)

    def note_reason(self, reason: str) -> None:
        """Log why no scheduler lets this executor in, unless the last one said the same."""
        if not self.was_welcomed and not self._is_closed and reason != self._reason:
            self._reason = reason
            self._log.warning("welcome_awaited", app=self._identity.app, reason=reason)

    def _miss_welcome(self) -> None:
        if not self._reason:
            self.note_reason(
                "no scheduler answers: none runs, or none accepts this key (warren secrets app), "
                "or they are older than this executor; see their logs"
            )

    def _begin(self) -> None:
        if self._is_closed:
            return
        run_states, readiness = self._context.run_states, self._roles.readiness
        now_ms = self._clock.now_ms()
        # A scheduler sends it what has waited once it has admitted it, before the welcome is here.
        since_ms = now_ms - math.ceil(1000 * (self._clock.monotonic() - self._started_at))
        try:
            unconfirmed = run_states.begin(self._identity.boot_id, now_ms, since_ms=since_ms)
        except JournalFailed as error:
            readiness.is_unable_to_begin = True
            self._context.loop.call_later(JOURNAL_RETRY_SECONDS, self._begin)
            self._log.error("journal_write_failed", error=str(error))
            return
        readiness.is_unable_to_begin = False
        self._report(unconfirmed)
        if not readiness.is_draining:
            self.run_inbox = self._make_run_inbox()
            self.run_inbox.start()

    def give_up(self, cluster: str) -> None:
        """Report what an earlier process of this boot left, as another boot has the address.

        What it never started is planned again. What it started is left in the journal. Nothing is
        said of other boots: one of them may be the executor that has the address, if this journal
        is a copy.
        """
        run_states, boot_id = self._context.run_states, self._identity.boot_id
        if self.is_reporting or not cluster or not run_states.knows_boot(boot_id):
            return
        self._context.sealer.pin(cluster)
        try:
            self._report(run_states.begin(boot_id, self._clock.now_ms()))
        except JournalFailed as error:
            self._log.error("journal_write_failed", error=str(error))

    def _report(self, earlier: Sequence[tuple[Report, int]]) -> None:
        for report, size in earlier:
            self._roles.outbox.add(report, size)
        if earlier:
            self._log.warning("earlier_runs_reported", count=len(earlier))
        if not self.is_reporting:
            self._roles.outbox.start()
            self.is_reporting = True


class Watch:
    """Compares each condition with its last state. Used from the core's thread.

    `health_issues` may be read from any thread.
    """

    def __init__(
        self, roles: Roles, clock: SchedulerClock, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._roles = roles
        self._clock = clock
        self._log = log
        self._was_held = True
        self._was_away = False
        self.health_issues: tuple[HealthIssue, ...] = ()

    def check(self) -> None:
        self._check_contact()
        self.check_health()
        self._check_absence()

    def check_health(self) -> None:
        """Check for health issues; log and report changes."""
        issues = self._roles.readiness.health_issues()
        if issues == self.health_issues:
            return
        self.health_issues = issues
        self._roles.heartbeats.beat_now()
        if issues:
            self._log.warning(
                "executor_impaired", ailments=[str(issue).lower() for issue in issues]
            )
        else:
            self._log.info("executor_recovered")

    def _check_contact(self) -> None:
        is_held = self._roles.contact.is_held(self._clock.monotonic())
        if is_held == self._was_held:
            return
        self._was_held = is_held
        waiting = self._roles.active_runs.waiting_count
        if is_held:
            self._log.info("contact_regained", waiting=waiting)
        else:
            self._roles.heartbeats.beat_now()
            self._log.warning("contact_lost", waiting=waiting)

    def _check_absence(self) -> None:
        away = self._roles.slots.away
        if (away is not None) == self._was_away:
            return
        self._was_away = away is not None
        self._roles.heartbeats.beat_now()
        if away is None:
            self._log.info("work_resumed")
        else:
            self._log.warning("work_suspended", why=str(away))
            self._roles.active_runs.return_waiting(away)


class Core:
    """One boot of one executor. Used from the loop's thread unless a method says otherwise.

    `on_refused(reason)` is called when another living executor holds the address, `on_drain()`
    whenever a scheduler asks this executor to drain.
    """

    def __init__(
        self,
        context: BootContext,
        on_refused: Callable[[str], None],
        on_drain: Callable[[], None],
    ) -> None:
        self._context = context
        self._on_refused = on_refused
        self._on_drain = on_drain
        self._identity = context.identity
        self._run_states = context.run_states
        self._clock = context.clock
        self._log = context.log
        self._is_closed = False
        self._is_start_asked = False
        self.was_clean = False
        self._slots_closed: asyncio.Future[None] | None = None
        self._roles = assemble(context, self)
        self._watch = Watch(self._roles, context.clock, context.log)
        self._started_at_ms = context.clock.now_ms()
        self._active_runs = self._roles.active_runs
        self._commits = self._roles.commits
        who = context.identity
        commands = command_queue(who.app, who.address, who.boot_id).name
        self._command_inbox = make_inbox(context, self, commands, Command | Question, self._handle)
        take = partial(make_inbox, context, self, run_queue(who.app, who.address).name)
        self._startup = Startup(context, self._roles, partial(take, Trigger | Triggers, self._take))

    def start(self) -> None:
        """Start sending heartbeats, and wait for the welcome."""
        if self._context.prints_logs:
            self._active_runs.log_printer = start_log_printer(self._context, self._roles)
        self._active_runs.resume(self._run_states.resumable(self._identity.boot_id))
        self._roles.heartbeats.start()
        self._command_inbox.start()
        self._startup.start()
        self._check_often()
        self._log.info("executor_started", handlers=list(self._roles.handlers))

    def post(self, call: Callable[..., None], *values: Any) -> None:
        """Call something on the core's thread; thread-safe; does nothing once that has ended."""
        with contextlib.suppress(RuntimeError):
            self._context.loop.call_soon_threadsafe(call, *values)

    # -- events of the roles ------------------------------------------------------------------

    def run_moved(self, run_id: int, event: Event) -> None:
        """Handle a slot's event about a run."""
        self._active_runs.moved(run_id, event)

    def run_progressed(self, run_id: int, progress: Progress) -> None:
        """Handle a job process's report on the progress of its run."""
        self._roles.progress.note(run_id, progress)

    def run_called(self, call: Call, then: Callable[[], None]) -> None:
        """Keep what a run asks for."""
        run = self._active_runs.running(call.run_id)
        if run is not None:
            self._roles.reporting.called(call, run.trigger, then)

    def run_awaits(self, call: Await) -> CallEnd | None:
        """Return how the run of a call has ended; None = not known yet."""
        run = self._active_runs.running(call.run_id)
        return None if run is None else self._roles.awaited.end_of(call, run.trigger.identity)

    def run_finished(
        self, end: Finished | NotStarted, on_recorded: Callable[[], None] | None
    ) -> None:
        self._start_soon()  # before the commit that this end asks for, which waits for the disk
        self._roles.progress.forget(end.run_id)
        self._active_runs.finished(end, on_recorded)

    def slots_ready(self) -> None:
        self._active_runs.start_ready()

    def journal_changed(self, is_failing: bool) -> None:
        """Handle a journal that cannot be written, or can again."""
        self._watch.check_health()
        self._pause_or_resume_inbox()
        if not is_failing:
            self._active_runs.start_ready()

    def reports_confirmed(self, run_ids: tuple[int, ...]) -> None:
        """Handle the broker's confirm of these runs' reports."""
        # Not worth a sync of its own: the next commit or check includes it.
        self._run_states.confirm(run_ids, self._clock.now_ms())

    def calls_confirmed(self, calls: tuple[CallKey, ...]) -> None:
        """Handle the broker's confirm of these calls' reports."""
        self._run_states.confirm_calls(calls)

    def heard(self, sent_at: float) -> None:
        """Handle the broker's answer to a heartbeat sent at `sent_at`, monotonic."""
        now = self._clock.monotonic()
        self._roles.contact.confirm(sent_at, now, self._active_runs.waiting_ids())
        self._ask(now)
        self._active_runs.start_ready()

    def compose_heartbeat(self) -> Heartbeat:
        """Return the current heartbeat; called from another thread, it reads counters only."""
        who, roles = self._identity, self._roles
        cpu_percent, memory_percent = roles.load.read()
        catalogue = roles.slots.catalogue
        epoch, epoch_proof = self._context.known_epoch.told
        keeper = self._active_runs.log_keeper
        return Heartbeat(
            app=who.app,
            address=who.address,
            boot_id=who.boot_id,
            started_at_ms=self._started_at_ms,
            load=Load(
                cpu_percent=cpu_percent,
                memory_percent=memory_percent,
                slots=self._context.limits.slots,
                running=self._active_runs.running_count,
                waiting=self._active_runs.waiting_count,
            ),
            catalogue=catalogue.fingerprint if catalogue else "",
            draining=roles.readiness.refusal is not None,
            health_issues=self._watch.health_issues,
            returns_seconds=REMOTE_RETURN_SECONDS if roles.slots.is_remote else 0,
            triggers_per_message=MAX_PACK_TRIGGERS,
            sent_at_ms=self._clock.steady_ms(),
            last_run_id=self._run_states.highest_id,
            repeated_id=self._run_states.repeated_id,
            epoch=epoch,
            epoch_proof=epoch_proof,
            unstored_logs=keeper.count if keeper is not None else 0,
            log_fault=keeper.fault if keeper is not None else "",
        )

    def _start_soon(self) -> None:
        """Start what may start, once per round of the loop, however many runs have ended."""
        if not self._is_start_asked:
            self._is_start_asked = True
            self._context.loop.call_soon(self._start_asked)

    def _start_asked(self) -> None:
        self._is_start_asked = False
        self._active_runs.start_ready()

    # -- arriving messages --------------------------------------------------------------------

    def _handle(self, arrivals: list[Arrival]) -> None:
        for arrival in arrivals:
            message = arrival.message
            if isinstance(message, Welcome):
                self._startup.welcome(message, arrival.cluster)
                self._pause_or_resume_inbox()
            elif arrival.is_expired or self._is_closed:
                continue
            elif isinstance(message, NotWelcome | Refused | Drain):
                if message.boot_id == self._identity.boot_id:
                    self._obey(message, arrival.cluster)
            elif self._startup.was_welcomed:
                self._roles.commands.handle(message)
        self._command_inbox.ack(deliveries_of(arrivals))

    def _obey(self, message: NotWelcome | Refused | Drain, cluster: str) -> None:
        if isinstance(message, NotWelcome):
            self._startup.note_reason(message.reason)
            self._roles.readiness.note_other_boot(self._clock.now_ms())
            self._pause_or_resume_inbox()
        elif isinstance(message, Refused):
            self._startup.give_up(cluster)
            self._on_refused(message.reason)
        else:
            self._on_drain()

    def _take(self, arrivals: list[Arrival]) -> None:
        inbox = self._startup.run_inbox
        if inbox is None or self._is_closed:
            return
        intake = self._roles.intake
        told = self._what_beats_tell()
        intake.receive(arrivals)
        if told != self._what_beats_tell():
            self._roles.heartbeats.beat_now()
        self._active_runs.start_ready()
        self._commits.when_durable(partial(inbox.ack, deliveries_of(arrivals)))
        self._pause_or_resume_inbox()

    def _what_beats_tell(self) -> tuple[int, int, bool]:
        """Return what deserves a heartbeat at once, such as that another boot has the address."""
        outdated = self._roles.intake.counts["outdated"]
        return self._run_states.repeated_id, outdated, self._roles.readiness.is_displaced

    # -- periodic checks ----------------------------------------------------------------------

    def _check_often(self) -> None:
        if self._is_closed:
            return
        self._beat()
        try:
            self._check()
        finally:
            seconds = IDLE_CHECK_SECONDS if self._active_runs.is_empty else CHECK_SECONDS
            self._context.loop.call_later(seconds, self._check_often)

    def _beat(self) -> None:
        """Show that this thread works; whether remote executors do is shown by their gateway."""
        if not self._roles.slots.is_remote:
            self._context.life_signs.beat(
                was_welcomed=self._startup.was_welcomed,
                is_draining=self._roles.readiness.is_draining,
                obstacle=self._roles.readiness.obstacle(),
            )

    def _check(self) -> None:
        self._watch.check()
        self._ask(self._clock.monotonic())
        self._active_runs.report_starts()
        self._roles.progress.send_due()
        if self._roles.readiness.is_draining:
            self._return_waiting()
        self._active_runs.start_ready()
        self._pause_or_resume_inbox()
        self._compact()
        if self._run_states.has_uncommitted:
            self._commits.schedule()

    def _return_waiting(self) -> None:
        """Return waiting runs, so that other executors get them."""
        self._active_runs.return_waiting(Why.SHUTTING_DOWN())

    def _ask(self, now: float) -> None:
        run_ids = self._roles.contact.question(now)
        if not run_ids:
            return
        self._log.info("open_runs_asked", count=len(run_ids))
        who = self._identity
        question = OpenRunsQuery(
            app=who.app,
            address=who.address,
            boot_id=who.boot_id,
            run_ids=run_ids,
            identities=tuple(map(self._run_states.identity_of, run_ids)),
        )
        self._roles.sender.send(question, valid_seconds=QUESTION_SECONDS)

    def _pause_or_resume_inbox(self) -> None:
        if self._startup.run_inbox is None:
            return
        if self._roles.readiness.may_take and not self._active_runs.is_heavy:
            self._startup.run_inbox.resume()
        else:
            self._startup.run_inbox.pause()

    def _compact(self) -> None:
        if not self._run_states.is_due_for_compaction or self._commits.is_failing:
            return
        try:
            self._run_states.compact(self._clock.now_ms())
        except JournalFailed as error:
            self._log.error("journal_write_failed", error=str(error))

    def adopt(self, journal: bytes, then: Callable[[str], None]) -> None:
        """Continue what an earlier boot left elsewhere; see `Executor.adopt`."""
        try:
            reports, starts = self._run_states.adopt(journal, self._clock.now_ms())
        except NewerJournal as error:
            then(str(error))
            return

        def go_on() -> None:
            for report, size in reports:
                self._roles.outbox.add(report, size)
            self._active_runs.resume(starts)
            then("")

        self._commits.when_durable(go_on)

    def reload(self, then: Callable[[str], None]) -> None:
        """Reload the handlers; see `Slots.reload`."""

        def take(why: str) -> None:
            if why:
                self._log.error("handlers_not_reloaded", why=why)
            else:
                self._log.info("handlers_reloaded")
                self._roles.heartbeats.beat_now()
            then(why)

        self._roles.slots.reload(take)

    # -- the steps of `shutdown` --------------------------------------------------------------

    @property
    def is_taking(self) -> bool:
        """Whether it was welcomed and takes triggers."""
        return self._startup.run_inbox is not None

    @property
    def has_begun(self) -> bool:
        """Whether this boot has taken runs, in this process or an earlier one."""
        return self._run_states.knows_boot(self._identity.boot_id)

    @property
    def is_working(self) -> bool:
        """Whether a run is running."""
        return self._active_runs.is_working

    @property
    def has_processes(self) -> bool:
        """Whether processes are left that were asked to exit."""
        return self._slots_closed is not None and not self._slots_closed.done()

    @property
    def has_untaken(self) -> bool:
        """Whether triggers may have been delivered that were not handled yet."""
        inbox = self._startup.run_inbox
        is_left = self._roles.readiness.is_displaced
        return inbox is not None and not is_left and not inbox.is_finished

    @property
    def has_unconfirmed(self) -> bool:
        """Whether reports wait for the broker's confirm."""
        return self._startup.is_reporting and not self._roles.outbox.is_empty

    @property
    def is_settled(self) -> bool:
        """Whether no run is open and the broker has every report; from any thread."""
        return not self._run_states.has_open

    @property
    def is_storing_logs(self) -> bool:
        """Whether finished logs are waiting while the log store accepts logs."""
        keeper = self._active_runs.log_keeper
        return keeper is not None and keeper.is_storing

    def begin_draining(self) -> None:
        """Take no more runs, and return those that wait."""
        self._roles.readiness.is_draining = True
        self._roles.heartbeats.beat_now()
        self._return_waiting()

    def stop_runs(self) -> None:
        self._active_runs.cut_off()

    def finish_taking(self) -> None:
        """Stop taking triggers, and return those that were delivered."""
        self._return_waiting()
        if self._startup.run_inbox is not None:
            self._startup.run_inbox.finish()

    def stop_taking(self) -> None:
        """Leave the run queue and end the job processes."""
        self._commits.commit()  # what was returned is reported from here on
        if self._startup.run_inbox is not None:
            self._startup.run_inbox.close()
        self._slots_closed = self._roles.slots.close(self._context.limits.grace_seconds)

    def close(self) -> None:
        """Say goodbye if nothing is left to run or report, and close everything."""
        is_clean = not self._active_runs.running_count and not self.has_unconfirmed
        self._roles.heartbeats.close()
        self._roles.outbox.close()
        if self._active_runs.log_keeper is not None:
            self._active_runs.log_keeper.close()
        if self._active_runs.log_printer is not None:
            self._active_runs.log_printer.close()
        if is_clean and self._startup.was_welcomed:
            self.was_clean = True
            self._say_goodbye()
        self._is_closed = True
        self._startup.close()
        self._command_inbox.close()
        self._roles.publisher.close()
        self._commits.commit()
        if self._run_states.has_uncommitted:
            self._commits.commit()  # what the effects of the first commit recorded
        self._log.info("executor_stopped", clean=is_clean, **self.counts())

    def counts(self) -> dict[str, int]:
        """Return how many triggers were taken, answered or rejected, by kind."""
        inbox = self._startup.run_inbox
        return {**self._roles.intake.counts, **(inbox.rejected if inbox else {})}

    def _say_goodbye(self) -> None:
        who = self._identity
        goodbye = Goodbye(app=who.app, address=who.address, boot_id=who.boot_id)
        batch = self._roles.sender.send(goodbye, key=HEARTBEAT_KEY, valid_seconds=GOODBYE_SECONDS)
        if batch.wait(GOODBYE_CONFIRM_SECONDS)[0] is not Confirm.CONFIRMED:
            self._log.warning("goodbye_unconfirmed")

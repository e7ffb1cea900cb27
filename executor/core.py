"""The executor's core: every role wired to the others, on one thread and one event loop.

inbox ──batch──> intake ──> workload ──> ledger ──group commit──> acks, process starts, outbox
slots ──finished──> workload ──^                                                          │
outbox ──confirmed──> ledger  <──────────────────────────────────────────────────────────┘
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog

from broker.messages import (
    Beat,
    Finished,
    Goodbye,
    Heartbeat,
    IdleBeat,
    Kill,
    Know,
    Load,
    ReadLog,
    Refused,
    StillOpen,
    Trigger,
    Welcome,
    WhichOpen,
)
from broker.signing import Sealer
from broker.topology import HEARTBEAT_KEY, command_queue, run_queue
from broker.transport import Confirm, Transport
from executor.clock import SchedulerClock
from executor.commands import Commands, LogReader
from executor.contact import Contact
from executor.errors import JournalFailed
from executor.groupcommit import RETRY_SECONDS, GroupCommit
from executor.heartbeat import Pulse
from executor.inbox import Arrival, Inbox
from executor.intake import Intake, Tombstones
from executor.ledger import Ledger
from executor.load import LoadMeter
from executor.outbox import Outbox
from executor.questions import Questions
from executor.sender import Identity, Sender
from executor.workload import SlotPool, Workload

#: How often that is looked at which no event tells of.
TICK_SECONDS = 0.25
#: Triggers and commands held unsettled; what is over it stays with the broker.
PREFETCH = 200
#: How long our own question is good for.
QUESTION_SECONDS = 10.0
#: How long a goodbye is good for, and how long to wait for the broker's word.
GOODBYE_SECONDS = 60.0
GOODBYE_CONFIRM_SECONDS = 2.0


Command = Welcome | Refused | Beat | IdleBeat | Kill | Know | ReadLog | StillOpen


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an executor may use: slots, seconds, and per cent of the host before it is busy."""

    slots: int
    grace_seconds: float = 5.0
    drain_seconds: float = 10.0
    cpu_limit: float = 90.0
    memory_limit: float = 90.0


class ClosableSlots(SlotPool, Protocol):
    """Slots as the core opens and closes them."""

    def open(self) -> tuple[str, ...]:
        """Get ready; return the names of the handlers. Raises what is wrong with them."""

    def close(self) -> None:
        """End every process."""


class SlotsFactory(Protocol):
    """Makes the slots of one boot."""

    def __call__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        on_started: Callable[[int, int], None],
        on_finished: Callable[[Finished], None],
    ) -> ClosableSlots:
        """Return slots that are not open yet."""


class Core:
    """One boot of one executor. Belongs to the loop's thread.

    `on_refused(reason)` is called when another living executor holds the address.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        sealer: Sealer,
        ledger: Ledger,
        clock: SchedulerClock,
        limits: Limits,
        make_slots: SlotsFactory,
        read_log: LogReader,
        on_refused: Callable[[str], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._identity = identity
        self._loop = loop
        self._transport = transport
        self._sealer = sealer
        self._ledger = ledger
        self._clock = clock
        self._limits = limits
        self._on_refused = on_refused
        self._log = log
        self._started_at_ms = clock.now_ms()
        self._was_welcomed = False
        self._is_draining = False
        self._is_closed = False
        self._was_held = True

        self._slots = make_slots(
            loop=loop, on_started=self._run_started, on_finished=self._run_finished
        )
        self._handlers = self._slots.open()
        self._load = LoadMeter(clock.monotonic)
        self._contact = Contact(clock.monotonic())
        self._commits = GroupCommit(loop, ledger, log, self._journal_changed)
        self._publisher = transport.publisher(f"{identity.address} callbacks")
        self._sender = Sender(identity, sealer, self._publisher)
        self._outbox = Outbox(self._sender, partial(self.post, self._reports_confirmed), log)
        self._workload = self._make_workload()
        self._tombstones = Tombstones(clock.monotonic)
        self._intake = self._make_intake()
        self._commands = self._make_commands(read_log)
        self._pulse = self._make_pulse()
        self._command_inbox = self._make_command_inbox()
        self._run_inbox: Inbox | None = None

    # -- the boot's life ----------------------------------------------------------------------

    def start(self) -> None:
        """Show signs of life, and wait for the welcome."""
        self._pulse.start()
        self._command_inbox.start()
        self._tick()
        self._log.info("executor_started", handlers=list(self._handlers))

    def post(self, call: Callable[..., None], *values: Any) -> None:
        """Have something done on the core's thread; thread-safe, nothing once it has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *values)

    def begin_draining(self) -> None:
        """Take nothing more, and give back what waits."""
        self._is_draining = self._intake.is_draining = True
        self._pulse.beat_now()
        self._workload.return_waiting("the executor is shutting down")

    @property
    def is_working(self) -> bool:
        """Whether a run is at work."""
        return self._workload.running_count > 0

    @property
    def has_unsaid(self) -> bool:
        """Whether reports wait for the broker's word."""
        return self._was_welcomed and not self._outbox.is_empty

    def stop_runs(self) -> None:
        """End every run that is at work."""
        self._workload.stop_all("executor is shutting down")

    def stop_taking(self) -> None:
        """Let go of the run queue and of the job processes."""
        if self._run_inbox is not None:
            self._run_inbox.close()
        self._slots.close()
        self._commits.commit()

    def close(self) -> None:
        """Say goodbye when nothing is left to be said or done, and let go of everything."""
        is_clean = not self.is_working and not self.has_unsaid
        self._pulse.close()
        self._outbox.close()
        if is_clean and self._was_welcomed:
            self._say_goodbye()
        self._is_closed = True
        self._command_inbox.close()
        self._publisher.close()
        self._commits.commit()
        self._log.info("executor_stopped", clean=is_clean)

    def _say_goodbye(self) -> None:
        who = self._identity
        goodbye = Goodbye(app=who.app, address=who.address, boot_id=who.boot_id)
        batch = self._sender.send(goodbye, key=HEARTBEAT_KEY, valid_seconds=GOODBYE_SECONDS)
        if batch.wait(GOODBYE_CONFIRM_SECONDS)[0] is not Confirm.CONFIRMED:
            self._log.warning("goodbye_unconfirmed")

    # -- what the other threads tell ----------------------------------------------------------

    def _commands_arrived(self, arrivals: list[Arrival]) -> None:
        for arrival in arrivals:
            message = arrival.message
            if arrival.is_expired or self._is_closed:
                continue
            if isinstance(message, Welcome):
                self._welcome(message, arrival.cluster)
            elif isinstance(message, Refused):
                self._refused(message)
            elif self._was_welcomed:
                self._commands.obey(message)
        self._command_inbox.ack([arrival.delivery for arrival in arrivals])

    def _triggers_arrived(self, arrivals: list[Arrival]) -> None:
        inbox = self._run_inbox
        if inbox is None or self._is_closed:
            return
        self._intake.receive(arrivals)
        self._workload.pump()
        deliveries = [arrival.delivery for arrival in arrivals]
        self._commits.when_durable(partial(inbox.ack, deliveries))
        self._balance()

    def _run_started(self, run_id: int, _started_at_ms: int) -> None:
        self._workload.started(run_id)

    def _run_finished(self, finished: Finished) -> None:
        self._workload.finished(finished)

    def _reports_confirmed(self, run_ids: tuple[int, ...]) -> None:
        if not self._is_closed:
            self._ledger.confirm(run_ids, self._clock.now_ms())
            self._commits.schedule()

    def _heard(self, sent_at: float) -> None:
        now = self._clock.monotonic()
        self._contact.confirm(sent_at, now, self._workload.waiting_ids())
        self._ask(now)
        self._workload.pump()

    def _journal_changed(self, is_in_trouble: bool) -> None:
        self._balance()
        if not is_in_trouble:
            self._workload.pump()

    # -- welcome ------------------------------------------------------------------------------

    def _welcome(self, welcome: Welcome, cluster: str) -> None:
        if welcome.boot_id != self._identity.boot_id or not cluster:
            return
        self._clock.set(welcome.now_ms)
        if self._was_welcomed:
            return
        self._was_welcomed = True
        self._sealer.pin(cluster)
        self._log.info("executor_welcomed", cluster=cluster)
        self._pulse.welcome()
        self._begin()

    def _begin(self) -> None:
        if self._is_closed:
            return
        try:
            unsaid = self._ledger.begin(self._identity.boot_id, self._clock.now_ms())
        except JournalFailed as error:
            self._log.error("journal_write_failed", error=str(error))
            self._loop.call_later(RETRY_SECONDS, self._begin)
            return
        for report, size in unsaid:
            self._outbox.add(report, size)
        if unsaid:
            self._log.warning("earlier_runs_reported", count=len(unsaid))
        self._outbox.start()
        if not self._is_draining:
            self._run_inbox = self._make_run_inbox()
            self._run_inbox.start()

    def _refused(self, refused: Refused) -> None:
        if refused.boot_id == self._identity.boot_id:
            self._on_refused(refused.reason)

    # -- what nobody tells --------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_closed:
            return
        now = self._clock.monotonic()
        self._watch_contact(now)
        self._ask(now)
        self._workload.tell_started()
        self._workload.pump()
        self._balance()
        self._compact()
        self._loop.call_later(TICK_SECONDS, self._tick)

    def _watch_contact(self, now: float) -> None:
        is_held = self._contact.is_held(now)
        if is_held != self._was_held:
            self._was_held = is_held
            waiting = self._workload.waiting_count
            if is_held:
                self._log.info("contact_regained", waiting=waiting)
            else:
                self._log.warning("contact_lost", waiting=waiting)

    def _ask(self, now: float) -> None:
        run_ids = self._contact.question(now)
        if run_ids:
            who = self._identity
            self._log.info("open_runs_asked", count=len(run_ids))
            question = WhichOpen(
                app=who.app, address=who.address, boot_id=who.boot_id, run_ids=run_ids
            )
            self._sender.send(question, valid_seconds=QUESTION_SECONDS)

    def _balance(self) -> None:
        if self._run_inbox is None:
            return
        if self._commits.is_in_trouble or self._outbox.is_full or self._workload.is_heavy:
            self._run_inbox.pause()
        else:
            self._run_inbox.resume()

    def _compact(self) -> None:
        if not self._ledger.is_due_for_compaction or self._commits.is_in_trouble:
            return
        try:
            self._ledger.compact(self._clock.now_ms())
        except JournalFailed as error:
            self._log.error("journal_write_failed", error=str(error))

    # -- what others see ----------------------------------------------------------------------

    def obstacle(self) -> str:
        """Return why nothing can be started now, empty when it can."""
        if self._is_draining:
            return "it is shutting down"
        if self._commits.is_in_trouble:
            return "its journal cannot be written"
        if self._outbox.is_full:
            return "too many of its reports wait for the broker"
        if not self._contact.is_held(self._clock.monotonic()):
            return "it is out of contact"
        return ""

    def _heartbeat(self) -> Heartbeat:
        # Called in the heartbeat's thread: it reads counters, nothing else.
        cpu_percent, memory_percent = self._load.read()
        return Heartbeat(
            app=self._identity.app,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            started_at_ms=self._started_at_ms,
            load=Load(
                cpu_percent=cpu_percent,
                memory_percent=memory_percent,
                slots=self._limits.slots,
                running=self._workload.running_count,
                waiting=self._workload.waiting_count,
            ),
            handlers=self._handlers,
            draining=self._is_draining,
        )

    # -- parts --------------------------------------------------------------------------------

    def _make_workload(self) -> Workload:
        return Workload(
            slots=self._slots,
            ledger=self._ledger,
            commits=self._commits,
            outbox=self._outbox,
            contact=self._contact,
            clock=self._clock,
            log=self._log,
        )

    def _make_intake(self) -> Intake:
        return Intake(
            boot_id=self._identity.boot_id,
            address=self._identity.address,
            handlers=self._handlers,
            ledger=self._ledger,
            workload=self._workload,
            outbox=self._outbox,
            tombstones=self._tombstones,
            clock=self._clock,
            log=self._log,
        )

    def _make_commands(self, read_log: LogReader) -> Commands:
        questions = Questions(
            sender=self._sender,
            ledger=self._ledger,
            workload=self._workload,
            intake=self._intake,
            load=self._load,
            readiness=self,
            cpu_limit=self._limits.cpu_limit,
            memory_limit=self._limits.memory_limit,
            log=self._log,
        )
        return Commands(
            identity=self._identity,
            loop=self._loop,
            workload=self._workload,
            intake=self._intake,
            tombstones=self._tombstones,
            contact=self._contact,
            questions=questions,
            read_log=read_log,
            log=self._log,
        )

    def _make_pulse(self) -> Pulse:
        publisher = self._transport.publisher(f"{self._identity.address} heartbeats")
        return Pulse(
            Sender(self._identity, self._sealer, publisher),
            self._heartbeat,
            partial(self.post, self._heard),
            self._clock.monotonic,
            self._log,
        )

    def _make_command_inbox(self) -> Inbox:
        who = self._identity
        return self._make_inbox(
            "commands",
            command_queue(who.app, who.address, who.boot_id).name,
            Command,
            self._commands_arrived,
        )

    def _make_run_inbox(self) -> Inbox:
        queue = run_queue(self._identity.app, self._identity.address).name
        return self._make_inbox("triggers", queue, Trigger, self._triggers_arrived)

    def _make_inbox(
        self, name: str, queue: str, expect: Any, receive: Callable[[list[Arrival]], None]
    ) -> Inbox:
        consumer = self._transport.consumer(
            f"{self._identity.address} {name}", [queue], prefetch=PREFETCH
        )
        return Inbox(
            name,
            consumer,
            self._sealer,
            address=self._identity.address,
            expect=expect,
            post=partial(self.post, receive),
            log=self._log,
        )

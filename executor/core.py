"""The executor's core: what one boot does when something happens, on one thread and loop.

inbox ──batch──> intake ──> workload ──> ledger ──group commit──> acks, process starts, outbox
slots ──finished──> workload ──^                                                          │
outbox ──confirmed──> ledger  <──────────────────────────────────────────────────────────┘
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from broker.messages import (
    Beat,
    Drain,
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
from broker.topology import HEARTBEAT_KEY, command_queue, run_queue
from broker.transport import Confirm
from executor.assembly import assemble, make_inbox
from executor.errors import JournalFailed
from executor.groupcommit import RETRY_SECONDS
from executor.inbox import Arrival, Inbox
from executor.premises import Premises

#: How often that is looked at which no event tells of.
TICK_SECONDS = 0.25
#: How long our own question is good for.
QUESTION_SECONDS = 10.0
#: How long a goodbye is good for, and how long to wait for the broker's word.
GOODBYE_SECONDS = 60.0
GOODBYE_CONFIRM_SECONDS = 2.0

Command = Welcome | Refused | Beat | IdleBeat | Kill | Know | ReadLog | StillOpen | Drain


class Core:
    """One boot of one executor. Belongs to the loop's thread, but for what says otherwise.

    `on_refused(reason)` is called when another living executor holds the address, `on_drain()`
    each time that somebody asks for an end without haste.
    """

    def __init__(
        self,
        premises: Premises,
        on_refused: Callable[[str], None],
        on_drain: Callable[[], None],
    ) -> None:
        self._premises = premises
        self._on_refused = on_refused
        self._on_drain = on_drain
        self._identity = premises.identity
        self._ledger = premises.ledger
        self._clock = premises.clock
        self._log = premises.log
        self._started_at_ms = premises.clock.now_ms()
        self._was_welcomed = False
        self._was_held = True
        self._is_closed = False
        self._slots_closed: asyncio.Future[None] | None = None
        self._parts = assemble(premises, self)
        self._workload = self._parts.workload
        self._commits = self._parts.commits
        who = premises.identity
        commands = command_queue(who.app, who.address, who.boot_id).name
        self._command_inbox = make_inbox(premises, self, commands, Command, self._obey)
        self._run_inbox: Inbox | None = None

    def start(self) -> None:
        """Show signs of life, and wait for the welcome."""
        self._parts.pulse.start()
        self._command_inbox.start()
        self._tick()
        self._log.info("executor_started", handlers=list(self._parts.handlers))

    def post(self, call: Callable[..., None], *values: Any) -> None:
        """Have something done on the core's thread; thread-safe, nothing once it has ended."""
        with contextlib.suppress(RuntimeError):
            self._premises.loop.call_soon_threadsafe(call, *values)

    # -- what the roles tell ------------------------------------------------------------------

    def run_started(self, run_id: int, _started_at_ms: int) -> None:
        """Note that a run's process is at work."""
        self._workload.started(run_id)

    def run_finished(self, finished: Finished) -> None:
        """Note that a run is over."""
        self._workload.finished(finished)

    def slots_ready(self) -> None:
        """Note that slots are free again."""
        self._workload.pump()

    def journal_changed(self, is_in_trouble: bool) -> None:
        """Note that the journal cannot be written, or can again."""
        self._balance()
        if not is_in_trouble:
            self._workload.pump()

    def reports_confirmed(self, run_ids: tuple[int, ...]) -> None:
        """Note that the broker has the reports of these runs."""
        # Not worth a sync of its own: it rides along with the next group, or the next tick.
        self._ledger.confirm(run_ids, self._clock.now_ms())

    def heard(self, sent_at: float) -> None:
        """Note that the broker took a heartbeat sent at `sent_at`, monotonic."""
        now = self._clock.monotonic()
        self._parts.contact.confirm(sent_at, now, self._workload.waiting_ids())
        self._ask(now)
        self._workload.pump()

    def compose_heartbeat(self) -> Heartbeat:
        """Return the heartbeat of now; called in another thread, so it reads counters only."""
        cpu_percent, memory_percent = self._parts.load.read()
        return Heartbeat(
            app=self._identity.app,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            started_at_ms=self._started_at_ms,
            load=Load(
                cpu_percent=cpu_percent,
                memory_percent=memory_percent,
                slots=self._premises.limits.slots,
                running=self._workload.running_count,
                waiting=self._workload.waiting_count,
            ),
            handlers=tuple(self._parts.handlers),
            draining=self._parts.readiness.is_draining,
        )

    # -- what arrives -------------------------------------------------------------------------

    def _obey(self, arrivals: list[Arrival]) -> None:
        for arrival in arrivals:
            message = arrival.message
            if arrival.is_expired or self._is_closed:
                continue
            if isinstance(message, Welcome):
                self._welcome(message, arrival.cluster)
            elif isinstance(message, Refused):
                self._refused(message)
            elif isinstance(message, Drain):
                self._drain(message)
            elif self._was_welcomed:
                self._parts.commands.obey(message)
        self._command_inbox.ack([arrival.delivery for arrival in arrivals])

    def _take(self, arrivals: list[Arrival]) -> None:
        inbox = self._run_inbox
        if inbox is None or self._is_closed:
            return
        self._parts.intake.receive(arrivals)
        self._workload.pump()
        self._commits.when_durable(partial(inbox.ack, [arrival.delivery for arrival in arrivals]))
        self._balance()

    # -- welcome ------------------------------------------------------------------------------

    def _welcome(self, welcome: Welcome, cluster: str) -> None:
        if welcome.boot_id != self._identity.boot_id or not cluster:
            return
        self._clock.set(welcome.now_ms)
        if self._was_welcomed:
            return
        self._was_welcomed = True
        self._premises.sealer.pin(cluster)
        self._log.info("executor_welcomed", cluster=cluster)
        self._parts.pulse.welcome()
        self._begin()

    def _begin(self) -> None:
        if self._is_closed:
            return
        try:
            unsaid = self._ledger.begin(self._identity.boot_id, self._clock.now_ms())
        except JournalFailed as error:
            self._premises.loop.call_later(RETRY_SECONDS, self._begin)
            self._log.error("journal_write_failed", error=str(error))
            return
        for report, size in unsaid:
            self._parts.outbox.add(report, size)
        if unsaid:
            self._log.warning("earlier_runs_reported", count=len(unsaid))
        self._parts.outbox.start()
        if not self._parts.readiness.is_draining:
            queue = run_queue(self._identity.app, self._identity.address).name
            self._run_inbox = make_inbox(self._premises, self, queue, Trigger, self._take)
            self._run_inbox.start()

    def _refused(self, refused: Refused) -> None:
        if refused.boot_id == self._identity.boot_id:
            self._on_refused(refused.reason)

    def _drain(self, drain: Drain) -> None:
        if drain.boot_id == self._identity.boot_id:
            self._on_drain()

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
        if self._ledger.has_uncommitted:
            self._commits.schedule()
        self._premises.loop.call_later(TICK_SECONDS, self._tick)

    def _watch_contact(self, now: float) -> None:
        is_held = self._parts.contact.is_held(now)
        if is_held == self._was_held:
            return
        self._was_held = is_held
        if is_held:
            self._log.info("contact_regained", waiting=self._workload.waiting_count)
        else:
            self._parts.pulse.beat_now()
            self._log.warning("contact_lost", waiting=self._workload.waiting_count)

    def _ask(self, now: float) -> None:
        run_ids = self._parts.contact.question(now)
        if not run_ids:
            return
        self._log.info("open_runs_asked", count=len(run_ids))
        who = self._identity
        question = WhichOpen(app=who.app, address=who.address, boot_id=who.boot_id, run_ids=run_ids)
        self._parts.sender.send(question, valid_seconds=QUESTION_SECONDS)

    def _balance(self) -> None:
        if self._run_inbox is None:
            return
        if self._parts.readiness.may_take and not self._workload.is_heavy:
            self._run_inbox.resume()
        else:
            self._run_inbox.pause()

    def _compact(self) -> None:
        if not self._ledger.is_due_for_compaction or self._commits.is_in_trouble:
            return
        try:
            self._ledger.compact(self._clock.now_ms())
        except JournalFailed as error:
            self._log.error("journal_write_failed", error=str(error))

    # -- the end, step by step (see `shutdown`) -----------------------------------------------

    @property
    def is_taking(self) -> bool:
        """Whether it was welcomed and takes triggers."""
        return self._run_inbox is not None

    @property
    def is_working(self) -> bool:
        """Whether a run is at work."""
        return self._workload.running_count > 0

    @property
    def has_processes(self) -> bool:
        """Whether processes are left that were told to end."""
        return self._slots_closed is not None and not self._slots_closed.done()

    @property
    def has_unsaid(self) -> bool:
        """Whether reports wait for the broker's word."""
        return self._was_welcomed and not self._parts.outbox.is_empty

    def begin_draining(self) -> None:
        """Take nothing more, and give back what waits."""
        self._parts.readiness.is_draining = True
        self._parts.pulse.beat_now()
        self._workload.return_waiting("the executor is shutting down")

    def stop_runs(self) -> None:
        """End every run that is at work."""
        self._workload.stop_all("executor is shutting down")

    def stop_taking(self) -> None:
        """Let go of the run queue and of the job processes."""
        if self._run_inbox is not None:
            self._run_inbox.close()
        self._slots_closed = self._parts.slots.close(self._premises.limits.grace_seconds)

    def close(self) -> None:
        """Say goodbye when nothing is left to be said or done, and let go of everything."""
        is_clean = not self.is_working and not self.has_unsaid
        self._parts.pulse.close()
        self._parts.outbox.close()
        if is_clean and self._was_welcomed:
            self._say_goodbye()
        self._is_closed = True
        self._command_inbox.close()
        self._parts.publisher.close()
        self._commits.commit()
        self._log.info("executor_stopped", clean=is_clean, **self.counts())

    def counts(self) -> dict[str, int]:
        """Return how many triggers were taken, answered or rejected, by what they were."""
        inbox = self._run_inbox
        return {**self._parts.intake.counts, **(inbox.rejected if inbox else {})}

    def _say_goodbye(self) -> None:
        who = self._identity
        goodbye = Goodbye(app=who.app, address=who.address, boot_id=who.boot_id)
        batch = self._parts.sender.send(goodbye, key=HEARTBEAT_KEY, valid_seconds=GOODBYE_SECONDS)
        if batch.wait(GOODBYE_CONFIRM_SECONDS)[0] is not Confirm.CONFIRMED:
            self._log.warning("goodbye_unconfirmed")

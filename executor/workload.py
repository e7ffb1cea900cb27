"""The runs of this boot: those that wait in lanes and those that run in slots.

admit ──> WAITING ──slot free, contact held──> STARTING ──STARTING is durable──> RUNNING ──> over
             │                                     └──was reserved: it is written──┘ │
             └──────────── killed, covered, drained ─────────────────────────────────┘
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

import structlog

from broker.messages import Finished, Outcome, Started, Trigger
from executor import reports
from executor.admission import Cover, Refuse
from executor.clock import SchedulerClock
from executor.contact import Contact
from executor.errors import JournalFailed
from executor.groupcommit import GroupCommit
from executor.lanes import Lanes
from executor.ledger import Ledger
from executor.outbox import Outbox
from executor.readiness import Readiness
from executor.records import Final
from executor.slotpool import SlotPool

#: A run that ends sooner sends no Started.
STARTED_SECONDS = 0.5
#: Runs that wait, in all lanes, and bytes of their triggers, from which on no more are wanted.
WAITING_LIMIT = 20_000
WAITING_BYTES = 64_000_000


#: Runs whose start is made durable before there is a slot for them, so that no slot waits for the
#: disk: how many at most, how few bring new ones, and how many of one lane. After a crash of the
#: host, and of nothing less, those that had not started count as lost.
RESERVED_LIMIT, RESERVED_LOW, RESERVED_DEPTH = 64, 32, 4


class _Phase(Enum):
    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()


@dataclass(slots=True)
class _Run:
    trigger: Trigger
    size: int
    phase: _Phase = _Phase.WAITING
    is_to_reserve: bool = False
    is_reserved: bool = False
    started_at_ms: int = 0
    stop_reason: str = ""


class Workload:
    """Admits, starts, stops and finishes runs. Used from the core thread."""

    def __init__(
        self,
        *,
        slots: SlotPool,
        ledger: Ledger,
        commits: GroupCommit,
        outbox: Outbox,
        contact: Contact,
        readiness: Readiness,
        clock: SchedulerClock,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._slots = slots
        self._ledger = ledger
        self._commits = commits
        self._outbox = outbox
        self._contact = contact
        self._readiness = readiness
        self._clock = clock
        self._log = log
        self._lanes = Lanes()
        self._runs: dict[int, _Run] = {}
        self._claimed = 0
        self._reserved_count = 0
        self._waiting_bytes = 0
        self._young: deque[tuple[float, int]] = deque()

    # -- what is here -------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """How many runs wait."""
        return self._lanes.waiting_count

    @property
    def running_count(self) -> int:
        """How many runs are at work or about to be."""
        return len(self._runs) - self._lanes.waiting_count

    @property
    def free_slots(self) -> int:
        """How many runs could be started now."""
        return max(0, self._slots.free - self._claimed)

    @property
    def is_heavy(self) -> bool:
        """Whether what waits takes so much memory that triggers should stay with the broker."""
        return self._waiting_bytes >= WAITING_BYTES

    def has_job(self, job_id: int) -> bool:
        """Whether a run of the job runs or waits here."""
        return self._lanes.has(job_id)

    def is_running(self, run_id: int) -> bool | None:
        """Whether a run is at work (True) or waits (False); None when it is not here."""
        run = self._runs.get(run_id)
        return None if run is None else run.phase is not _Phase.WAITING

    def waiting_ids(self) -> list[int]:
        """Return the runs that wait."""
        return [run_id for run_id, run in self._runs.items() if run.phase is _Phase.WAITING]

    # -- coming in ----------------------------------------------------------------------------

    def admit(self, trigger: Trigger, size: int) -> None:
        """Take a run that is new here, of `size` bytes; refuse it where its lane says so."""
        if self.waiting_count >= WAITING_LIMIT:
            self.refuse(trigger, f"{WAITING_LIMIT} runs wait on this executor already")
            return
        decision = self._lanes.offer(trigger)
        if isinstance(decision, Refuse):
            self.refuse(trigger, decision.reason)
            return
        self._runs[trigger.run_id] = _Run(trigger, size)
        self._waiting_bytes += size
        self._ledger.accept(trigger.run_id)
        now = self._clock.monotonic()
        age_seconds = (self._clock.now_ms() - trigger.routed_at_ms) / 1000
        self._contact.arrive(trigger.run_id, now - age_seconds, now)
        if isinstance(decision, Cover):
            for run_id in (*decision.drop, *decision.kill):
                self.stop(run_id, f"covered by run {trigger.run_id}")

    def refuse(self, trigger: Trigger, reason: str, outcome: Outcome = Outcome.REFUSED) -> None:
        """Report the end of a run that never was taken."""
        self._log.info(
            "run_refused", run_id=trigger.run_id, job_id=trigger.job_id, outcome=outcome, why=reason
        )
        self.report(reports.end_of(trigger, outcome, reason, self._clock.now_ms()))

    # -- at work ------------------------------------------------------------------------------

    def pump(self) -> None:
        """Start what may be started now, and make ready what comes next."""
        if not self._readiness.may_start:
            return
        reserved = []
        while self.free_slots and (trigger := self._lanes.next()) is not None:
            run = self._runs[trigger.run_id]
            self._leave_waiting(run)
            run.phase = _Phase.STARTING
            run.started_at_ms = self._clock.now_ms()
            self._claimed += 1
            self._ledger.start(trigger.run_id, run.started_at_ms)
            if run.is_reserved:
                reserved.append(run)
            else:
                self._commits.when_durable(partial(self._launch, run))
        if reserved:
            self._launch_reserved(reserved)
        self._reserve()

    def started(self, run_id: int) -> None:
        """Note that a run's process is at work."""
        run = self._runs.get(run_id)
        if run is not None:
            run.started_at_ms = self._clock.now_ms()
            self._young.append((self._clock.monotonic() + STARTED_SECONDS, run_id))

    def finished(self, finished: Finished) -> None:
        """Note and report that a run that was started is over."""
        run = self._runs.pop(finished.run_id, None)
        if run is None:
            self._log.error("unknown_run_finished", run_id=finished.run_id)
            return
        self._lanes.finish(run.trigger.job_id, finished.run_id)
        self.report(reports.stamped(finished, run.trigger, run.started_at_ms, self._clock.now_ms()))
        self.pump()

    def tell_started(self) -> None:
        """Report the runs that have been at work for STARTED_SECONDS."""
        now = self._clock.monotonic()
        while self._young and self._young[0][0] <= now:
            self.repeat_started(self._young.popleft()[1])

    def repeat_started(self, run_id: int) -> None:
        """Report once more that a run is at work, if it is."""
        run = self._runs.get(run_id)
        if run is not None and run.phase is _Phase.RUNNING:
            started = Started(
                run_id=run_id, boot_id=run.trigger.boot_id, started_at_ms=run.started_at_ms
            )
            self._outbox.add(started, 100)

    # -- going out ----------------------------------------------------------------------------

    def stop(self, run_id: int, reason: str) -> bool:
        """End a run, KILLED with this reason; False when it is not here."""
        run = self._runs.get(run_id)
        if run is None:
            return False
        if run.phase is _Phase.WAITING:
            self._drop(run)
            self.report(reports.end_of(run.trigger, Outcome.KILLED, reason, self._clock.now_ms()))
            return True
        self._lanes.mark_stopping(run.trigger.job_id, run_id)
        run.stop_reason = run.stop_reason or reason
        if run.phase is _Phase.RUNNING:
            self._slots.stop(run_id, reason)
        return True

    def stop_all(self, reason: str) -> None:
        """End every run that is at work."""
        for run_id, run in list(self._runs.items()):
            if run.phase is not _Phase.WAITING:
                self.stop(run_id, reason)

    def return_waiting(self, reason: str) -> None:
        """Report every run that waits as not started."""
        for run_id in self.waiting_ids():
            run = self._runs[run_id]
            self._drop(run)
            self.report(reports.not_started(run.trigger, reason))

    def forget_closed(self, run_ids: set[int]) -> None:
        """Drop those of these runs that wait: the schedulers have ended them themselves."""
        for run_id in run_ids:
            run = self._runs.get(run_id)
            if run is None or run.phase is not _Phase.WAITING:
                continue
            self._log.info("run_dropped", run_id=run_id, job_id=run.trigger.job_id)
            self._drop(run)
            reason = "it was ended while contact was lost"
            self._ledger.finish(reports.not_started(run.trigger, reason))
            self._ledger.confirm((run_id,), self._clock.now_ms())
            self._commits.schedule()

    def report(self, report: Final) -> None:
        """Note a run's end and send it once that was tried to be made durable."""
        fit, size = self._ledger.finish(report)
        self._commits.once_tried(partial(self._outbox.add, fit, size))

    # -- inside -------------------------------------------------------------------------------

    def _reserve(self) -> None:
        """See to it that enough of what comes next can start without waiting for the disk."""
        if self._reserved_count > RESERVED_LOW or not self._lanes.waiting_count:
            return
        fresh = []
        for run_id in self._lanes.upcoming(RESERVED_DEPTH):
            run = self._runs[run_id]
            if not run.is_to_reserve:
                run.is_to_reserve = True
                self._reserved_count += 1
                fresh.append(run)
            if self._reserved_count >= RESERVED_LIMIT:
                break
        if fresh:
            self._ledger.reserve(tuple(run.trigger.run_id for run in fresh))
            self._commits.when_durable(partial(_mark_reserved, fresh))

    def _launch_reserved(self, runs: list[_Run]) -> None:
        try:
            self._ledger.write()
        except JournalFailed:
            for run in runs:
                self._commits.when_durable(partial(self._launch, run))
            return
        for run in runs:
            self._launch(run)
        self._commits.schedule()

    def _launch(self, run: _Run) -> None:
        self._claimed -= 1
        trigger = run.trigger
        if run.stop_reason:
            self._abandon(
                run, reports.end_of(trigger, Outcome.KILLED, run.stop_reason, self._clock.now_ms())
            )
            return
        if not self._slots.free:
            reason = "its slot was gone before it started"
            self._abandon(run, reports.not_started(trigger, reason))
            return
        run.phase = _Phase.RUNNING
        try:
            self._slots.start(trigger)
        except Exception as error:  # noqa: BLE001 - the run ends with the reason
            self._log.exception("run_start_failed", run_id=trigger.run_id, job_id=trigger.job_id)
            reason = f"cannot start its process: {error}"
            self._abandon(
                run, reports.end_of(trigger, Outcome.FAILED, reason, self._clock.now_ms())
            )

    def _abandon(self, run: _Run, report: Final) -> None:
        del self._runs[run.trigger.run_id]
        self._lanes.finish(run.trigger.job_id, run.trigger.run_id)
        self.report(report)
        self._commits.when_durable(self.pump)

    def _drop(self, run: _Run) -> None:
        del self._runs[run.trigger.run_id]
        self._lanes.drop(run.trigger.job_id, run.trigger.run_id)
        self._contact.forget(run.trigger.run_id)
        self._leave_waiting(run)

    def _leave_waiting(self, run: _Run) -> None:
        self._waiting_bytes -= run.size
        self._reserved_count -= run.is_to_reserve


def _mark_reserved(runs: list[_Run]) -> None:
    for run in runs:
        run.is_reserved = True

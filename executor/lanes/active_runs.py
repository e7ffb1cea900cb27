"""The active runs of this boot: those that wait in lanes and those that run in slots.

`ActiveRuns.LIFE`, at its end, says which events a run may have, and their effects: its methods.

The starts of the next runs are made durable in advance, so that no slot waits for the disk. After a
crash of the host, and only then, reserved runs that had not started count as lost.

Starts are reported only for runs that last a while.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import ClassVar, Protocol

import msgspec

from warren.broker.messages import Finished, LogPlaces, NotStarted, Outcome, Trigger
from warren.broker.reasons import Why, Words
from warren.executor.boot_context import BootContext
from warren.executor.errors import JournalFailed
from warren.executor.journal.file import Final, Starting
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.journal.run_states import RunStates
from warren.executor.lanes.lanes import Cover, Full, Lanes, Refuse
from warren.executor.lanes.readiness import Contact, Readiness
from warren.executor.lanes.reporting import Reporting
from warren.executor.processes.interface import SlotPool
from warren.executor.run_life import Event, Phase, Stop, cut_off, killed

#: The most reserved runs of one lane.
RESERVED_DEPTH = 8
#: A run that ends sooner than this sends no Started.
STARTED_SECONDS = 0.5


@dataclass(slots=True)
class ActiveRun:
    """A run, whose trigger has `size` bytes. `started_at_ms` is 0 while it waits.

    `batch` are the runs given to its process at once, if several. The rest explains its phase: why
    it was to `stop`, why the slots could not take it, and its `end`.
    """

    trigger: Trigger
    size: int
    phase: Phase = Phase.WAITING
    started_at_ms: int = 0
    batch: Sequence[Trigger] = ()
    stop: Stop | None = None
    fault: Words = ""
    end: Final | None = None

    def starting(self, host_at_ms: int | None) -> Starting:
        """Return its start for the journal.

        If the host's time is given, the run is remote, and the next process can continue it.
        """
        if host_at_ms is None:
            return Starting(run_id=self.trigger.run_id, at_ms=self.started_at_ms)
        return Starting(
            run_id=self.trigger.run_id,
            at_ms=self.started_at_ms,
            trigger=msgspec.structs.replace(self.trigger, param="", script_source=""),
            host_at_ms=host_at_ms,
        )


Effect = Callable[["ActiveRuns", ActiveRun], None]


class Reservations:
    """The waiting runs that are reserved: up to `limit`. Used from the core thread."""

    def __init__(
        self,
        lanes: Lanes,
        run_states: RunStates,
        commits: GroupCommit,
        *,
        limit: int,
        slots: SlotPool,
    ) -> None:
        self._limit = limit
        self._lanes = lanes
        self._run_states = run_states
        self._commits = commits
        self._slots = slots
        #: The reserved runs; True once that is durable.
        self._runs: dict[int, bool] = {}

    def release(self, run_id: int) -> None:
        """Forget a run that no longer waits."""
        self._runs.pop(run_id, None)

    def is_durable(self, run_id: int) -> bool:
        """Whether a waiting run could start without waiting for the disk."""
        return self._runs.get(run_id, False)

    def restore(self, run_id: int) -> None:
        """Restore the durable reservation of a run that waits again."""
        self._runs[run_id] = True

    def renew(self) -> None:
        """Reserve the next runs once half of the limit is free, so that no start has to wait."""
        if len(self._runs) > self._limit // 2 or not self._lanes.waiting_count:
            return
        fresh = []
        for run_id in self._lanes.upcoming(RESERVED_DEPTH):
            if run_id not in self._runs:
                self._runs[run_id] = False
                fresh.append(run_id)
            if len(self._runs) >= self._limit:
                break
        if fresh:
            self._run_states.reserve(tuple(fresh))
            self._commits.when_durable(partial(self._mark_durable, fresh))

    def batch_of(self, head: Trigger) -> list[Trigger]:
        """Return the runs that one process may be given at once, this one first.

        They are of the same job or, if its process serves a handler, of other jobs: those that are
        next, which the lanes then hold back.
        """
        owner = self._slots.owner_of(head)
        size = 1 if owner is None else self._slots.batch_size(owner)
        if owner is None or size <= 1 or head.concurrency > 1:
            return [head]

        def fits(trigger: Trigger) -> bool:
            is_like = trigger.concurrency <= 1 and self._slots.owner_of(trigger) == owner
            return is_like and self.is_durable(trigger.run_id)

        batch = [head, *takewhile(fits, self._lanes.following(head.job_id, size - 1))]
        if owner.job_id is None:
            batch += self._lanes.assign_early(size - len(batch), fits)
        return batch

    def _mark_durable(self, run_ids: list[int]) -> None:
        for run_id in run_ids:
            if run_id in self._runs:
                self._runs[run_id] = True


# Protocols, because what does it is imported only where it is set up.
class LogFollower(Protocol):
    """Prints what runs write; `LogPrinter` does."""

    def begin(self, trigger: Trigger) -> None:
        """Follow the log of a run that starts."""

    def end(self, trigger: Trigger) -> None:
        """Print what is left of the log of a run that has ended."""

    def close(self) -> None:
        """Print what is left, for a moment."""


class LogKeeper(Protocol):
    """Stores logs in the background; `LogUploads` does."""

    @property
    def count(self) -> int:
        """How many logs wait."""

    @property
    def is_storing(self) -> bool:
        """Whether logs wait, and are being stored at present."""

    @property
    def fault(self) -> str:
        """Why logs do not get into the store; "" if they do."""

    def told(self, *, has_store: bool) -> None:
        """Note whether a scheduler has a log store."""

    def begin(self, trigger: Trigger) -> None:
        """Note that a run starts."""

    def end(self, trigger: Trigger, *, has_log: bool) -> None:
        """Note that a run has ended."""

    def take(self, message: LogPlaces) -> None:
        """Take the schedulers' answer."""

    def close(self) -> None:
        """Leave the rest to the next boot."""


class ActiveRuns:
    """Admits, starts, stops and finishes runs. Used from the core thread."""

    def __init__(
        self,
        context: BootContext,
        *,
        slots: SlotPool,
        commits: GroupCommit,
        contact: Contact,
        readiness: Readiness,
        reporting: Reporting,
    ) -> None:
        self._run_states = context.run_states
        self._clock = context.clock
        self._loop = context.loop
        self._log = context.log
        self._slots = slots
        self._commits = commits
        self._contact = contact
        self._readiness = readiness
        self._reporting = reporting
        self._limits = context.limits
        self._lanes = Lanes(context.limits.lane_runs)
        self._runs: dict[int, ActiveRun] = {}
        self._reservations = Reservations(
            self._lanes,
            context.run_states,
            commits,
            limit=context.limits.reserved_runs,
            slots=slots,
        )
        #: How many runs are about to enter a slot, and those of them that only need a write.
        self._starting_count = 0
        self._reserved: list[ActiveRun] = []
        self._waiting_bytes = 0
        #: When to report which starts.
        self._due_starts: deque[tuple[float, int]] = deque()
        #: Whether running runs are left to the next process.
        self.is_leaving = False
        #: Stores logs; None = there is no log store.
        self.log_keeper: LogKeeper | None = None
        #: Prints logs; None = nobody asked for it.
        self.log_printer: LogFollower | None = None

    # -- what is here -------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no run waits, starts or runs."""
        return not self._runs

    @property
    def waiting_count(self) -> int:
        return self._lanes.waiting_count

    @property
    def running_count(self) -> int:
        """How many runs are running or starting; about that many if another thread asks."""
        return max(0, len(self._runs) - self._lanes.waiting_count)

    @property
    def is_working(self) -> bool:
        """Whether shutdown waits for runs; a leaving executor does not wait for remote ones."""
        return self._starting_count > 0 if self.is_leaving else self.running_count > 0

    @property
    def free_slots(self) -> int:
        """How many runs could be started now."""
        return max(0, self._slots.free - self._starting_count)

    @property
    def is_heavy(self) -> bool:
        """Whether waiting runs use so much memory that triggers should stay with the broker."""
        return self._waiting_bytes >= self._limits.waiting_bytes

    def has_job(self, job_id: int) -> bool:
        """Whether a run of the job is running or waiting here."""
        return self._lanes.has(job_id)

    def is_running(self, run_id: int) -> bool | None:
        """Whether a run is running (True) or waiting (False); None if it is not here."""
        run = self._runs.get(run_id)
        return None if run is None else run.phase is not Phase.WAITING

    def running(self, run_id: int) -> ActiveRun | None:
        """Return a run that has a slot; None if it has none."""
        run = self._runs.get(run_id)
        return run if run is not None and run.phase.has_slot else None

    def waiting_ids(self) -> list[int]:
        """Return the ids of the runs that wait in lanes."""
        return [run_id for run_id, run in self._runs.items() if run.phase is Phase.WAITING]

    # -- coming in ----------------------------------------------------------------------------

    def admit(self, trigger: Trigger, size: int) -> None:
        """Take a new run of `size` bytes, unless its lane refuses it or is full."""
        limit = self._limits.waiting_runs
        if self.waiting_count >= limit:
            self._reporting.send_back(trigger, Why.EXECUTOR_FULL(n=limit), is_full=True)
            return
        decision = self._lanes.offer(trigger)
        if isinstance(decision, Full):
            self._reporting.send_back(trigger, decision.reason, is_full=True)
            return
        if isinstance(decision, Refuse):
            self._reporting.refuse(trigger, decision.reason)
            return
        self._runs[trigger.run_id] = ActiveRun(trigger, size)
        self._waiting_bytes += size
        self._run_states.accept(trigger.run_id, trigger.identity)
        now = self._clock.monotonic()
        age_seconds = (self._clock.now_ms() - trigger.routed_at_ms) / 1000
        self._contact.arrive(trigger.run_id, now - age_seconds, now)
        if isinstance(decision, Cover):
            for run_id in (*decision.drop, *decision.kill):
                self.stop(run_id, Why.COVERED(id=trigger.run_id))

    # -- running ------------------------------------------------------------------------------

    def start_ready(self) -> None:
        """Start the runs that may start now, and reserve those that come next."""
        if not self._readiness.may_start:
            return
        while self.free_slots and (trigger := self._lanes.next()) is not None:
            is_reserved = self._reservations.is_durable(trigger.run_id)
            event = Event.LET_GO_RESERVED if is_reserved else Event.LET_GO
            self._apply(event, self._runs[trigger.run_id])
        self._launch_reserved()
        self._reservations.renew()

    def _launch_reserved(self) -> None:
        """Start the reserved runs that may start now, each with those assigned early with it."""
        if not self._reserved:
            return
        runs, self._reserved = self._reserved, []
        for run in runs:
            run.batch = self._reservations.batch_of(run.trigger)
            if len(run.batch) > 1:
                self._run_states.hand_over(tuple(trigger.run_id for trigger in run.batch))
        try:
            self._run_states.write()
        except JournalFailed:
            for run in runs:
                self._hand_back(run.batch[1:])
                run.batch = ()
                self._start_once_durable(run)
            return
        for run in runs:
            followers = run.batch[1:]
            self._launch(run)
            self._hand_back(followers)
        self._commits.schedule()

    def _hand_back(self, triggers: Sequence[Trigger]) -> None:
        """Put runs that were not assigned early back into their lanes."""
        for trigger in triggers:
            if not self._slots.is_assigned_early(trigger.run_id):
                self._lanes.hand_back(trigger)

    def _launch(self, run: ActiveRun) -> None:
        self._starting_count -= 1
        self._apply(Event.DURABLE if self._slots.free else Event.SLOT_GONE, run)

    def moved(self, run_id: int, event: Event) -> None:
        """Record a slot's event about a run: STARTED, REACHED, NOT_BEGUN or HANDED_BACK."""
        run = self._runs.get(run_id)
        if run is not None:
            self._apply(event, run)
        elif event is not Event.STARTED:
            self._log.error("unknown_run_reached", run_id=run_id)

    def finished(self, end: Finished | NotStarted, on_recorded: Callable[[], None] | None) -> None:
        """Record and report the end of a started run; call `on_recorded` once it is durable.

        The caller starts what may start in its place.
        """
        run = self._runs.get(end.run_id)
        if run is None:
            self._log.error("unknown_run_finished", run_id=end.run_id)
            return
        run.end = end
        self._apply(Event.ENDED, run)
        if on_recorded is not None:
            self._commits.when_durable(on_recorded)

    def report_starts(self) -> None:
        """Report the starts that are due; a run not known to have begun waits as long again.

        One that is only assumed to have begun is not reported, because a run reported as started
        can no longer be sent to another executor.
        """
        now = self._clock.monotonic()
        while self._due_starts and self._due_starts[0][0] <= now:
            _, run_id = self._due_starts.popleft()
            if self.running(run_id) is not None and not self._slots.has_begun(run_id):
                self._report_start_later(run_id)
            else:
                self.report_start(run_id)

    def report_start(self, run_id: int) -> None:
        """Report a start, perhaps again, if the run is running and is known to have begun."""
        run = self.running(run_id)
        if run is not None and self._slots.has_begun(run_id):
            self._reporting.started(run.trigger, run.started_at_ms)

    def _report_start_later(self, run_id: int) -> None:
        """Report this start in STARTED_SECONDS, if the run is still running then."""
        self._due_starts.append((self._clock.monotonic() + STARTED_SECONDS, run_id))

    def resume(self, starts: Iterable[Starting]) -> None:
        """Continue remote runs that another process started."""
        for starting in starts:
            trigger, at_ms = starting.trigger, starting.at_ms
            if trigger is None or trigger.run_id in self._runs:
                continue
            run = ActiveRun(trigger, 0, Phase.RUNNING, started_at_ms=at_ms)
            self._runs[trigger.run_id] = run
            self._lanes.resume(trigger)
            # By the host's clock: the scheduler's is not known before a welcome.
            age_ms = max(0, self._clock.host_ms() - starting.host_at_ms)
            self._slots.resume(trigger, at_ms, age_ms / 1000)

    # -- going out ----------------------------------------------------------------------------

    def stop(self, run_id: int, why: Words) -> bool:
        """End a run, KILLED for this reason; return False if it is not here."""
        run = self._reclaim(run_id)
        if run is not None:
            self._stop(run, killed(why))
        return run is not None

    def cut_off(self) -> None:
        """End every running run because the executor shuts down: FAILED, so that it is retried.

        Remote runs are left to the next process; those that are starting do not start.
        """
        self.is_leaving = self._slots.is_remote
        self._slots.recall_all()
        for run in list(self._runs.values()):
            is_left = self.is_leaving and run.phase.has_slot
            if run.phase is not Phase.WAITING and not is_left:
                self._stop(run, cut_off())

    def return_waiting(self, why: Words) -> None:
        """Report every waiting run as not started, unless its process may have begun it."""
        self._slots.recall_all()
        for run_id in self.waiting_ids():
            run = self._reclaim(run_id)
            if run is not None and run.phase is Phase.WAITING:
                self._stop(run, Stop(Outcome.FAILED, why))  # another executor gets it

    def forget_closed(self, run_ids: set[int]) -> None:
        """Drop those of these runs that wait: the schedulers have already ended them."""
        for run_id in run_ids:
            run = self._reclaim(run_id)
            if run is not None and run.phase is Phase.WAITING:
                self._apply(Event.CLOSED, run)

    # -- events -------------------------------------------------------------------------------

    def _apply(self, event: Event, run: ActiveRun) -> None:
        run.phase, effects = self.LIFE[run.phase][event]
        if run.phase is Phase.GONE:
            del self._runs[run.trigger.run_id]
        for effect in effects:
            effect(self, run)

    def _stop(self, run: ActiveRun, stop: Stop) -> None:
        run.stop = run.stop or stop
        self._apply(Event.STOP, run)

    def _reclaim(self, run_id: int) -> ActiveRun | None:
        """Take a run back from its process; return it unless it has ended or begun there."""
        run = self._runs.get(run_id)
        is_here = run is not None and self._slots.recall(run_id) and self._runs.get(run_id) is run
        return run if is_here else None

    # -- the effects --------------------------------------------------------------------------

    def _stop_waiting(self, run: ActiveRun) -> None:
        self._waiting_bytes -= run.size
        self._reservations.release(run.trigger.run_id)

    def _record_start(self, run: ActiveRun) -> None:
        self._starting_count += 1
        run.started_at_ms = self._clock.now_ms()
        self._begin_log(run)
        host_at_ms = self._clock.host_ms() if self._slots.is_remote else None
        self._run_states.start(run.starting(host_at_ms))

    def _start_once_durable(self, run: ActiveRun) -> None:
        self._commits.when_durable(partial(self._launch, run))

    def _start_once_written(self, run: ActiveRun) -> None:
        self._reserved.append(run)

    def _enter_slot(self, run: ActiveRun) -> None:
        trigger, batch, run.batch = run.trigger, run.batch or (run.trigger,), ()
        try:
            self._slots.start(*batch)
        except Exception as error:  # noqa: BLE001 - the run ends with the reason
            self._log.exception("run_start_failed", run_id=trigger.run_id, job_id=trigger.job_id)
            run.fault = Why.START_FAILED(fault=str(error))
            self._apply(Event.NOT_TAKEN, run)

    def _run_in_lane(self, run: ActiveRun) -> None:
        self._lanes.advance(run.trigger.job_id, run.trigger.run_id)

    def _note_start(self, run: ActiveRun) -> None:
        self._begin_log(run)
        run.started_at_ms = self._clock.now_ms()
        self._report_start_later(run.trigger.run_id)

    def _wait_again(self, run: ActiveRun) -> None:
        run.started_at_ms = 0
        self._lanes.give_back(run.trigger)
        self._waiting_bytes += run.size
        self._reservations.restore(run.trigger.run_id)
        self._loop.call_soon(self.start_ready)

    def _queue_again(self, run: ActiveRun) -> None:
        self._lanes.hand_back(run.trigger)
        if self.free_slots:
            self._loop.call_soon(self.start_ready)

    def _mark_stopping(self, run: ActiveRun) -> None:
        self._lanes.mark_stopping(run.trigger.job_id, run.trigger.run_id)

    def _stop_in_slot(self, run: ActiveRun) -> None:
        assert run.stop is not None
        if run.stop.outcome is Outcome.KILLED:
            self._slots.stop(run.trigger.run_id, run.stop.words)
        else:
            self._slots.cut_off(run.trigger.run_id)

    def _drop_from_lane(self, run: ActiveRun) -> None:
        self._lanes.drop(run.trigger.job_id, run.trigger.run_id)
        self._contact.forget(run.trigger.run_id)
        self._stop_waiting(run)

    def _leave_unstarted(self, run: ActiveRun) -> None:
        self._leave_lane(run)
        self._commits.when_durable(self.start_ready)

    def _leave_lane(self, run: ActiveRun) -> None:
        self._end_log(run)
        self._lanes.finish(run.trigger.job_id, run.trigger.run_id)

    def _begin_log(self, run: ActiveRun) -> None:
        if self.log_keeper is not None:
            self.log_keeper.begin(run.trigger)
        if self.log_printer is not None:
            self.log_printer.begin(run.trigger)

    def _end_log(self, run: ActiveRun) -> None:
        if self.log_keeper is not None:
            has_log = isinstance(run.end, Finished) and bool(run.end.log_tail)
            self.log_keeper.end(run.trigger, has_log=has_log)
        if self.log_printer is not None:
            self.log_printer.end(run.trigger)

    def _report_stop(self, run: ActiveRun) -> None:
        assert run.stop is not None
        self._reporting.stopped_before_start(run.trigger, run.stop)

    def _report_slot_gone(self, run: ActiveRun) -> None:
        self._reporting.not_started(run.trigger, Why.SLOT_GONE())

    def _report_fault(self, run: ActiveRun) -> None:
        self._reporting.end(run.trigger, Outcome.FAILED, run.fault)

    def _report_end(self, run: ActiveRun) -> None:
        if isinstance(run.end, Finished):
            self._reporting.finished(run.end, run.trigger, run.started_at_ms)
        elif run.end is not None:
            self._reporting.report(msgspec.structs.replace(run.end, identity=run.trigger.identity))

    def _report_closed(self, run: ActiveRun) -> None:
        self._reporting.drop_closed(run.trigger)

    # -- the table ----------------------------------------------------------------------------

    #: For each state and event of a run: the next state, and the effects in their order.
    LIFE: ClassVar[Mapping[Phase, Mapping[Event, tuple[Phase, tuple[Effect, ...]]]]] = {
        Phase.WAITING: {
            Event.LET_GO: (Phase.STARTING, (_stop_waiting, _record_start, _start_once_durable)),
            Event.LET_GO_RESERVED: (
                Phase.STARTING,
                (_stop_waiting, _record_start, _start_once_written),
            ),
            Event.REACHED: (Phase.RUNNING, (_run_in_lane, _stop_waiting, _note_start)),
            Event.HANDED_BACK: (Phase.WAITING, (_queue_again,)),
            Event.STOP: (Phase.GONE, (_drop_from_lane, _report_stop)),
            Event.CLOSED: (Phase.GONE, (_drop_from_lane, _report_closed)),
        },
        Phase.STARTING: {
            Event.DURABLE: (Phase.RUNNING, (_enter_slot,)),
            Event.SLOT_GONE: (Phase.GONE, (_leave_unstarted, _report_slot_gone)),
            Event.STOP: (Phase.CALLED_OFF, (_mark_stopping,)),
        },
        Phase.CALLED_OFF: {
            Event.DURABLE: (Phase.GONE, (_leave_unstarted, _report_stop)),
            Event.SLOT_GONE: (Phase.GONE, (_leave_unstarted, _report_stop)),
            Event.STOP: (Phase.CALLED_OFF, ()),
        },
        Phase.RUNNING: {
            Event.NOT_TAKEN: (Phase.GONE, (_leave_unstarted, _report_fault)),
            Event.STARTED: (Phase.RUNNING, (_note_start,)),
            Event.NOT_BEGUN: (Phase.WAITING, (_wait_again,)),
            Event.STOP: (Phase.STOPPING, (_mark_stopping, _stop_in_slot)),
            Event.ENDED: (Phase.GONE, (_leave_lane, _report_end)),
        },
        Phase.STOPPING: {
            Event.STARTED: (Phase.STOPPING, (_note_start,)),
            Event.NOT_BEGUN: (Phase.GONE, (_leave_unstarted, _report_stop)),
            Event.STOP: (Phase.STOPPING, (_stop_in_slot,)),
            Event.ENDED: (Phase.GONE, (_leave_lane, _report_end)),
        },
        Phase.GONE: {},
    }

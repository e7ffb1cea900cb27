"""The active runs of this boot: those that wait in lanes and those that run in slots.

admit ──> WAITING ──slot free, in contact──> STARTING ──STARTING is durable──> RUNNING ──> ended
             │                                   └──reserved: STARTING is written──┘ │
             └──────────── killed, covered, drained ─────────────────────────────────┘
"""

from collections.abc import Callable

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.broker.reasons.codes import Why, Words
from warren.executor.boot_context import BootContext
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.lanes.admission import Cover, Full, Refuse
from warren.executor.lanes.lanes import Lanes
from warren.executor.lanes.launcher import Launcher, Reservations
from warren.executor.lanes.readiness import Readiness
from warren.executor.lanes.reporting import ActiveRun, Phase, Reporting, StartReports
from warren.executor.messaging.contact import Contact
from warren.executor.processes.endings import Stop, cut_off, killed
from warren.executor.processes.interface import SlotPool


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
            self._lanes, context.run_states, commits, limit=context.limits.reserved_runs
        )
        self._launcher = Launcher(
            context,
            slots=slots,
            commits=commits,
            lanes=self._lanes,
            reservations=self._reservations,
            reporting=reporting,
            on_unstarted=self._remove_unstarted,
        )
        self._waiting_bytes = 0
        self.start_reports = StartReports(
            context.clock, slots=slots, reporting=reporting, running=self._running
        )
        #: Whether running runs are left to the next process.
        self.is_leaving = False

    # -- what is here -------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no run waits, starts or runs."""
        return not self._runs

    @property
    def waiting_count(self) -> int:
        """How many runs are waiting."""
        return self._lanes.waiting_count

    @property
    def running_count(self) -> int:
        """How many runs are running or starting; about that many if another thread asks."""
        return max(0, len(self._runs) - self._lanes.waiting_count)

    @property
    def is_working(self) -> bool:
        """Whether runs must end first; a leaving executor does not wait for remote ones."""
        return self._launcher.is_starting if self.is_leaving else self.running_count > 0

    @property
    def free_slots(self) -> int:
        """How many runs could be started now."""
        return self._launcher.free_slots

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

    def refresh_log(self, run_id: int, then: Callable[[], None]) -> None:
        """Call `then` when the log of a run is as new as it can be here; never waits."""
        self._slots.refresh_log(run_id, then)

    def has_late_log(self, run_id: int) -> bool:
        """Whether the log of a run that has ended is not complete here yet."""
        return self._slots.has_late_log(run_id)

    def waiting_ids(self) -> list[int]:
        """Return the ids of the waiting runs."""
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
        self._run_states.accept(trigger.run_id)
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
            run = self._runs[trigger.run_id]
            self._launcher.prepare(run, is_reserved=self._leave_waiting(run))
        self._launcher.launch_reserved()
        self._reservations.renew()

    def started(self, run_id: int) -> None:
        """Record that a run's process is running."""
        run = self._runs.get(run_id)
        if run is not None:
            run.started_at_ms = self._clock.now_ms()
            self.start_reports.add(run_id)

    def went_on(self, run_id: int) -> None:
        """Record that a process has reached a run that it was handed ahead, if it is still here."""
        run = self._runs.get(run_id)
        if run is None:
            self._log.error("unknown_run_reached", run_id=run_id)
            return
        self._lanes.go_on(run.trigger.job_id, run_id)
        self._leave_waiting(run)
        run.phase = Phase.RUNNING
        self.started(run_id)

    def returned(self, run_id: int) -> None:
        """Record that such a run had not begun after all: it waits again, unless it is stopped."""
        run = self._runs[run_id]
        if run.stop is not None:
            self._remove_unstarted(run)
            self._reporting.stopped_before_start(run.trigger, run.stop)
            return
        run.phase = Phase.WAITING
        run.started_at_ms = 0
        self._lanes.give_back(run.trigger)
        self._waiting_bytes += run.size
        self._reservations.restore(run_id)

    def finished(
        self, end: Finished | NotStarted, on_recorded: Callable[[], None] | None = None
    ) -> None:
        """Record and report the end of a started run; call `on_recorded` once it is durable.

        The caller starts what may start in its place.
        """
        run = self._runs.pop(end.run_id, None)
        if run is None:
            self._log.error("unknown_run_finished", run_id=end.run_id)
            return
        self._lanes.finish(run.trigger.job_id, end.run_id)
        if isinstance(end, Finished):
            self._reporting.finished(end, run.trigger, run.started_at_ms)
        else:
            self._reporting.report(end)
        if on_recorded is not None:
            self._commits.when_durable(on_recorded)

    def resume(self, boot_id: str) -> None:
        """Continue this boot's remote runs that an earlier process started."""
        for starting in self._run_states.resumable(boot_id):
            trigger, at_ms = starting.trigger, starting.at_ms
            assert trigger is not None
            self._runs[trigger.run_id] = ActiveRun(trigger, 0, Phase.RUNNING, started_at_ms=at_ms)
            self._lanes.resume(trigger)
            # By the host's clock: the scheduler's is not known before a welcome.
            age_ms = max(0, self._clock.host_ms() - starting.host_at_ms)
            self._slots.resume(trigger, at_ms, age_ms / 1000)

    # -- going out ----------------------------------------------------------------------------

    def stop(self, run_id: int, why: Words) -> bool:
        """End a run, KILLED for this reason; return False if it is not here."""
        run = self._runs.get(run_id)
        if run is None or not self._is_in_hand(run):
            return False
        if run.phase is Phase.WAITING:
            self._drop(run)
            self._reporting.stopped_before_start(run.trigger, killed(why))
            return True
        self._mark_stopping(run, killed(why))
        if run.phase is Phase.RUNNING:
            self._slots.stop(run_id, why)
        return True

    def cut_off(self) -> None:
        """End every running run because the executor shuts down: FAILED, so that it is retried.

        Remote runs are left to the next process; those that are starting do not start.
        """
        self.is_leaving = self._slots.is_remote
        self._slots.recall_all()
        for run_id, run in list(self._runs.items()):
            is_running = run.phase is Phase.RUNNING
            if run.phase is Phase.WAITING or (is_running and self.is_leaving):
                continue
            self._mark_stopping(run, cut_off())
            if is_running:
                self._slots.cut_off(run_id)

    def return_waiting(self, why: Words) -> None:
        """Report every waiting run as not started, unless its process may have begun it."""
        self._slots.recall_all()
        for run_id in self.waiting_ids():
            run = self._waiting_in_hand(run_id)
            if run is not None:
                self._drop(run)
                self._reporting.not_started(run.trigger, why)

    def forget_closed(self, run_ids: set[int]) -> None:
        """Drop those of these runs that are waiting: the schedulers have ended them already."""
        for run_id in run_ids:
            run = self._waiting_in_hand(run_id)
            if run is not None:
                self._drop(run)
                self._reporting.drop_closed(run.trigger)

    # -- inside -------------------------------------------------------------------------------

    def _running(self, run_id: int) -> ActiveRun | None:
        run = self._runs.get(run_id)
        return run if run is not None and run.phase is Phase.RUNNING else None

    def _waiting_in_hand(self, run_id: int) -> ActiveRun | None:
        """Return a run that waits here and that no process can begin; None if it does not."""
        run = self._runs.get(run_id)
        is_waiting = run is not None and self._is_in_hand(run) and run.phase is Phase.WAITING
        return run if is_waiting else None

    def _is_in_hand(self, run: ActiveRun) -> bool:
        """Take a run back if it was handed ahead; return whether it is still here."""
        run_id = run.trigger.run_id
        return self._slots.recall(run_id) and self._runs.get(run_id) is run

    def _mark_stopping(self, run: ActiveRun, stop: Stop) -> None:
        self._lanes.mark_stopping(run.trigger.job_id, run.trigger.run_id)
        run.stop = run.stop or stop

    def _remove_unstarted(self, run: ActiveRun) -> None:
        del self._runs[run.trigger.run_id]
        self._lanes.finish(run.trigger.job_id, run.trigger.run_id)
        self._commits.when_durable(self.start_ready)

    def _drop(self, run: ActiveRun) -> None:
        del self._runs[run.trigger.run_id]
        self._lanes.drop(run.trigger.job_id, run.trigger.run_id)
        self._contact.forget(run.trigger.run_id)
        self._leave_waiting(run)

    def _leave_waiting(self, run: ActiveRun) -> bool:
        """Note that a run no longer waits; return whether its start is durable already."""
        self._waiting_bytes -= run.size
        return self._reservations.release(run.trigger.run_id)

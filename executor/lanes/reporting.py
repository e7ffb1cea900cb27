"""Reports starts and ends of runs to the schedulers; an end goes to the journal first.

Only runs that last a while have their start reported.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.to_scheduler import Called, Finished, Started
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why, Words
from warren.executor.boot_context import BootContext
from warren.executor.fork_server.frames import Call
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.journal.records import Final, Starting
from warren.executor.messaging import reports
from warren.executor.messaging.heartbeat import SchedulerClock
from warren.executor.messaging.outbox import Outbox
from warren.executor.processes.endings import Stop
from warren.executor.processes.interface import SlotPool
from warren.executor.run_life import Phase


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

        With the host's time the run is remote, and the next process can continue it.
        """
        if host_at_ms is None:
            return Starting(run_id=self.trigger.run_id, at_ms=self.started_at_ms)
        return Starting(
            run_id=self.trigger.run_id,
            at_ms=self.started_at_ms,
            trigger=msgspec.structs.replace(self.trigger, param="", script_source=""),
            host_at_ms=host_at_ms,
        )


#: About how large a Started is, in bytes.
_STARTED_BYTES = 100


class Reporting:
    """Reports on runs of one boot. Used from the core thread."""

    def __init__(self, context: BootContext, commits: GroupCommit, outbox: Outbox) -> None:
        self._run_states = context.run_states
        self._clock = context.clock
        self._log = context.log
        self._commits = commits
        self._outbox = outbox

    def started(self, trigger: Trigger, started_at_ms: int) -> None:
        """Report that a run is running."""
        started = Started(
            run_id=trigger.run_id,
            boot_id=trigger.boot_id,
            started_at_ms=started_at_ms,
            identity=trigger.identity,
        )
        self._outbox.add(started, _STARTED_BYTES)

    def called(self, call: Call, trigger: Trigger, then: Callable[[], None]) -> None:
        """Report that a run asks for another one, and do `then`, once that is durable."""
        report = Called(
            run_id=call.run_id,
            boot_id=trigger.boot_id,
            number=call.number,
            job=call.job,
            param=call.param,
            identity=trigger.identity,
        )
        fit, size = self._run_states.call(report)
        self._commits.when_durable(partial(self._outbox.add, fit, size))
        self._commits.when_durable(then)

    def finished(self, finished: Finished, trigger: Trigger, started_at_ms: int) -> None:
        """Report the end of a run as its slot reported it."""
        now_ms = self._clock.now_ms()
        self.report(reports.stamped(finished, trigger, started_at_ms, now_ms))

    def refuse(self, trigger: Trigger, why: Words, outcome: Outcome = Outcome.REFUSED) -> None:
        """Report the end of a run that was not taken."""
        facts = {"run_id": trigger.run_id, "job_id": trigger.job_id, "outcome": outcome}
        self._log.info("run_refused", **facts, why=str(why))
        self.end(trigger, outcome, why)

    def send_back(self, trigger: Trigger, why: Words, *, is_full: bool = False) -> None:
        """Report that a run was not taken and may go elsewhere; `is_full`: there was no room."""
        self._log.info("run_returned", run_id=trigger.run_id, job_id=trigger.job_id, why=str(why))
        self.report(reports.not_started(trigger, why, is_full=is_full))

    def end(self, trigger: Trigger, outcome: Outcome, why: Words) -> None:
        """Report the end of a run that never had a process."""
        self.report(reports.end_of(trigger, outcome, why, self._clock.now_ms()))

    def not_started(self, trigger: Trigger, why: Words) -> None:
        """Report that a run was taken, but never started."""
        self.report(reports.not_started(trigger, why))

    def stopped_before_start(self, trigger: Trigger, stop: Stop) -> None:
        """Report a run that was stopped before it had a process.

        Only a kill ends it for good; otherwise it may go elsewhere.
        """
        if stop.outcome is Outcome.KILLED:
            self.end(trigger, stop.outcome, stop.words)
        else:
            self.not_started(trigger, stop.words)

    def drop_closed(self, trigger: Trigger) -> None:
        """Record that a waiting run is gone; the schedulers, who ended it, need no report."""
        self._log.info("run_dropped", run_id=trigger.run_id, job_id=trigger.job_id)
        self._run_states.finish(reports.not_started(trigger, Why.CLOSED_OUT_OF_CONTACT()))
        self._run_states.confirm((trigger.run_id,), self._clock.now_ms())
        self._commits.schedule()

    def report(self, report: Final) -> None:
        """Record a run's end and send it after the next commit, even if that fails."""
        fit, size = self._run_states.finish(report)
        self._commits.after_commit_attempt(partial(self._outbox.add, fit, size))


#: A run that ends sooner than this sends no Started.
STARTED_SECONDS = 0.5


class StartReports:
    """The starts of this boot's runs that have not been reported yet.

    A run that is only assumed to have begun is not reported, because a run reported as started can
    no longer be sent to another executor.

    Args:
        running: returns a run by id if it is running here.

    """

    def __init__(
        self,
        clock: SchedulerClock,
        *,
        slots: SlotPool,
        reporting: Reporting,
        running: Callable[[int], ActiveRun | None],
    ) -> None:
        self._clock = clock
        self._slots = slots
        self._reporting = reporting
        self._running = running
        self._due: deque[tuple[float, int]] = deque()

    def add(self, run_id: int) -> None:
        """Report this start in STARTED_SECONDS, if the run is still running then."""
        self._due.append((self._clock.monotonic() + STARTED_SECONDS, run_id))

    def report_due(self) -> None:
        """Report the starts that are due; a run not known to have begun waits as long again."""
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            _, run_id = self._due.popleft()
            if self._running(run_id) is not None and not self._slots.has_begun(run_id):
                self.add(run_id)
            else:
                self.repeat(run_id)

    def repeat(self, run_id: int) -> None:
        """Report a start again, if the run is running and is known to have begun."""
        run = self._running(run_id)
        if run is not None and self._slots.has_begun(run_id):
            self._reporting.started(run.trigger, run.started_at_ms)

"""Reports that runs have begun: only those that run for a while, and once that is known."""

from collections import deque
from collections.abc import Callable

from warren.executor.lanes.active_run import ActiveRun
from warren.executor.lanes.reporting import Reporting
from warren.executor.processes.interface import SlotPool
from warren.executor.scheduler_clock import SchedulerClock

#: A run that ends sooner than this sends no Started.
STARTED_SECONDS = 0.5


class StartReports:
    """The starts of this boot's runs that are still to be reported.

    A run that its process is only believed to have begun is not reported: what is reported as
    started cannot be sent to another executor any more.

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
        """Report the starts that are due; what is not known to have begun waits as long again."""
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

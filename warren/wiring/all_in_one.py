"""The all-in-one mode: one process with one SQLite file.

    start:  executors ─> scheduler (welcomes them) ─> console, API ─> job file
    end:    API, console ─> executors (runs get SIGTERM, 2 s, SIGKILL; results are reported)
            ─> scheduler, once no run is in flight any more ─> database

The executors end first because the broker's queues live in this process: their last reports must
still be received.
"""

import contextlib
import time
from collections.abc import Callable, Sequence

from warren.broker.memory import MemoryBroker
from warren.broker.signing import AppKeys, ClusterKeys
from warren.executor.core.agent import Executor
from warren.scheduler.node import SchedulerNode
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.sql.listings import recent
from warren.sql.registry import presence
from warren.views.finished_runs import FinishedRuns
from warren.views.nodes import registrations
from warren.wiring.all_in_one_web import WebSite
from warren.wiring.executor import make_executor, make_log_cleaner, make_run_logs, make_slots
from warren.wiring.processes import Signals
from warren.wiring.scheduler import make_scheduler

#: Seconds to wait for executors to be welcomed before the summary is printed anyway.
WELCOME_SECONDS = 10.0
#: Seconds that a stopped executor may take; its own timeouts are shorter.
EXECUTOR_SECONDS = 4.0
#: Seconds that the scheduler may take to store the executors' last reports.
SETTLING_SECONDS = 1.0
_POLL_SECONDS = 0.02


class AllInOne:
    """All parts of one `warren up`; `close` stops whatever `start` has started."""

    def __init__(self, settings: Settings, database: Database, secret: str) -> None:
        self._settings = settings
        self._database = database
        self._secret = secret
        self._broker = MemoryBroker()
        self._executors: list[Executor] = []
        self._scheduler: SchedulerNode | None = None
        self._cleaner = make_log_cleaner(settings)
        self.web = WebSite(settings, database, self._broker.transport, secret)
        self.finished = FinishedRuns(database)

    def start(
        self,
        signals: Signals,
        *,
        app: str,
        count: int,
        sources: Sequence[str],
        is_reloaded: bool = False,
    ) -> None:
        """Start `count` executors of an app, then the scheduler, the console and the API.

        `is_reloaded`: `reload` may be called.

        Raises:
            HandlersError: the handlers cannot be loaded, or a signal arrived meanwhile.
            CommandError: a port is taken.

        """
        run_logs = make_run_logs(self._settings)
        slots = self.finished.watch(
            make_slots(self._settings, sources, run_logs, signals=signals, is_reloaded=is_reloaded)
        )
        for number in range(1, count + 1):
            process = make_executor(
                self._settings,
                app=app,
                address=f"{app}-{number}",
                transport=self._broker.transport(),
                keys=AppKeys.derived(app, self._secret),
                slots=slots,
            )
            process.start()
            self._executors.append(process)
        self._scheduler = make_scheduler(
            self._settings, self._database, self._broker.transport(), ClusterKeys(self._secret)
        )
        self._scheduler.start()
        self._cleaner.start()
        self.web.start()

    def wait_until_welcome(self, signals: Signals) -> None:
        """Wait until every executor is registered, up to WELCOME_SECONDS, or until a signal."""
        boots = {executor.identity.boot_id for executor in self._executors}
        deadline = time.monotonic() + WELCOME_SECONDS
        while not signals.wait(_POLL_SECONDS * 5) and time.monotonic() < deadline:
            rows, _ = registrations(self._database, presence.EXECUTOR)
            if boots <= {row.boot_id for row in rows}:
                return

    def reload(self, then: Callable[[str], None]) -> None:
        """Import the handlers anew in every executor; see `Executor.reload`."""
        for executor in self._executors:
            executor.reload(then)

    @property
    def failure(self) -> str:
        """Why an executor ended by itself; empty if none has."""
        ended = [
            executor
            for executor in self._executors
            if executor.join(0) and not executor.was_drained
        ]
        if not ended:
            return ""
        return ended[0].failure or f"executor {ended[0].identity.address} has stopped"

    def close(self, signals: Signals) -> None:
        """Stop everything in order; a further signal hurries the executors."""
        self.web.stop()
        for executor in self._executors:
            executor.stop()
        self._wait_for_executors(signals)
        if self._scheduler is not None:
            self._wait_for_open_runs()
            self._scheduler.stop()
        self._cleaner.stop()

    def _wait_for_executors(self, signals: Signals) -> None:
        last_count = signals.count
        deadline = time.monotonic() + EXECUTOR_SECONDS
        while not all(executor.join(0) for executor in self._executors):
            signals.wait(_POLL_SECONDS)
            if signals.count > last_count or time.monotonic() > deadline:
                last_count, deadline = signals.count, time.monotonic() + EXECUTOR_SECONDS
                for executor in self._executors:
                    executor.stop(hurry=True)

    def _wait_for_open_runs(self) -> None:
        deadline = time.monotonic() + SETTLING_SECONDS
        with contextlib.suppress(Exception):
            while self._database.read(recent.count_in_flight) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)

"""The runs that hold a slot: when each started, how long it may take, and how it ended."""

import asyncio
import time
from collections.abc import Callable, KeysView

from warren.broker.messages.to_scheduler import Finished
from warren.broker.reasons.stored import to_json
from warren.executor.handlers.outcomes import cut
from warren.executor.logs.log_limiter import FinishedLog, LogLimiter
from warren.executor.processes.endings import Exit, Stop, conclude, timed_out
from warren.executor.processes.interface import SlotEvents
from warren.executor.processes.job_process import SlotRun


class SlotRuns:
    """The runs in slots, by id. `on_timeout(run, stop)` is called when one has taken too long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        log_limiter: LogLimiter,
        events: SlotEvents,
        on_timeout: Callable[[SlotRun, Stop], None],
    ) -> None:
        self._loop = loop
        self._log_limiter = log_limiter
        self._events = events
        self._on_timeout = on_timeout
        self._runs: dict[int, SlotRun] = {}

    def __len__(self) -> int:
        """Return how many slots are taken."""
        return len(self._runs)

    @property
    def ids(self) -> KeysView[int]:
        """The ids of the runs."""
        return self._runs.keys()

    @property
    def all(self) -> list[SlotRun]:
        """Every run."""
        return list(self._runs.values())

    def get(self, run_id: int) -> SlotRun | None:
        """Return a run."""
        return self._runs.get(run_id)

    def holds(self, run: SlotRun) -> bool:
        """Whether this run is here: it has not ended, nor was it taken back."""
        return self._runs.get(run.trigger.run_id) is run

    def add(self, run: SlotRun) -> None:
        """Give a run a slot."""
        self._runs[run.trigger.run_id] = run

    def remove(self, run: SlotRun) -> bool:
        """Free a run's slot; return whether it had one."""
        if self._runs.pop(run.trigger.run_id, None) is None:
            return False
        run.cancel_timer()
        return True

    def start_timer(self, run: SlotRun) -> None:
        """Let a run's timeout begin, if it has one."""
        timeout = run.trigger.timeout_seconds
        if timeout > 0:
            run.timer = self._loop.call_later(timeout, self._on_timeout, run, timed_out(timeout))

    def mark_started(self, run: SlotRun, at_ms: int) -> None:
        """Report that a process has this run, unless that is reported already."""
        if not run.started_at_ms:
            run.started_at_ms = at_ms
            self._events.started(run.trigger.run_id)

    def report_end(self, run: SlotRun, exit_: Exit | None) -> None:
        """Report the end of a removed run; `exit_` None: its process lives on."""
        log = self._finished_log(run, exit_)
        outcome, message = conclude(
            stop=run.stop,
            result=run.result,
            exit_=exit_,
            grace_seconds=run.grace_seconds,
            is_script=bool(run.command),
            log_error=log.error,
        )
        self._events.finished(
            Finished(
                run_id=run.trigger.run_id,
                boot_id=run.trigger.boot_id,
                outcome=outcome,
                message=cut(str(message)),
                why=to_json(message),
                started_at_ms=run.started_at_ms,
                finished_at_ms=int(time.time() * 1000),
                log_tail=log.tail,
            )
        )

    def _finished_log(self, run: SlotRun, exit_: Exit | None) -> FinishedLog:
        result = run.result
        if exit_ is not None or result is None:
            return self._log_limiter.close(run.log_path)
        if self._log_limiter.needs_cut(run.log_path, result.log_bytes):
            return self._log_limiter.close(run.log_path)
        return self._log_limiter.check(run.log_path, result.log_tail)

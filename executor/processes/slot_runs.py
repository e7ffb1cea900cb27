"""The runs that hold a slot: when each started, how long it may take, and how it ended.

The runs that job processes were handed ahead and have not reached, as far as is known.

    handed ahead ──the run before it has answered──> reached
         └─ withdrawn, or its process is gone: it goes back to its lane

A process goes on by itself, so what is known here may be late. Its begin note tells what has begun,
and only what has not begun by that note is taken back.

Tells how job processes ended, for the ends of their runs and for the log.
"""

import asyncio
import signal
import time
from collections.abc import Callable, KeysView

import structlog

from warren.broker.messages.to_scheduler import Finished
from warren.broker.reasons.codes import Why
from warren.broker.reasons.stored import from_json, to_json
from warren.executor.fork_server import frames, linux
from warren.executor.handlers.outcomes import cut
from warren.executor.logs.log_limiter import FinishedLog, LogLimiter
from warren.executor.processes.endings import Exit, Stop, conclude, timed_out
from warren.executor.processes.interface import SlotEvents
from warren.executor.processes.job_process import JobProcess, SlotRun
from warren.executor.processes.look_ahead import Batch


class ProcessExits:
    """How the job processes of one executor ended."""

    def __init__(self) -> None:
        self._log = structlog.get_logger()
        self._oom = linux.OomWatch()

    def exited(self, process: JobProcess, exited: frames.Exited) -> Exit:
        """Return how a process ended whose exit the zygote has reported."""
        if process.is_forced:
            self._log.warning("process_killed", pid=process.pid, handler=process.what)
        if exited.survivors:
            self._log.error("processes_survived", processes=exited.survivors)
        was_killed = exited.code == -signal.SIGKILL and not process.is_forced
        return Exit(
            code=exited.code,
            forced=process.is_forced,
            oom=was_killed and self._oom.has_killed(),
            survivors=exited.survivors,
            left=exited.left,
            left_count=exited.left_count,
            failure=from_json(exited.why) or exited.error or None,
        )

    def stuck(self, process: JobProcess) -> Exit:
        """Return the end of a process that is given up because SIGKILL does not end it."""
        name = f"{process.what} (pid {process.pid})"
        self._log.error("processes_survived", processes=name)
        return Exit(forced=process.is_forced, survivors=name)

    def lost_zygote(self, process: JobProcess, survivors: str) -> Exit:
        """Return the end of a process whose zygote has died."""
        return Exit(forced=process.is_forced, survivors=survivors, failure=Why.ZYGOTE_DIED())


class HandedAhead:
    """The runs handed ahead to the processes of one executor.

    `on_not_begun(process, run)` is called when a run that was believed to run had not begun.
    """

    def __init__(self, on_not_begun: Callable[[JobProcess, SlotRun], None]) -> None:
        self._on_not_begun = on_not_begun
        self._runs: dict[int, SlotRun] = {}

    def __contains__(self, run_id: int) -> bool:
        """Whether a run was handed ahead and has not been reached."""
        return run_id in self._runs

    def get(self, run_id: int) -> SlotRun | None:
        """Return such a run."""
        return self._runs.get(run_id)

    def add(self, process: JobProcess) -> None:
        """Add the runs that this process has just been handed ahead."""
        self._runs.update((one.trigger.run_id, one) for one in process.followers)

    def reach(self, process: JobProcess) -> SlotRun:
        """Note that the process has come to the next of its runs; return that."""
        run = process.go_on()
        run.started_at_ms = int(time.time() * 1000)
        del self._runs[run.trigger.run_id]
        return run

    def has_begun(self, process: JobProcess) -> bool:
        """Whether the process has noted that its run has begun."""
        batch, run = process.batch, process.run
        return batch is None or run is None or batch.has_begun(run.trigger.run_id, batch.begun())

    def recall(self, process: JobProcess) -> None:
        """Withdraw what the process was handed ahead, and take back what has not begun of it."""
        batch, run = process.batch, process.run
        is_head = run is not None and batch is not None and run.trigger.run_id == batch.head
        if batch is None or run is None or (is_head and not process.followers):
            return
        noted = batch.withdraw()
        process.read()  # it has answered everything before the run that it noted last
        self._take_back(process, batch, noted)

    def take_withheld(self, process: JobProcess) -> None:
        """Take back what the process will not begin; it has answered everything else."""
        if process.batch is not None:
            self._take_back(process, process.batch, process.batch.head)

    def take_from_gone(self, process: JobProcess) -> bool:
        """Take back the runs that a dead process never began.

        Returns whether its current run is one of them.
        """
        batch = process.batch
        if batch is None or process.run is None:
            return process.died_idle
        noted = batch.begun()
        self._take_back(process, batch, noted)
        run = process.run
        return run is not None and run.result is None and not batch.has_begun(batch.head, noted)

    def _take_back(self, process: JobProcess, batch: Batch, noted: int) -> None:
        before = [one.trigger.run_id for one in process.followers]
        not_begun = process.drop_unbegun(batch, noted)
        kept = {one.trigger.run_id for one in process.followers}
        for run_id in before:
            if run_id not in kept:
                del self._runs[run_id]
        if not_begun is not None:
            self._on_not_begun(process, not_begun)


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

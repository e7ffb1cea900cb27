"""The slots: starts runs in job processes, times, stops and finishes them.

    start ──idle process of the handler──────────────────────> at work ──result, clean──> finished
      └──fork, or wait for another handler's process to end────┘  └──result, then exit──────┘
                                                     timeout, kill ──SIGTERM, grace, SIGKILL┘

Everything runs on the thread of one event loop. A run is finished exactly once, and only when
nothing of it is left: at its result when the process is clean and lives on, else at its exit.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Collection, KeysView, Sequence
from functools import partial
from pathlib import Path

import structlog

from broker.messages import Finished, Trigger
from executor import frames, linux
from executor.brood import PROCESS_LIMIT
from executor.endings import Exit, Stop, conclude, killed, timed_out
from executor.errors import ScriptRefused
from executor.nursery import Nursery
from executor.pool import Pool
from executor.process import Held, JobProcess
from executor.runlog import RunLogs
from executor.scripts import Scripts

#: Seconds between two looks at the size of logs and at idle processes.
SWEEP_SECONDS = 0.5


class Slots:
    """Job processes of one executor, at most `count` of them alive.

    `on_started(run_id, started_at_ms)` and `on_finished(finished)` may call back in; both come from
    the loop, never from within `start`, and `on_started` only before the end. `on_ready` is called
    when a new zygote has taken the place of a dead one, so that `free` has grown. An idle process
    ends after `idle_seconds`, any process after `runs_per_process` runs. Scripts of
    `script_languages` are run from files in `script_folder`, which is emptied at the start.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        sources: Sequence[str],
        count: int,
        run_logs: RunLogs,
        grace_seconds: float,
        on_started: Callable[[int, int], None],
        on_finished: Callable[[Finished], None],
        on_ready: Callable[[], None] = lambda: None,
        idle_seconds: float = 90.0,
        runs_per_process: int = 1000,
        script_folder: Path | None = None,
        script_languages: Collection[str] = (),
    ) -> None:
        if not 1 <= count <= PROCESS_LIMIT:
            raise ValueError(f"expected count to be 1 to {PROCESS_LIMIT}, got: {count}")
        self._loop = loop
        self._count = count
        self._run_logs = run_logs
        self._grace_seconds = grace_seconds
        self._on_started = on_started
        self._on_finished = on_finished
        self._on_ready = on_ready
        self._log = structlog.get_logger()
        self._scripts = Scripts(script_folder, script_languages)
        self._nursery = Nursery(
            loop=loop,
            sources=sources,
            on_ready=self._on_zygote_ready,
            on_forked=self._on_forked,
            on_exited=self._on_exited,
            on_died=self._on_zygote_died,
        )
        self._pool = Pool(
            loop=loop,
            nursery=self._nursery,
            count=count,
            idle_seconds=idle_seconds,
            runs_per_process=runs_per_process,
            grace_seconds=grace_seconds,
            on_placed=self._on_placed,
            on_unplaced=self._fail_soon,
            on_result=self._on_result,
            on_stuck=self._on_stuck,
        )
        self._runs: dict[int, Held] = {}
        self._oom = linux.OomWatch()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    # -- for the executor ---------------------------------------------------------------------

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names of the handlers."""
        return self._nursery.handlers

    @property
    def free(self) -> int:
        """How many runs could be started now; 0 while there is no zygote."""
        if not self._nursery.is_ready or self._closed is not None:
            return 0
        return max(0, self._count - len(self._runs))

    @property
    def running(self) -> KeysView[int]:
        """The ids of the runs that were started and are not finished."""
        return self._runs.keys()

    def open(self) -> tuple[str, ...]:
        """Start the zygote, wait for it, and return the names of the handlers.

        Raises:
            HandlersError: the handlers cannot be loaded.

        """
        self._scripts.clear()
        self._nursery.open()
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        return self._nursery.handlers

    def start(self, trigger: Trigger) -> None:
        """Start a run; requires `free`. Whatever goes wrong with it is told by `on_finished`."""
        if not self.free or trigger.run_id in self._runs:
            raise RuntimeError(f"expected a free slot for run {trigger.run_id}, and it to be new")
        path = self._run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        held = self._runs[trigger.run_id] = Held(trigger, path)
        try:
            held.command = self._command(trigger)
        except ScriptRefused as error:
            self._fail_soon(held, str(error))
            return
        if not held.command and trigger.handler not in self._nursery.handlers:
            self._fail_soon(held, f"no handler named {trigger.handler!r} here")
            return
        self._pool.place(held)

    def stop(self, run_id: int, reason: str) -> bool:
        """End a run, which then finishes KILLED; False when no such run is at work."""
        held = self._runs.get(run_id)
        if held is None:
            return False
        self._stop(held, killed(reason), self._grace_seconds)
        return True

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":
        """Kill the runs that are at work, end all processes, and be done when none is left."""
        if self._closed is None:
            self._closed = self._loop.create_future()
            for held in list(self._runs.values()):
                self._stop(held, killed("the executor is stopping"), grace_seconds)
            self._close_when_empty()
        return self._closed

    # -- a run's life -------------------------------------------------------------------------

    def _command(self, trigger: Trigger) -> tuple[str, ...]:
        return self._scripts.prepare(trigger) if trigger.script_language else ()

    def _on_placed(self, held: Held, is_reused: bool) -> None:
        timeout = held.trigger.timeout_seconds
        if timeout > 0:
            held.timer = self._loop.call_later(
                timeout, self._stop, held, timed_out(timeout), self._grace_seconds
            )
        if is_reused:
            self._loop.call_soon(self._mark_started, held, int(time.time() * 1000))

    def _fail_soon(self, held: Held, failure: str) -> None:
        self._loop.call_soon(self._finish, held, Exit(failure=failure))

    def _mark_started(self, held: Held, at_ms: int) -> None:
        if not held.started_at_ms:
            held.started_at_ms = at_ms
            self._on_started(held.trigger.run_id, at_ms)

    def _stop(self, held: Held, stop: Stop, grace_seconds: float) -> None:
        if held.stop is not None:
            return
        held.stop = stop
        held.grace_seconds = grace_seconds
        if held.process is not None:
            held.process.stop(grace_seconds)
        else:
            self._pool.withdraw(held)
            self._loop.call_soon(self._finish, held, Exit())

    def _finish(self, held: Held, exit_: Exit | None) -> None:
        """Tell the end of a run of which nothing is left; `exit_` None: its process lives on."""
        trigger = held.trigger
        if self._runs.pop(trigger.run_id, None) is None:
            return
        if held.timer is not None:
            held.timer.cancel()
        if held.command:
            self._scripts.discard(held.command)
        outcome, message = conclude(
            stop=held.stop,
            result=held.result,
            exit_=exit_,
            grace_seconds=held.grace_seconds,
            is_script=bool(held.command),
        )
        self._pool.place_waiting()
        self._on_finished(
            Finished(
                run_id=trigger.run_id,
                boot_id=trigger.boot_id,
                outcome=outcome,
                message=message,
                started_at_ms=held.started_at_ms,
                finished_at_ms=int(time.time() * 1000),
                log_tail=self._tail_of(held, exit_),
            )
        )
        self._close_when_empty()

    def _tail_of(self, held: Held, exit_: Exit | None) -> str:
        result = held.result
        if exit_ is None and result is not None and result.log_bytes <= self._run_logs.cap_bytes:
            return result.log_tail
        return self._run_logs.close(held.log_path)

    # -- what processes do --------------------------------------------------------------------

    def _on_forked(self, forked: frames.Forked) -> None:
        process = self._pool.get(forked.number)
        if process is not None:
            process.pid = forked.pid
            if process.run is not None:
                self._mark_started(process.run, forked.started_at_ms)

    def _on_result(self, process: JobProcess, result: frames.Result) -> None:
        held = process.run
        if held is None or held.trigger.run_id != result.run_id:
            return
        self._mark_started(held, int(time.time() * 1000))  # it may overtake the word of its birth
        held.result = result
        if result.will_end:
            process.expect_exit(self._grace_seconds)
        elif process.is_ending:
            process.end(self._grace_seconds)  # it did not mind SIGTERM
        else:
            self._pool.rest(process)
            self._finish(held, None)

    def _on_exited(self, exited: frames.Exited) -> None:
        process = self._pool.get(exited.number)
        if process is None:
            return
        self._pool.remove(process)
        if process.is_forced:
            self._log.warning("process_killed", pid=process.pid, handler=process.what)
        if exited.survivors:
            self._log.error("processes_survived", processes=exited.survivors)
        is_oom = exited.code == -signal.SIGKILL and not process.is_forced and self._oom.has_struck()
        exit_ = process.describe_exit(
            code=exited.code, oom=is_oom, survivors=exited.survivors, failure=exited.error
        )
        self._let_go(process, exit_)

    def _on_stuck(self, process: JobProcess) -> None:
        """Give up a process that SIGKILL does not end: its run must not stay open for ever."""
        name = f"{process.what} (pid {process.pid})"
        self._log.error("processes_survived", processes=name)
        self._pool.remove(process)
        self._let_go(process, process.describe_exit(survivors=name))

    def _let_go(self, process: JobProcess, exit_: Exit) -> None:
        held = process.run
        if held is None:
            self._pool.place_waiting()
            self._close_when_empty()
        elif process.never_began and held.stop is None and not exit_.failure:
            # An idle process that was killed just when it got this run.
            held.process = None
            if held.timer is not None:
                held.timer.cancel()
            self._pool.place(held)
        else:
            self._finish(held, exit_)

    # -- the zygote ---------------------------------------------------------------------------

    def _on_zygote_died(self, survivors: str) -> None:
        for process in self._pool.remove_all():
            if process.run is not None:
                exit_ = process.describe_exit(survivors=survivors, failure="the zygote died")
                self._finish(process.run, exit_)
        if self._nursery.error:
            words = f"the zygote died and cannot be replaced: {self._nursery.error}"
            for held in self._pool.withdraw_all():
                self._finish(held, Exit(failure=words))
        self._close_when_empty()

    def _on_zygote_ready(self) -> None:
        self._pool.place_waiting()
        self._on_ready()

    # -- upkeep -------------------------------------------------------------------------------

    def _sweep(self) -> None:
        for held in self._runs.values():
            if held.process is not None:
                self._run_logs.cut_back(held.log_path)
        self._pool.retire()
        self._nursery.watch()
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def _close_when_empty(self) -> None:
        """Go on with `close`: first the runs, then the idle processes, then the zygote."""
        if self._closed is None or self._runs:
            return
        self._pool.retire(idle_for=0)
        if self._pool.is_empty and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
            self._nursery.close(partial(self._closed.set_result, None))

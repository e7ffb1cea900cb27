"""The slots: starts, times, stops and finishes runs in job processes.

    start ──idle process of the job──────────────────────────> running ──result, clean──> finished
      └──fork, or wait for another job's process to exit───────┘  └──result, then exit──────┘
                                                     timeout, kill ──SIGTERM, grace, SIGKILL┘

Everything runs on the thread of one event loop. A run finishes exactly once, and only when nothing
of it is left: at its result if the process is clean and lives on, otherwise at exit.
"""

import asyncio
import time
from collections.abc import KeysView, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import structlog

from warren.broker.catalogues import Told
from warren.broker.messages.catalogue import Catalogue
from warren.broker.messages.to_executor import Trigger
from warren.broker.reasons.codes import Reason, Why, Words
from warren.executor.code_version import commit_of
from warren.executor.errors import ScriptRefused
from warren.executor.fork_server import frames
from warren.executor.fork_server.termination import end_marked
from warren.executor.logs.line_times import LineTimes
from warren.executor.logs.log_limiter import LogLimiter
from warren.executor.logs.run_logs import RunLogs
from warren.executor.processes.endings import Exit, Stop, channel_misused, cut_off, killed
from warren.executor.processes.idle_limits import Host, IdleLimit
from warren.executor.processes.interface import SlotEvents, SlotOptions, SlotPool
from warren.executor.processes.job_process import JobProcess, ProcessEvents, SlotRun
from warren.executor.processes.look_ahead import BATCH_RUNS, LookAhead
from warren.executor.processes.pool import Pool, PoolEvents
from warren.executor.processes.script_files import Scripts
from warren.executor.processes.slot_runs import HandedAhead, ProcessExits, SlotRuns
from warren.executor.processes.supervisor import ForkServerSupervisor

#: Seconds between two checks of log sizes and idle processes.
SWEEP_SECONDS = 0.5
#: Sweeps between two looks at the memory that idle processes take.
_SWEEPS_PER_FIT = 6


class Slots(SlotPool):
    """The slots of one executor; the options say how many.

    `events.ready` is called when a new zygote has replaced a dead one, so that `free` has grown.
    Scripts run from files in `script_folder`, which is emptied at the start. Job processes note
    what they begin in files in `notes_folder`; without it they get one run at a time.
    """

    def __init__(
        self,
        sources: Sequence[str],
        run_logs: RunLogs,
        options: SlotOptions,
        *,
        loop: asyncio.AbstractEventLoop,
        events: SlotEvents,
        script_folder: Path | None = None,
        notes_folder: Path | None = None,
    ) -> None:
        self._loop = loop
        self._events = events
        self._options = options
        self._run_logs = run_logs
        self._log_limiter = LogLimiter(run_logs)
        self._line_times = LineTimes(run_logs.size, lambda: time.time_ns() // 1_000_000)
        self._log = structlog.get_logger()
        self._confinement = replace(
            options.confinement,
            log_folder=run_logs.folder,
            script_folder=script_folder.absolute() if script_folder else None,
        )
        self._look_ahead = LookAhead(notes_folder, options.batch_seconds)
        self._scripts = Scripts(script_folder, options.script_languages, self._confinement)
        self._supervisor = ForkServerSupervisor(
            loop=loop,
            sources=sources,
            confinement=self._confinement,
            on_ready=self._on_zygote_ready,
            on_forked=self._on_forked,
            on_exited=self._on_exited,
            on_died=self._on_zygote_died,
        )
        self._runs = SlotRuns(
            loop, log_limiter=self._log_limiter, events=events, on_timeout=self._on_timeout
        )
        self._ahead = HandedAhead(self._on_not_begun)
        of_process = ProcessEvents(
            result=self._on_result,
            withheld=self._ahead.take_withheld,
            misuse=self._on_misuse,
            stuck=self._on_stuck,
        )
        pool_events = PoolEvents(
            placed=self._on_placed, unplaced=self._fail_soon, of_process=of_process
        )
        idle_limit = IdleLimit(
            options.idle_count,
            slots=options.count,
            spares=options.spare_count,
            job_processes=options.confinement.limits.processes,
            host=Host(),
        )
        self._pool = Pool(
            loop, self._supervisor, options, self._look_ahead, idle_limit, pool_events
        )
        self._exits = ProcessExits()
        self._catalogue: Told | None = None
        self._sweeps = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    # -- for the executor ---------------------------------------------------------------------

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names of the handlers, sorted."""
        return tuple(one.name for one in self._supervisor.handlers)

    @property
    def catalogue(self) -> Told | None:
        """What can be run here, as the last zygote has it."""
        return self._catalogue

    @property
    def away(self) -> Reason | None:
        """Why no process can be started for now: the zygote has died and is not replaced soon."""
        fault = self._supervisor.fault(self._options.slow_seconds)
        return Why.ZYGOTE_GONE(fault=fault) if fault else None

    @property
    def free(self) -> int:
        """How many runs could be started now; 0 while there is no zygote."""
        if not self._supervisor.is_ready or self._closed is not None:
            return 0
        return max(0, self._options.count - len(self._runs))

    @property
    def running(self) -> KeysView[int]:
        """The ids of runs that were started and have not finished."""
        return self._runs.ids

    def open(self) -> tuple[str, ...]:
        """Start the zygote, wait until it is ready, and return the handlers' names.

        Raises:
            HandlersError: the handlers cannot be loaded.

        """
        self._scripts.clear()
        self._confinement.prepare_folders()
        if self._confinement.script_folder is not None:
            ended = end_marked(self._confinement.script_folder)
            if ended:
                self._log.warning("old_processes_ended", count=len(ended), names=ended[:20])
        self._supervisor.keep_spares(self._options.spare_count)
        self._supervisor.open(self._options.is_unwanted)
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        self._catalogue = self._tell()
        return self.handlers

    @property
    def look_ahead(self) -> int:
        """How many runs of its job may be handed ahead with a run."""
        is_possible = self._look_ahead.is_possible and not self._options.fresh_process
        return BATCH_RUNS - 1 if is_possible else 0

    def lacks_handler(self, trigger: Trigger) -> bool:
        """Whether the last zygote has no such handler; scripts need none."""
        return not trigger.script_language and trigger.handler not in self._supervisor.names

    def start(self, trigger: Trigger, followers: Sequence[Trigger] = ()) -> None:
        """Start a run; requires `free`. Any failure is reported as its end.

        The `followers` are handed ahead if a process of their job is idle.
        """
        if not self.free or trigger.run_id in self._runs.ids:
            raise RuntimeError(f"expected run {trigger.run_id} to be new and a slot to be free")
        if trigger.fresh_process is None:
            trigger = msgspec.structs.replace(trigger, fresh_process=self._options.fresh_process)
        run = self._slot_run(trigger)
        self._runs.add(run)
        try:
            run.command = self._command(trigger)
        except ScriptRefused as error:
            self._fail_soon(run, error.reason)
            return
        if self.lacks_handler(trigger):
            self._fail_soon(run, Why.HANDLER_GONE(name=trigger.handler))
            return
        self._pool.place(run, [self._slot_run(follower) for follower in followers])
        if run.process is not None:
            self._ahead.add(run.process)

    def has_begun(self, run_id: int) -> bool:
        """Whether a run is known to have begun; its process may stall just before."""
        run = self._runs.get(run_id)
        return run is None or run.process is None or self._ahead.has_begun(run.process)

    def recall(self, run_id: int) -> bool:
        """Take back what was handed ahead along with this run; return whether it is not out now."""
        run = self._runs.get(run_id) or self._ahead.get(run_id)
        if run is not None and run.process is not None:
            self._ahead.recall(run.process)
        return run_id not in self._ahead

    def recall_all(self) -> None:
        """Take back every run that was handed ahead and has not begun."""
        for process in self._pool.all:
            self._ahead.recall(process)

    def stop(self, run_id: int, why: Words) -> bool:
        """End a run, which then finishes KILLED; return False if it is not running."""
        return self._order_end(run_id, killed(why))

    def cut_off(self, run_id: int) -> bool:
        """End a run because the executor shuts down; it finishes FAILED. Returns as `stop`."""
        return self._order_end(run_id, cut_off())

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":
        """Cut off all runs and end all processes; the future is done when none is left."""
        if self._closed is None:
            self._closed = self._loop.create_future()
            for run in self._runs.all:
                self._stop(run, cut_off(), grace_seconds)
            self._close_when_empty()
        return self._closed

    # -- a run's life -------------------------------------------------------------------------

    def _slot_run(self, trigger: Trigger) -> SlotRun:
        path = self._run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        self._confinement.prepare_log_folder(path)
        return SlotRun(trigger, path, self._log_limiter.reserve_bytes)

    def _command(self, trigger: Trigger) -> tuple[str, ...]:
        return self._scripts.prepare(trigger) if trigger.script_language else ()

    def _on_placed(self, run: SlotRun, is_reused: bool) -> None:
        self._runs.start_timer(run)
        if is_reused:
            self._loop.call_soon(self._runs.mark_started, run, int(time.time() * 1000))

    def _fail_soon(self, run: SlotRun, failure: Reason) -> None:
        self._loop.call_soon(self._finish, run, Exit(failure=failure))

    def _order_end(self, run_id: int, stop: Stop) -> bool:
        run = self._runs.get(run_id)
        if run is None:
            return False
        self._stop(run, stop, self._options.grace_seconds)
        return run_id in self._runs.ids

    def _on_timeout(self, run: SlotRun, stop: Stop) -> None:
        self._stop(run, stop, self._options.grace_seconds)

    def _stop(self, run: SlotRun, stop: Stop, grace_seconds: float) -> None:
        if run.stop is not None:
            return
        if run.process is not None:
            self._ahead.recall(run.process)
        if not self._runs.holds(run):
            return  # it has ended meanwhile, or was handed ahead and has not begun
        run.stop = stop
        run.grace_seconds = grace_seconds
        if run.process is not None:
            run.process.stop(grace_seconds)
        else:
            self._pool.cancel_waiting(run)
            self._loop.call_soon(self._finish, run, Exit())

    def _finish(self, run: SlotRun, exit_: Exit | None) -> None:
        """Report the end of a run of which nothing is left; `exit_` None: its process lives on."""
        if not self._runs.remove(run):
            return
        if run.command:
            self._scripts.discard(run.command)
        self._pool.place_waiting()
        self._runs.report_end(run, exit_)
        self._close_when_empty()

    # -- events of processes ------------------------------------------------------------------

    def _on_forked(self, forked: frames.Forked) -> None:
        process = self._pool.get(forked.number)
        if process is not None:
            process.pid = forked.pid
            if process.run is not None:
                self._runs.mark_started(process.run, forked.started_at_ms)

    def _on_result(self, process: JobProcess, result: frames.Result) -> None:
        run = process.run
        if run is None or run.trigger.run_id != result.run_id:
            return
        self._runs.mark_started(run, int(time.time() * 1000))  # it may arrive before `Forked`
        run.result = result
        if result.will_end:
            process.expect_exit(self._options.grace_seconds)
            self._ahead.recall(process)
        elif process.followers:
            self._go_on(process, run)
        elif process.is_ending:
            process.end(self._options.grace_seconds)  # it did not react to SIGTERM
        else:
            self._pool.make_idle(process)
            self._finish(run, None)

    def _on_misuse(self, process: JobProcess, why: Reason) -> None:
        """End a process that wrote something other than a result to its channel, and its run."""
        self._log.warning("channel_misused", pid=process.pid, handler=process.what, why=str(why))
        self._ahead.recall(process)
        if process.run is None:
            self._pool.stop_idle(process)
        elif process.run.result is None:
            self._stop(process.run, channel_misused(why), self._options.grace_seconds)

    def _on_exited(self, exited: frames.Exited) -> None:
        process = self._pool.get(exited.number)
        if process is None:
            return
        self._pool.remove(process)
        exit_ = self._exits.exited(process, exited)
        if exited.no_room and self._waits_for_exit(process):
            return
        self._after_exit(process, exit_, is_untaken=exited.is_untaken)

    def _on_stuck(self, process: JobProcess) -> None:
        """Give up a process that SIGKILL does not end, so that its run does not stay open."""
        self._pool.remove(process)
        self._after_exit(process, self._exits.stuck(process))

    def _after_exit(self, process: JobProcess, exit_: Exit, *, is_untaken: bool = False) -> None:
        never_began = self._ahead.take_from_gone(process) or is_untaken
        run = process.run
        if run is None:
            self._pool.place_waiting()
            self._close_when_empty()
        elif never_began and run.stop is None and exit_.failure is None:
            # An idle process, or a spare, died just as it got this run.
            run.detach()
            self._pool.place(run)
        else:
            self._finish(run, exit_)
        while process.followers:  # it has begun them, and their answers were lost
            follower = self._reach(process)
            self._events.went_on(follower.trigger.run_id)
            self._finish(follower, exit_)

    def _waits_for_exit(self, process: JobProcess) -> bool:
        """Let the run of a process that could not be forked wait for an idle one to exit."""
        run = process.run
        if run is None or run.stop is not None or not self._pool.make_room(run):
            return False
        run.detach()
        return True

    # -- runs handed ahead --------------------------------------------------------------------

    def _go_on(self, process: JobProcess, done: SlotRun) -> None:
        """Finish a run whose process has gone on with the next one by itself."""
        run = self._reach(process)
        self._runs.start_timer(run)
        self._finish(done, None)
        self._events.went_on(run.trigger.run_id)

    def _reach(self, process: JobProcess) -> SlotRun:
        run = self._ahead.reach(process)
        self._runs.add(run)
        return run

    def _on_not_begun(self, process: JobProcess, run: SlotRun) -> None:
        """Give back a run that its process was believed to have reached."""
        self._runs.remove(run)
        if not process.is_ending:
            self._pool.make_idle(process)
        self._events.returned(run.trigger.run_id)
        self._close_when_empty()

    # -- the zygote ---------------------------------------------------------------------------

    def _on_zygote_died(self, survivors: str) -> None:
        for process in self._pool.remove_all():
            if process.run is not None:
                self._after_exit(process, self._exits.lost_zygote(process, survivors))
        if self._supervisor.error:
            failure = Why.ZYGOTE_GONE(fault=self._supervisor.error)
            for run in self._pool.take_all_waiting():
                self._finish(run, Exit(failure=failure))
        self._close_when_empty()

    def _on_zygote_ready(self) -> None:
        self._catalogue = self._tell()
        self._pool.place_waiting()
        self._events.ready()

    def _tell(self) -> Told:
        found, missing = self._scripts.found()
        version = self._options.code_version or commit_of(self._supervisor.folder)
        handlers = self._supervisor.handlers
        return Told(
            Catalogue(handlers=handlers, languages=found, missing=missing, code_version=version)
        )

    # -- upkeep -------------------------------------------------------------------------------

    def _sweep(self) -> None:
        paths = [run.log_path for run in self._runs.all if run.process is not None]
        self._log_limiter.enforce(paths)
        self._line_times.look(paths)
        self._pool.end_idle()
        self._sweeps += 1
        if self._sweeps % _SWEEPS_PER_FIT == 0:
            self._pool.fit_idle()
        self._supervisor.watch(self._options.ping_seconds, self._options.silence_seconds)
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def _close_when_empty(self) -> None:
        """Continue `close`: first the runs, then the idle processes, then the zygote."""
        if self._closed is None or self._runs:
            return
        self._pool.end_idle(idle_for=0)
        if self._pool.is_empty and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
            self._supervisor.close(partial(self._closed.set_result, None))
            self._look_ahead.close()

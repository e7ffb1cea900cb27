"""The slots: starts, times, stops and finishes runs in job processes.

`Slots` has the runs that hold a slot or were assigned early, and the job processes that they run
in. Its table `LIFE`, at its end, says which events a run may have, and their effects: its methods.

A process belongs to one job, or to all jobs of one handler. A run gets an idle process that serves
it, otherwise a new one. Exiting processes count too: without room, a run waits for one of them.

Everything runs on the thread of one event loop. A run finishes exactly once, and only when nothing
of it is left: at its result if the process is clean and lives on, otherwise at exit.
"""

import asyncio
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, KeysView, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import structlog

from warren.broker.codec import EncodedCatalogue
from warren.broker.messages import Catalogue, Finished, Outcome, Trigger
from warren.broker.process_use import ProcessUse
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import from_json, to_json
from warren.executor.code_version import commit_of
from warren.executor.container import Host
from warren.executor.errors import ScriptRefused
from warren.executor.fork_server import frames, linux
from warren.executor.fork_server.termination import end_marked
from warren.executor.handlers.hooks import JobCode
from warren.executor.handlers.outcomes import cut
from warren.executor.processes.interface import Owner, SlotEvents, SlotOptions, SlotPool
from warren.executor.processes.job_processes import (
    EarlyRuns,
    IdleLimit,
    IdleProcesses,
    JobProcess,
    SlotRun,
)
from warren.executor.processes.script_files import Scripts
from warren.executor.processes.supervisor import ForkServerSupervisor
from warren.executor.run_life import (
    Event,
    Exit,
    SlotEvent,
    SlotPhase,
    Stop,
    conclude,
    cut_off,
    killed,
    timed_out,
)
from warren.executor.run_logs import FinishedLog, LineTimes, LogLimiter, RunLogs
from warren.resources.spelling import nearest

#: Seconds between two checks of log sizes and idle processes.
SWEEP_SECONDS = 0.5
#: Sweeps between two looks at the memory that idle processes take.
_SWEEPS_PER_FIT = 6
Effect = Callable[["Slots", SlotRun], None]


class Slots(SlotPool):
    """The slots of one executor; the options say how many.

    `events.ready` is called when a new zygote has replaced a dead one, so that `free` has grown.
    Scripts run from files in `script_folder`, which is emptied at the start. Job processes note
    what they begin in files in `notes_folder`; without it they get one run at a time.
    """

    def __init__(
        self,
        code: JobCode,
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
        self._scripts = Scripts(script_folder, options.script_languages, self._confinement)
        self._supervisor = ForkServerSupervisor(
            loop=loop,
            code=code,
            confinement=self._confinement,
            on_ready=self._on_zygote_ready,
            on_forked=self._on_forked,
            on_exited=self._on_exited,
            on_died=self._on_zygote_died,
        )
        self._early_runs = EarlyRuns(
            loop, notes_folder, options.batch_seconds, partial(self._apply, SlotEvent.NOT_BEGUN)
        )
        self._processes: dict[int, JobProcess] = {}
        self._idle = IdleProcesses()
        self._idle_limit = IdleLimit(
            options.idle_count,
            slots=options.count,
            spares=options.spare_count,
            job_processes=options.confinement.limits.processes,
            host=Host(),
        )
        #: Runs that wait for a process of another job to exit.
        self._waiting: deque[SlotRun] = deque()
        self._last_number = 0
        #: Processes up to this number have old code.
        self._outdated = 0
        self._oom = linux.OomWatch()
        #: The runs that hold a slot.
        self._runs: dict[int, SlotRun] = {}
        self._catalogue: EncodedCatalogue | None = None
        self._sweeps = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    # -- for the executor ---------------------------------------------------------------------

    @property
    def handlers(self) -> tuple[str, ...]:
        """The names of the handlers, sorted."""
        return tuple(handler.name for handler in self._supervisor.handlers)

    @property
    def catalogue(self) -> EncodedCatalogue | None:
        """What can be run here, according to the last zygote."""
        return self._catalogue

    @property
    def away(self) -> Reason | None:
        """Why no process can be started: the zygote died and will not be replaced soon."""
        fault = self._supervisor.fault(self._options.slow_seconds)
        return Why.ZYGOTE_GONE(fault=fault) if fault else None

    @property
    def lacks_spares(self) -> bool:
        """Whether the last spare processes kept failing."""
        return self._supervisor.lacks_spares

    @property
    def free(self) -> int:
        """How many runs could be started now; 0 while there is no zygote."""
        if not self._supervisor.is_ready or self._closed is not None:
            return 0
        # Those that wait for runs that they called leave their slots to others.
        awaiting = sum(bool(run.awaited) for run in self._runs.values())
        return max(0, self._options.count - (len(self._runs) - awaiting))

    @property
    def running(self) -> KeysView[int]:
        """The ids of runs that were started and have not finished."""
        return self._runs.keys()

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
        self._catalogue = self._make_catalogue()
        return self.handlers

    def lacks_handler(self, trigger: Trigger) -> bool:
        """Whether the last zygote has no such handler; scripts need none."""
        return not trigger.script_language and trigger.handler not in self._supervisor.by_name

    def schema_of(self, handler: str) -> str:
        """Return the JSON Schema of a handler's params; "" = it has none, or is unknown."""
        facts = self._supervisor.by_name.get(handler)
        return "" if facts is None else facts.schema

    def owner_of(self, trigger: Trigger) -> Owner | None:
        use = self._use(trigger)
        return None if use == ProcessUse.FRESH else Owner.of(trigger, use)

    def batch_size(self, owner: Owner) -> int:
        """Return how many runs a process of this owner may be given at once."""
        return self._early_runs.batch_size(owner)

    def start(self, trigger: Trigger, *others: Trigger) -> None:
        """Start a run; requires `free`. Any failure is reported as its end.

        An idle process of the same owner gets the others too, to continue with.
        """
        if not self.free or trigger.run_id in self._runs:
            raise RuntimeError(f"expected run {trigger.run_id} to be new and a slot to be free")
        run = self._slot_run(trigger)
        refusal = self._prepare(run)
        followers = [self._slot_run(other) for other in others]
        self._runs[trigger.run_id] = run
        if refusal is not None:
            run.exit = Exit(failure=refusal)
            self._apply(SlotEvent.UNPLACED, run)
            return
        self._apply(self._place(run, followers), run)
        for follower in followers:
            if follower.process is not None:
                self._apply(SlotEvent.ASSIGNED_EARLY, follower)

    def has_begun(self, run_id: int) -> bool:
        """Whether a run is known to have begun; its process may stall just before."""
        run = self._runs.get(run_id)
        return run is None or self._early_runs.has_begun(run)

    def is_assigned_early(self, run_id: int) -> bool:
        return self._early_runs.get(run_id) is not None

    def recall(self, run_id: int) -> bool:
        """Take back what was assigned early with this run; return False if this run still is."""
        run = self._runs.get(run_id) or self._early_runs.get(run_id)
        if run is not None:
            self._early_runs.recall(run.process)
        return not self.is_assigned_early(run_id)

    def recall_all(self) -> None:
        """Take back every run that a process has but has not begun."""
        for process in list(self._processes.values()):
            self._early_runs.recall(process)

    def stop(self, run_id: int, why: Words) -> bool:
        return self._stop_by_id(run_id, killed(why), self._options.grace_seconds)

    def cut_off(self, run_id: int) -> bool:
        return self._stop_by_id(run_id, cut_off(), self._options.grace_seconds)

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":
        """Cut off all runs and end all processes; the future is done when none is left."""
        if self._closed is None:
            self._closed = self._loop.create_future()
            for run_id in list(self._runs):
                self._stop_by_id(run_id, cut_off(), grace_seconds)
            self._close_when_empty()
        return self._closed

    def reload(self, then: Callable[[str], None]) -> None:
        """Reload the handlers; runs that start afterwards use the new code.

        `then` gets "" once that is done, or why it failed and the old code stays in use.
        """

        def take(why: str) -> None:
            if not why:
                self.recall_all()
                self._outdated = self._last_number
                self._end_idle()
            then(why)

        self._supervisor.reload(take)

    # -- a run comes and is stopped -----------------------------------------------------------

    def _slot_run(self, trigger: Trigger) -> SlotRun:
        path = self._run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        self._confinement.prepare_log_folder(path)
        use = self._use(trigger)
        return SlotRun(trigger, path, use=use, log_reserve=self._log_limiter.reserve_bytes)

    def _use(self, trigger: Trigger) -> ProcessUse:
        """Return which runs its process serves, as its job, its handler or the options say."""
        if trigger.script_language:
            return ProcessUse.FRESH
        facts = self._supervisor.by_name.get(trigger.handler)
        of_handler = None if facts is None else facts.process
        use = trigger.process or of_handler or self._options.process
        # Another run of such a job is rare: a process kept for it would take the place of a useful
        # one, and ending it costs more than letting it exit.
        return ProcessUse.FRESH if trigger.one_time and use == ProcessUse.JOB else use

    def _prepare(self, run: SlotRun) -> Reason | None:
        """Write a script's file; return why a run gets no process, None if it does."""
        if run.trigger.script_language:
            try:
                run.command = self._scripts.prepare(run.trigger)
            except ScriptRefused as error:
                return error.reason
        if self.lacks_handler(run.trigger):
            name = run.trigger.handler
            if near := nearest(name, self._supervisor.by_name):
                return Why.HANDLER_GONE_NEAR(name=name, near=near)
            return Why.HANDLER_GONE(name=name)
        return None

    def _stop_by_id(self, run_id: int, stop: Stop, grace_seconds: float) -> bool:
        """End a run; return whether it is still there, to finish soon."""
        run = self._runs.get(run_id)
        if run is not None:
            self._stop(run, stop, grace_seconds)
        return run_id in self._runs

    def _stop(self, run: SlotRun, stop: Stop, grace_seconds: float) -> None:
        if run.stop is None:
            self._early_runs.recall(run.process)  # it may have ended, or not begun: then it is GONE
            run.stop, run.grace_seconds = stop, grace_seconds
            self._apply(SlotEvent.STOP, run)

    # -- the processes ------------------------------------------------------------------------

    def _place(self, run: SlotRun, followers: Sequence[SlotRun] = ()) -> SlotEvent:
        """Give a run to an idle process of its job, or to a new one now or later; return the event.

        An idle process may be assigned some of the `followers` early, in order.
        """
        is_shared = not run.needs_own_process and run.owner is not None
        process = self._idle.take(run.owner) if is_shared else None
        if process is not None:
            left = self._options.runs_per_process - process.runs_begun - 1
            self._early_runs.give(process, run, followers, left=left)
            return SlotEvent.GIVEN_IDLE
        if self._has_room():
            return self._fork(run)
        self._waiting.append(run)
        exiting = sum(each.run is None and each.is_ending for each in self._processes.values())
        if exiting < len(self._waiting):
            self._end(self._idle.take_least_useful(self._idle.last_idle(run.owner)))
        return SlotEvent.CROWDED

    def _has_room(self) -> bool:
        most = self._options.count + self._idle_limit.most
        if len(self._processes) < most:
            return True
        awaiting = sum(bool(each.run and each.run.awaited) for each in self._processes.values())
        return len(self._processes) - awaiting < most

    def _fork(self, run: SlotRun) -> SlotEvent:
        """Request a process for a run, if a request is possible at all."""
        self._last_number += 1
        note = None if run.needs_own_process else self._early_runs.assign_note()
        try:
            process = JobProcess(
                loop=self._loop,
                supervisor=self._supervisor,
                number=self._last_number,
                owner=run.owner,
                note=note,
                on_answer=self._on_answer,
                on_misuse=self._on_misuse,
                on_stuck=self._on_stuck,
                stuck_seconds=self._options.stuck_seconds,
            )
        except OSError as error:
            self._early_runs.release_note(note)
            if self._make_room(run):
                return SlotEvent.CROWDED
            run.exit = Exit(failure=Why.NO_PROCESS(why=str(error.strerror)))
            return SlotEvent.UNPLACED
        self._processes[process.number] = process
        is_last = self._options.runs_per_process <= 1
        process.give([run], last=is_last or run.needs_own_process)
        return SlotEvent.GIVEN_NEW

    def _make_room(self, run: SlotRun) -> bool:
        """Let a run wait until an idle process has exited; return False if none is idle.

        For when the host cannot take another process.
        """
        oldest = self._idle.take_oldest()
        if oldest is not None:
            self._end(oldest)
            self._waiting.append(run)
        return oldest is not None

    def _place_waiting(self) -> None:
        """Fork processes for the runs that wait for one while there is room."""
        while self._waiting and self._has_room() and self._supervisor.is_ready:
            run = self._waiting.popleft()
            event = self._fork(run)
            self._apply(event, run)
            if event is not SlotEvent.GIVEN_NEW:
                return

    def _make_idle(self, process: JobProcess) -> None:
        """Let a process idle after its run; end the least useful one if there are too many.

        A process with old code ends.
        """
        process.run = None
        self._early_runs.end(process)
        if process.number <= self._outdated:
            self._end(process)
            return
        last_idle = self._idle.last_idle(process.owner)
        self._idle.add(process)
        if len(self._idle) > self._idle_limit.kept:
            self._end(self._idle.take_least_useful(last_idle))

    def _end_idle(self, most: int = sys.maxsize, *, idle_for: float = 0) -> None:
        """End idle processes, the longest idle first; up to `most` that have idled so long."""
        while most > 0 and (process := self._idle.take_oldest(idle_for)) is not None:
            self._end(process)
            most -= 1

    def _end(self, process: JobProcess | None) -> None:
        """End a process that was idle, if there is one."""
        if process is not None:
            process.end(self._options.grace_seconds)

    def _remove(self, process: JobProcess) -> None:
        """Remove a process that is gone or given up, after taking its last result."""
        process.close()
        self._early_runs.release_note(process.note)
        del self._processes[process.number]
        self._idle.discard(process)

    # -- what processes do --------------------------------------------------------------------

    def _on_forked(self, forked: frames.Forked) -> None:
        process = self._processes.get(forked.number)
        if process is None:
            return
        process.pid = forked.pid
        if process.run is not None:
            process.run.forked_at_ms = forked.started_at_ms
            self._apply(SlotEvent.FORKED, process.run)

    def _on_answer(self, process: JobProcess, answer: frames.FromJobProcess) -> None:
        if isinstance(answer, frames.Withheld):
            self._early_runs.on_withheld(process, answer.batch)
            return
        run = process.run
        if run is None or run.trigger.run_id != answer.run_id:
            return
        if isinstance(answer, frames.Told):
            self._events.progressed(answer.run_id, answer.progress)
        elif isinstance(answer, frames.Call):
            self._report_started(run)
            run.has_called = True
            self._events.called(answer, partial(process.keep, answer))
        elif isinstance(answer, frames.Await):
            self._wait_for(run, process, answer)
        else:
            self._report_started(run)  # the answer may arrive before `Forked`
            run.result = answer
            self._apply(self._answered(process, answer), run)

    def _wait_for(self, run: SlotRun, process: JobProcess, call: frames.Await) -> None:
        """Tell a run how its call has ended; until then, it leaves its slot to others."""
        if call.is_over:
            run.awaited.discard(call.number)
            return
        end = self._events.awaited(call)
        process.tell(frames.CallState(run_id=call.run_id, number=call.number, end=end))
        if end is not None:
            run.awaited.discard(call.number)
        elif call.number not in run.awaited:
            run.awaited.add(call.number)
            self._early_runs.recall(process)
            self._events.ready()

    def _answered(self, process: JobProcess, result: frames.Result) -> SlotEvent:
        """Return what a result means for its run."""
        if result.will_end:
            return SlotEvent.ANSWERED_LAST
        if self._early_runs.has_next(process):
            return SlotEvent.WENT_ON
        return SlotEvent.ANSWERED_LATE if process.is_ending else SlotEvent.ANSWERED

    def _on_misuse(self, process: JobProcess, why: Reason) -> None:
        """End a process that wrote something other than a result to its channel, and its run."""
        self._log.warning("channel_misused", pid=process.pid, handler=process.what, why=str(why))
        self._early_runs.recall(process)
        if process.run is None:
            self._idle.discard(process)
            process.stop(self._options.grace_seconds)
        elif process.run.result is None:
            self._stop(process.run, Stop(Outcome.FAILED, why), self._options.grace_seconds)

    def _on_exited(self, exited: frames.Exited) -> None:
        """Handle the end of a process and of its runs."""
        process = self._processes.get(exited.number)
        if process is None:
            return
        self._remove(process)
        if process.is_forced:
            self._log.warning("process_killed", pid=process.pid, handler=process.what)
        if exited.survivors:
            self._log.error("processes_survived", processes=exited.survivors)
        was_killed = exited.code == -signal.SIGKILL and not process.is_forced
        exit_ = Exit(
            code=exited.code,
            forced=process.is_forced,
            oom=was_killed and self._oom.has_killed(),
            survivors=exited.survivors,
            left=exited.left,
            left_count=exited.left_count,
            failure=from_json(exited.why) or exited.error or None,
        )
        self._take_exit(process, exit_, had_no_room=exited.no_room, is_untaken=exited.is_untaken)

    def _on_zygote_died(self, survivors: str) -> None:
        """Handle the end of all processes; if no other zygote follows, no run waits for one."""
        processes = list(self._processes.values())
        for process in processes:
            self._remove(process)
        for process in processes:
            if process.run is not None:
                failure = Why.ZYGOTE_DIED()
                exit_ = Exit(forced=process.is_forced, survivors=survivors, failure=failure)
                self._take_exit(process, exit_)
        if error := self._supervisor.error:
            waiting, self._waiting = self._waiting, deque()
            for run in waiting:
                run.exit = Exit(failure=Why.ZYGOTE_GONE(fault=error))
                self._apply(SlotEvent.EXITED, run)
        self._close_when_empty()

    def _on_stuck(self, process: JobProcess) -> None:
        """Give up a process that survives SIGKILL, so that its run does not stay open."""
        self._remove(process)
        name = f"{process.what} (pid {process.pid})"
        self._log.error("processes_survived", processes=name)
        self._take_exit(process, Exit(forced=process.is_forced, survivors=name))

    def _take_exit(
        self,
        process: JobProcess,
        exit_: Exit,
        *,
        had_no_room: bool = False,
        is_untaken: bool = False,
    ) -> None:
        """Handle the end of a removed process, for all its runs."""
        never_began = self._early_runs.never_began(process) or is_untaken
        run = process.run
        if run is None:
            self._place_waiting()
            self._close_when_empty()
        else:
            run.exit = exit_
            if had_no_room:
                event = SlotEvent.NO_ROOM
            elif never_began and exit_.failure is None:
                event = SlotEvent.EXITED_IDLE  # idle or spare, it died just as it got this run
            else:
                event = SlotEvent.EXITED
            self._apply(event, run)
        while self._early_runs.has_next(process):
            # It has begun them, and their answers were lost.
            follower = self._reach_next_of(process)
            follower.exit = exit_
            self._events.moved(follower.trigger.run_id, Event.REACHED)
            self._apply(SlotEvent.EXITED, follower)

    def _reach_next_of(self, process: JobProcess) -> SlotRun:
        run = self._early_runs.reach_next(process)
        self._apply(SlotEvent.REACHED, run)
        return run

    # -- the zygote ---------------------------------------------------------------------------

    def _on_zygote_ready(self) -> None:
        self._catalogue = self._make_catalogue()
        self._place_waiting()
        self._events.ready()

    def _make_catalogue(self) -> EncodedCatalogue:
        languages, missing = self._scripts.languages()
        version = self._options.code_version or commit_of(self._supervisor.folder)
        handlers = self._supervisor.handlers
        return EncodedCatalogue(
            Catalogue(handlers=handlers, languages=languages, missing=missing, code_version=version)
        )

    # -- upkeep -------------------------------------------------------------------------------

    def _sweep(self) -> None:
        paths = [run.log_path for run in self._runs.values() if run.process is not None]
        self._log_limiter.enforce(paths)
        self._line_times.look(paths)
        self._end_idle(self._options.ended_at_once, idle_for=self._options.idle_seconds)
        self._sweeps += 1
        if self._idle and self._sweeps % _SWEEPS_PER_FIT == 0:
            self._idle_limit.look(self._idle.pids)
            self._end_idle(len(self._idle) - self._idle_limit.kept)
        self._supervisor.watch(self._options.ping_seconds, self._options.silence_seconds)
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def _close_when_empty(self) -> None:
        """Continue `close`: first the runs, then the idle processes, then the zygote."""
        if self._closed is None or self._runs:
            return
        self._end_idle()
        if not self._processes and not self._waiting and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
            self._supervisor.close(partial(self._closed.set_result, None))
            self._early_runs.close()

    # -- events -------------------------------------------------------------------------------

    def _apply(self, event: SlotEvent, run: SlotRun) -> None:
        run.phase, effects = self.LIFE[run.phase][event]
        for effect in effects:
            effect(self, run)

    # -- the effects --------------------------------------------------------------------------

    def _start_timer(self, run: SlotRun) -> None:
        seconds = run.trigger.timeout_seconds
        if seconds > 0:
            stop, grace_seconds = timed_out(seconds), self._options.grace_seconds
            run.timer = self._loop.call_later(seconds, self._stop, run, stop, grace_seconds)

    def _report_started(self, run: SlotRun) -> None:
        if not run.started_at_ms:
            run.started_at_ms = run.forked_at_ms or int(time.time() * 1000)
            self._events.started(run.trigger.run_id)

    def _report_started_soon(self, run: SlotRun) -> None:
        self._loop.call_soon(self._report_started, run)

    def _take_slot(self, run: SlotRun) -> None:
        self._runs[run.trigger.run_id] = run
        run.started_at_ms = int(time.time() * 1000)

    def _forget(self, run: SlotRun) -> None:
        run.process = None
        self._events.moved(run.trigger.run_id, Event.HANDED_BACK)

    def _give_back(self, run: SlotRun) -> None:
        process = run.process
        self._leave_slot(run)
        run.process = None
        if process is not None:
            process.run = None
            if not process.is_ending:
                self._make_idle(process)
        self._events.moved(run.trigger.run_id, Event.NOT_BEGUN)
        self._close_when_empty()

    def _rest_process(self, run: SlotRun) -> None:
        assert run.process is not None
        self._make_idle(run.process)

    def _reach_next(self, run: SlotRun) -> None:
        assert run.process is not None
        self._reach_next_of(run.process)

    def _report_reached(self, run: SlotRun) -> None:
        assert run.process is not None
        if run.process.run is not None:
            self._events.moved(run.process.run.trigger.run_id, Event.REACHED)

    def _wait_for_exit(self, run: SlotRun) -> None:
        assert run.process is not None
        run.process.expect_exit(self._options.grace_seconds)
        self._early_runs.recall(run.process)

    def _ask_to_exit(self, run: SlotRun) -> None:
        assert run.process is not None
        run.process.end(self._options.grace_seconds)  # it did not react to SIGTERM

    def _end_process(self, run: SlotRun) -> None:
        assert run.process is not None
        run.process.stop(run.grace_seconds)

    def _leave_queue(self, run: SlotRun) -> None:
        with suppress(ValueError):  # it may not be in it any more
            self._waiting.remove(run)
        run.exit = Exit()

    def _wait_for_room(self, run: SlotRun) -> None:
        """Let the run of a process that could not be forked wait for an idle one to exit."""
        if self._make_room(run):
            run.detach()
        else:
            self._apply(SlotEvent.EXITED, run)

    def _place_again(self, run: SlotRun) -> None:
        run.detach()
        self._apply(self._place(run), run)

    def _end_soon(self, run: SlotRun) -> None:
        self._loop.call_soon(self._apply, SlotEvent.OVER, run)

    def _report_end(self, run: SlotRun) -> None:
        """Report the end of a run whose processes are all gone."""
        self._leave_slot(run)
        self._place_waiting()
        self._events.finished(self._conclude(run), None)
        self._close_when_empty()

    def _leave_slot(self, run: SlotRun) -> None:
        del self._runs[run.trigger.run_id]
        run.cancel_timer()

    def _conclude(self, run: SlotRun) -> Finished:
        """Return the end of a run that has left its slot; delete its script's file."""
        if run.command:
            self._scripts.discard(run.command)
        log = self._finished_log(run)
        outcome, message = conclude(
            stop=run.stop,
            result=run.result,
            exit_=run.exit,
            grace_seconds=run.grace_seconds,
            is_script=bool(run.command),
            log_error=log.error,
        )
        failure = run.result if run.stop is None and outcome is Outcome.FAILED else None
        return Finished(
            run_id=run.trigger.run_id,
            boot_id=run.trigger.boot_id,
            outcome=outcome,
            message=cut(str(message)),
            why=to_json(message),
            started_at_ms=run.started_at_ms,
            finished_at_ms=int(time.time() * 1000),
            log_tail=log.tail,
            result=run.result.returned if run.result and outcome is Outcome.SUCCEEDED else "",
            may_retry=failure is None or failure.may_retry,
            retry_seconds=None if failure is None else failure.retry_seconds,
        )

    def _finished_log(self, run: SlotRun) -> FinishedLog:
        result = run.result
        if run.exit is not None or result is None:
            return self._log_limiter.close(run.log_path)
        if self._log_limiter.needs_cut(run.log_path, result.log_bytes):
            return self._log_limiter.close(run.log_path)
        return self._log_limiter.check(run.log_path, result.log_tail)

    # -- the table ----------------------------------------------------------------------------

    _CONTINUE = (SlotPhase.GONE, (_reach_next, _report_end, _report_reached))
    _END = (SlotPhase.GONE, (_report_end,))

    #: For each state and event of a run: the next state, and the effects in their order.
    LIFE: ClassVar[Mapping[SlotPhase, Mapping[SlotEvent, tuple[SlotPhase, tuple[Effect, ...]]]]] = {
        SlotPhase.QUEUED: {
            SlotEvent.GIVEN_NEW: (SlotPhase.RUNNING, (_start_timer,)),
            SlotEvent.GIVEN_IDLE: (SlotPhase.RUNNING, (_start_timer, _report_started_soon)),
            SlotEvent.ASSIGNED_EARLY: (SlotPhase.ASSIGNED_EARLY, ()),
            SlotEvent.CROWDED: (SlotPhase.QUEUED, ()),
            SlotEvent.UNPLACED: (SlotPhase.ENDING, (_end_soon,)),
            SlotEvent.STOP: (SlotPhase.ENDING, (_leave_queue, _end_soon)),
            SlotEvent.EXITED: _END,
        },
        SlotPhase.ASSIGNED_EARLY: {
            SlotEvent.REACHED: (SlotPhase.RUNNING, (_take_slot, _start_timer)),
            SlotEvent.NOT_BEGUN: (SlotPhase.GONE, (_forget,)),
        },
        SlotPhase.RUNNING: {
            SlotEvent.FORKED: (SlotPhase.RUNNING, (_report_started,)),
            SlotEvent.NOT_BEGUN: (SlotPhase.GONE, (_give_back,)),
            SlotEvent.ANSWERED: (SlotPhase.GONE, (_rest_process, _report_end)),
            SlotEvent.WENT_ON: _CONTINUE,
            SlotEvent.ANSWERED_LAST: (SlotPhase.ANSWERED, (_wait_for_exit,)),
            SlotEvent.ANSWERED_LATE: (SlotPhase.ANSWERED, (_ask_to_exit,)),
            SlotEvent.STOP: (SlotPhase.STOPPING, (_end_process,)),
            SlotEvent.EXITED: _END,
            SlotEvent.EXITED_IDLE: (SlotPhase.QUEUED, (_place_again,)),
            SlotEvent.NO_ROOM: (SlotPhase.QUEUED, (_wait_for_room,)),
        },
        SlotPhase.ANSWERED: {
            SlotEvent.FORKED: (SlotPhase.ANSWERED, ()),
            SlotEvent.NOT_BEGUN: (SlotPhase.ANSWERED, ()),
            SlotEvent.WENT_ON: _CONTINUE,
            SlotEvent.ANSWERED_LAST: (SlotPhase.ANSWERED, (_wait_for_exit,)),
            SlotEvent.ANSWERED_LATE: (SlotPhase.ANSWERED, (_ask_to_exit,)),
            SlotEvent.STOP: (SlotPhase.STOPPING, (_end_process,)),
            SlotEvent.EXITED: _END,
            SlotEvent.EXITED_IDLE: _END,
            SlotEvent.NO_ROOM: _END,
        },
        SlotPhase.STOPPING: {
            SlotEvent.FORKED: (SlotPhase.STOPPING, (_report_started,)),
            SlotEvent.NOT_BEGUN: (SlotPhase.STOPPING, ()),
            SlotEvent.WENT_ON: _CONTINUE,
            SlotEvent.ANSWERED_LAST: (SlotPhase.STOPPING, (_wait_for_exit,)),
            SlotEvent.ANSWERED_LATE: (SlotPhase.STOPPING, (_ask_to_exit,)),
            SlotEvent.STOP: (SlotPhase.STOPPING, ()),
            SlotEvent.EXITED: _END,
            SlotEvent.EXITED_IDLE: _END,
            SlotEvent.NO_ROOM: _END,
        },
        SlotPhase.ENDING: {
            SlotEvent.STOP: (SlotPhase.ENDING, ()),
            SlotEvent.OVER: _END,
        },
        SlotPhase.GONE: dict.fromkeys(SlotEvent, (SlotPhase.GONE, ())),
    }

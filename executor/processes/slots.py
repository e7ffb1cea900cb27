"""The slots: starts, times, stops and finishes runs in job processes.

What happens to a run in a slot is in `slot_runs`. This module prepares runs, and opens, maintains
and closes what they run in.

Everything runs on the thread of one event loop. A run finishes exactly once, and only when nothing
of it is left: at its result if the process is clean and lives on, otherwise at exit.
"""

import asyncio
import time
from collections.abc import Callable, KeysView, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import structlog

from warren.broker.codec import EncodedCatalogue
from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.values import Catalogue, ProcessUse
from warren.broker.reasons.codes import Reason, Why, Words
from warren.executor.code_version import commit_of
from warren.executor.errors import ScriptRefused
from warren.executor.fork_server import frames
from warren.executor.fork_server.termination import end_marked
from warren.executor.handlers.hooks import JobCode
from warren.executor.processes.endings import cut_off, killed
from warren.executor.processes.interface import Owner, SlotEvents, SlotOptions, SlotPool
from warren.executor.processes.job_process import SlotRun
from warren.executor.processes.run_ends import RunEnds
from warren.executor.processes.script_files import Scripts
from warren.executor.processes.slot_runs import SlotRuns
from warren.executor.processes.supervisor import ForkServerSupervisor
from warren.executor.run_logs import LineTimes, LogLimiter, RunLogs

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
        self._scripts = Scripts(script_folder, options.script_languages, self._confinement)
        self._supervisor = ForkServerSupervisor(
            loop=loop,
            code=JobCode(
                sources=tuple(sources),
                hooks=options.hooks,
                log_level=options.log_level,
                builtin=options.builtin,
                http_hosts=options.http_hosts,
                secrets_file=options.secrets_file,
                is_reloaded=options.is_reloaded,
                terminal=options.terminal,
            ),
            confinement=self._confinement,
            on_ready=self._on_zygote_ready,
            on_forked=self._on_forked,
            on_exited=self._on_exited,
            on_died=self._on_zygote_died,
        )
        self._runs = SlotRuns(
            loop,
            options=options,
            supervisor=self._supervisor,
            notes_folder=notes_folder,
            ends=RunEnds(self._log_limiter, self._scripts),
            events=events,
            on_change=self._close_when_empty,
        )
        self._pool = self._runs.pool
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
        """Why no process can be started for now: the zygote has died and is not replaced soon."""
        fault = self._supervisor.fault(self._options.slow_seconds)
        return Why.ZYGOTE_GONE(fault=fault) if fault else None

    @property
    def lacks_spares(self) -> bool:
        """Whether the last spare processes have failed one after the other."""
        return self._supervisor.lacks_spares

    @property
    def free(self) -> int:
        """How many runs could be started now; 0 while there is no zygote."""
        if not self._supervisor.is_ready or self._closed is not None:
            return 0
        taken = len(self._runs) - self._runs.awaiting_count
        return max(0, self._options.count - taken)

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
        """Return whom the process of a run serves; None if that serves no other run."""
        use = self._use(trigger)
        return None if use == ProcessUse.FRESH else Owner.of(trigger, use)

    def batch_size(self, owner: Owner) -> int:
        """Return how many runs a process of this owner may be given at once."""
        return self._runs.batch_size(owner)

    def start(self, trigger: Trigger, *others: Trigger) -> None:
        """Start a run; requires `free`. Any failure is reported as its end.

        An idle process of the same owner gets the others too, to continue with.
        """
        if not self.free or trigger.run_id in self._runs.ids:
            raise RuntimeError(f"expected run {trigger.run_id} to be new and a slot to be free")
        run = self._slot_run(trigger)
        refusal = self._prepare(run)
        if refusal is None:
            self._runs.start(run, [self._slot_run(other) for other in others])
        else:
            self._runs.refuse(run, refusal)

    def has_begun(self, run_id: int) -> bool:
        """Whether a run is known to have begun; its process may stall just before."""
        return self._runs.has_begun(run_id)

    def has_ahead(self, run_id: int) -> bool:
        """Whether a process was handed this run ahead, and has not been seen to reach it."""
        return self._runs.has_ahead(run_id)

    def recall(self, run_id: int) -> bool:
        """Take back what was given with this run; return False if it is still ahead."""
        return self._runs.recall(run_id)

    def recall_all(self) -> None:
        """Take back every run that a process has but has not begun."""
        self._runs.recall_all()

    def stop(self, run_id: int, why: Words) -> bool:
        """End a run, which then finishes KILLED; return False if it is not running."""
        return self._runs.stop(run_id, killed(why), self._options.grace_seconds)

    def cut_off(self, run_id: int) -> bool:
        """End a run because the executor shuts down; it finishes FAILED. Returns as `stop`."""
        return self._runs.stop(run_id, cut_off(), self._options.grace_seconds)

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":
        """Cut off all runs and end all processes; the future is done when none is left."""
        if self._closed is None:
            self._closed = self._loop.create_future()
            for run_id in list(self._runs.ids):
                self._runs.stop(run_id, cut_off(), grace_seconds)
            self._close_when_empty()
        return self._closed

    def reload(self, then: Callable[[str], None]) -> None:
        """Import the handlers anew; the runs that start from then on have the new code.

        `then` gets "" once that is so, or why it is not: then the old code goes on.
        """

        def take(why: str) -> None:
            if not why:
                self._runs.recall_all()
                self._pool.outdate()
            then(why)

        self._supervisor.reload(take)

    # -- a run comes and is stopped -----------------------------------------------------------

    def _slot_run(self, trigger: Trigger) -> SlotRun:
        path = self._run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        self._confinement.prepare_log_folder(path)
        self._run_logs.set_aside(path)
        use = self._use(trigger)
        return SlotRun(trigger, path, use=use, log_reserve=self._log_limiter.reserve_bytes)

    def _use(self, trigger: Trigger) -> ProcessUse:
        """Return which runs its process serves, as its job, its handler or the options say."""
        if trigger.script_language:
            return ProcessUse.FRESH
        facts = self._supervisor.by_name.get(trigger.handler)
        of_handler = None if facts is None else facts.process
        use = trigger.process or of_handler or self._options.process
        # Another run of such a job is rare: a process kept for it would take the place of one that
        # is used again, and be ended with more trouble than one that ends by itself.
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
            if near := get_close_matches(name, self._supervisor.by_name, 1):
                return Why.HANDLER_GONE_NEAR(name=name, near=near[0])
            return Why.HANDLER_GONE(name=name)
        return None

    # -- the zygote ---------------------------------------------------------------------------

    def _on_forked(self, forked: frames.Forked) -> None:
        self._runs.on_forked(forked)

    def _on_exited(self, exited: frames.Exited) -> None:
        self._runs.on_exited(exited)

    def _on_zygote_died(self, survivors: str) -> None:
        self._runs.on_zygote_died(survivors, self._supervisor.error)

    def _on_zygote_ready(self) -> None:
        self._catalogue = self._make_catalogue()
        self._runs.place_waiting()
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
        self._pool.end_all_idle()
        if self._pool.is_empty and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
            self._supervisor.close(partial(self._closed.set_result, None))
            self._runs.close()

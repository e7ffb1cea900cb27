"""An executor: its state folder, its thread, its boot and its shutdown. `core` does the work.

A shutdown takes these steps, each with its own timeout:

    draining announced, waiting runs returned ──> running ones may end (drain) ──> the rest is
    stopped (grace) ──> triggers that have arrived are returned ──> intake and slots closed
    ──> reports confirmed ──> logs stored ──> goodbye ──> done
"""

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from warren.broker.signing import AppKeys, Sealer
from warren.broker.transport import Transport
from warren.executor.begin_notes import OldNotes
from warren.executor.boot_context import BootContext, KnownEpoch, Limits
from warren.executor.core import Core
from warren.executor.disk import DiskWatch
from warren.executor.journal.file import Journal
from warren.executor.journal.run_states import RunStates
from warren.executor.messaging.heartbeat import SchedulerClock
from warren.executor.messaging.outbox import Identity
from warren.executor.processes.interface import SlotsFactory
from warren.executor.run_logs import RunLogs
from warren.executor.state_folder import LifeSigns, StateFolder

#: How often a step checks whether it is done.
POLL_SECONDS = 0.02


class Shutdown:
    """Runs the steps on the core's loop, then calls `on_over`."""

    def __init__(
        self,
        target: Core,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        *,
        on_over: Callable[[], None],
    ) -> None:
        self._target = target
        self._loop = loop
        self._limits = limits
        self._on_over = on_over
        #: How long stopped runs and their processes may take to disappear.
        self._stop_seconds = limits.grace_seconds + limits.proof_seconds
        self._steps: Iterator[bool] | None = None
        self._is_hurried = False
        #: Until when running jobs may continue; None: without a limit.
        self._drain_until: float | None = None

    def begin_drain(self) -> None:
        """Shut down, but wait for running jobs without a limit, unless `begin` is called."""
        self._start()

    def begin(self, *, hurry: bool) -> None:
        """Shut down; a second call with `hurry` stops waiting for running jobs."""
        self._is_hurried = self._is_hurried or hurry
        if self._drain_until is None:
            self._drain_until = self._loop.time() + self._limits.drain_seconds
        self._start()

    def _start(self) -> None:
        if self._steps is None:
            self._steps = self._walk()
            self._advance()

    def _advance(self) -> None:
        if self._steps is not None and next(self._steps, False):
            self._loop.call_later(POLL_SECONDS, self._advance)
        else:
            self._on_over()

    def _walk(self) -> Iterator[bool]:
        target = self._target
        target.begin_draining()
        yield from self._wait(lambda: target.is_working and not self._is_over_time)
        target.stop_runs()
        yield from self._wait(lambda: target.is_working, self._stop_seconds)
        target.finish_taking()
        yield from self._wait(lambda: target.has_untaken, self._limits.report_seconds)
        target.stop_taking()
        yield from self._wait(lambda: target.has_processes, self._stop_seconds)
        yield from self._wait(lambda: target.has_unconfirmed, self._limits.report_seconds)
        if target.is_storing_logs:
            yield from self._wait(
                lambda: target.is_storing_logs and not self._is_hurried, self._limits.store_seconds
            )
        target.close()

    @property
    def _is_over_time(self) -> bool:
        is_late = self._drain_until is not None and self._loop.time() >= self._drain_until
        return self._is_hurried or is_late

    def _wait(self, is_busy: Callable[[], bool], seconds: float = math.inf) -> Iterator[bool]:
        deadline = self._loop.time() + seconds
        while is_busy() and self._loop.time() < deadline:
            yield True
        # Events that other threads have posted by now are handled before the next step.
        yield True


@dataclass(frozen=True, slots=True)
class SchedulerLink:
    """How an executor reaches its schedulers, and the keys of its app, which authenticate it."""

    transport: Transport
    keys: AppKeys = field(repr=False)


class Executor:
    """One executor in a thread of its own; it can be started once.

    The `identity` may be that of an earlier boot to continue, which only remote runs allow.
    `make_slots` is `Slots` with everything but its events. `state` is the state folder if it is
    locked already, otherwise its parent folder. `log_folder` is the shared folder of a log store,
    `prints_logs` prints what runs write to standard output.
    After `join`, `failure` says in one line why the
    executor failed, and `exit_status` is the status for the process; `was_drained` says that a
    scheduler asked it to end, `was_refused` that another executor has its address, `was_replaced`
    that it was the one before, `was_clean` that it left nothing behind.
    """

    def __init__(
        self,
        identity: Identity,
        link: SchedulerLink,
        *,
        make_slots: SlotsFactory,
        run_logs: RunLogs,
        state: StateFolder | Path,
        limits: Limits,
        clock: SchedulerClock | None = None,
        log_folder: Path | None = None,
        prints_logs: bool = False,
    ) -> None:
        self._prints_logs = prints_logs
        self.identity = identity
        self.failure = ""
        self.was_drained = False
        self.was_refused = False
        self.was_replaced = False
        self._link = link
        self._make_slots = make_slots
        self._run_logs = run_logs
        self._state = state
        self._limits = limits
        self._log_folder = log_folder
        self._clock = clock or SchedulerClock()
        self._log = structlog.get_logger().bind(address=identity.address, boot_id=identity.boot_id)
        self._loop = asyncio.new_event_loop()
        self._on_beat: Callable[[], None] = lambda: None
        self._core: Core | None = None
        self._shutdown: Shutdown | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"executor {identity.address}", daemon=True
        )
        self._opened: Future[None] = Future()

    @property
    def exit_status(self) -> int:
        """0 after an ordered stop, 1 after a failure."""
        return 1 if self.failure else 0

    @property
    def was_clean(self) -> bool:
        """Whether it said goodbye, with nothing left to run or to report."""
        return self._core is not None and self._core.was_clean

    @property
    def is_settled(self) -> bool:
        """Whether no run is open and the broker has every report."""
        return self._core is not None and self._core.is_settled

    @property
    def counts(self) -> dict[str, int]:
        """How many triggers were taken, duplicate, expired, Forged and so on, by kind."""
        return self._core.counts() if self._core else {}

    @property
    def is_taking(self) -> bool:
        """Whether it was welcomed and takes triggers."""
        return self._core is not None and self._core.is_taking

    @property
    def is_alive(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._thread.is_alive()

    def start(self, on_beat: Callable[[], None] | None = None) -> None:
        """Start, and return once heartbeats are being sent.

        `on_beat` is called about once a second by the core's thread while that works.

        Raises:
            StateFolderInUse: another process holds the state folder.
            ExecutorError: the handlers cannot be loaded, or what else `make_slots` raises.
            OSError: the state folder cannot be used.

        """
        self._on_beat = on_beat or self._on_beat
        self._thread.start()
        self._opened.result()

    def stop(self, *, hurry: bool = False) -> None:
        """Begin to shut down, and return at once; a second call with `hurry` ends running jobs.

        May be called from any thread and from signal handlers.
        """
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._end, hurry)

    def drain(self) -> None:
        """Begin to shut down, but let running jobs take as long as they need; as `stop`."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._begin_drain)

    def adopt(self, journal: bytes, then: Callable[[str], None]) -> None:
        """Continue what an earlier boot of its address left elsewhere; thread-safe.

        `then` gets "" on the core's thread once that is in the journal here, or why it cannot be.
        """
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._adopt, journal, then)

    def reload(self, then: Callable[[str], None]) -> None:
        """Reload the handlers, from any thread; runs that start later use the new code.

        `then` gets "" on the core's thread, or a line that says why the old code stays in use.
        """
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._reload, then)

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; return whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    # -- the core's thread --------------------------------------------------------------------

    def _run(self) -> None:
        # Job processes get their parent-death signal when this thread ends, so it ends last.
        try:
            with contextlib.ExitStack() as held:
                held.callback(self._loop.close)
                self._open(held)
                self._opened.set_result(None)
                self._loop.run_forever()
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
        except Exception as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)  # `start` raises it, with everything released

    def _open(self, held: contextlib.ExitStack) -> None:
        self._loop.set_exception_handler(self._failed)
        folder = self._state
        if isinstance(folder, Path):
            folder = StateFolder(folder, self.identity.address)
        held.callback(folder.release)
        life_signs = LifeSigns(folder.path, self.identity, self._on_beat)
        held.callback(life_signs.end)
        notes = OldNotes(folder.notes_folder)
        run_states = RunStates(Journal(folder.journal_path), self._log, notes=notes)
        held.callback(run_states.close)
        context = BootContext(
            identity=self.identity,
            loop=self._loop,
            transport=self._link.transport,
            sealer=Sealer(self._link.keys, None, self._clock.now_ms),
            run_states=run_states,
            known_epoch=KnownEpoch(folder.epoch_path),
            clock=self._clock,
            limits=self._limits,
            make_slots=self._make_slots,
            run_logs=self._run_logs,
            disks=DiskWatch([self._run_logs.folder, folder.path], self._run_logs.reserve),
            state_folder=folder.path,
            script_folder=folder.script_folder,
            notes_folder=notes.path_of(self.identity.boot_id),
            life_signs=life_signs,
            log=self._log,
            log_folder=self._log_folder,
            prints_logs=self._prints_logs,
        )
        core = self._core = Core(context, self._refused, self._drain_received)
        self._shutdown = Shutdown(
            core,
            self._loop,
            self._limits,
            on_over=self._loop.stop,
        )
        core.start()

    def _end(self, hurry: bool) -> None:
        if self._shutdown is not None:
            self._shutdown.begin(hurry=hurry)

    def _reload(self, then: Callable[[str], None]) -> None:
        if self._core is not None:
            self._core.reload(then)

    def _adopt(self, journal: bytes, then: Callable[[str], None]) -> None:
        if self._core is not None:
            self._core.adopt(journal, then)

    def _begin_drain(self) -> None:
        if self._shutdown is not None:
            self._shutdown.begin_drain()

    def _drain_received(self) -> None:
        if not self.was_drained:
            self.was_drained = True
            self._log.info("drain_received")
            self._begin_drain()

    def _refused(self, reason: str) -> None:
        address = self.identity.address
        self.was_refused = True
        self.was_replaced = self._core is not None and self._core.has_begun
        self.failure = f"address {address} is in use by another running executor"
        self._log.error("executor_refused", why=reason)
        self._end(hurry=True)

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._log.error(
            "core_callback_failed", error=context.get("message"), exc_info=context.get("exception")
        )

"""An executor: its state folder, its thread, its boot. What it does is the core's."""

import asyncio
import contextlib
import secrets
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import structlog

from broker.signing import Sealer
from broker.topology import check_address, check_app
from broker.transport import Transport
from executor.clock import SchedulerClock
from executor.core import Core
from executor.journal import Journal
from executor.ledger import Ledger
from executor.premises import Limits, Premises
from executor.runlog import RunLogs
from executor.sender import Identity
from executor.shutdown import Shutdown
from executor.slotpool import SlotsFactory
from executor.statefolder import StateFolder


class Executor:
    """One executor in a thread of its own; it is started once.

    `secret` is the cluster's. `make_slots` is `Slots` with all but its callbacks. The journal is
    kept in `<state_dir>/<address>/`. After `join`, `failure` says in one line why it ended by
    itself, and `exit_status` is what the process should end with; `was_drained` says that it ends,
    or ended, because somebody asked for it through the schedulers.
    """

    def __init__(
        self,
        *,
        app: str,
        address: str,
        transport: Transport,
        secret: str,
        make_slots: SlotsFactory,
        run_logs: RunLogs,
        state_dir: Path,
        limits: Limits,
        clock: SchedulerClock | None = None,
    ) -> None:
        self.identity = Identity(
            app=check_app(app), address=check_address(address), boot_id=secrets.token_hex(8)
        )
        self.failure = ""
        self.was_drained = False
        self._transport = transport
        self._secret = secret
        self._make_slots = make_slots
        self._run_logs = run_logs
        self._state_dir = state_dir
        self._limits = limits
        self._clock = clock or SchedulerClock()
        self._log = structlog.get_logger().bind(address=address, boot_id=self.identity.boot_id)
        self._loop = asyncio.new_event_loop()
        self._core: Core | None = None
        self._shutdown: Shutdown | None = None
        self._thread = threading.Thread(target=self._run, name=f"executor {address}", daemon=True)
        self._opened: Future[None] = Future()

    @property
    def exit_status(self) -> int:
        """0 after an ordered stop, 1 after a failure."""
        return 1 if self.failure else 0

    @property
    def counts(self) -> dict[str, int]:
        """How many triggers were taken, duplicate, expired, Forged and so on."""
        return self._core.counts() if self._core else {}

    @property
    def is_taking(self) -> bool:
        """Whether it was welcomed and takes triggers."""
        return self._core is not None and self._core.is_taking

    @property
    def is_alive(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start, and return when signs of life are being sent.

        Raises:
            StateFolderInUse: another process holds the state folder.
            ExecutorError: the handlers cannot be loaded, or whatever else `make_slots` says.
            OSError: the state folder cannot be used.

        """
        self._thread.start()
        self._opened.result()

    def stop(self, *, hurry: bool = False) -> None:
        """Begin to end, and return at once; a second call with `hurry` ends running jobs now.

        May be called from any thread and from a signal handler's.
        """
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._end, hurry)

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait until it has ended; return whether it has."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    # -- the core's thread --------------------------------------------------------------------

    def _run(self) -> None:
        # The job processes' parent-death signal follows this thread, so it lives to the end.
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
            self._opened.set_exception(error)  # it is raised in `start`, with all released

    def _open(self, held: contextlib.ExitStack) -> None:
        self._loop.set_exception_handler(self._failed)
        folder = StateFolder(self._state_dir, self.identity.address)
        held.callback(folder.release)
        ledger = Ledger(Journal(folder.journal_path), self._log)
        held.callback(ledger.close)
        premises = Premises(
            identity=self.identity,
            loop=self._loop,
            transport=self._transport,
            sealer=Sealer(self._secret, None, self._clock.now_ms),
            ledger=ledger,
            clock=self._clock,
            limits=self._limits,
            make_slots=self._make_slots,
            run_logs=self._run_logs,
            script_folder=folder.script_folder,
            log=self._log,
        )
        core = self._core = Core(premises, self._refused, self._drain)
        self._shutdown = Shutdown(
            core,
            self._loop,
            drain_seconds=self._limits.drain_seconds,
            grace_seconds=self._limits.grace_seconds,
            on_over=self._loop.stop,
        )
        core.start()

    def _end(self, hurry: bool) -> None:
        if self._shutdown is not None:
            self._shutdown.begin(hurry=hurry)

    def _drain(self) -> None:
        if self._shutdown is not None and not self.was_drained:
            self.was_drained = True
            self._log.info("drain_received")
            self._shutdown.begin_patiently()

    def _refused(self, reason: str) -> None:
        address = self.identity.address
        self.failure = f"address {address} is held by another living executor"
        self._log.error("executor_refused", why=reason)
        self._end(hurry=True)

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._log.error(
            "core_callback_failed", error=context.get("message"), exc_info=context.get("exception")
        )

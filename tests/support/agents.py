"""An executor on an in-memory broker, with scripted slots and a fake scheduler."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tests.support.fake_scheduler import SECRET, FakeScheduler
from tests.support.scripted_slots import ScriptedSlots
from warren.broker.memory import MemoryBroker
from warren.broker.messages import Finished, boot_seconds
from warren.broker.signing import AppKeys
from warren.broker.transport import Transport
from warren.executor.agent import Executor, SchedulerLink
from warren.executor.boot_context import Limits
from warren.executor.journal.file import AnyRecord, Journal, from_line
from warren.executor.messaging.heartbeat import SchedulerClock
from warren.executor.messaging.outbox import Identity
from warren.executor.processes.interface import SlotsFactory
from warren.executor.run_logs import RunLogs


class AgentCase:
    """Boots executors one after another on one state folder; `slots` are the latest boot's."""

    def __init__(
        self,
        folder: Path,
        *,
        make_slots: SlotsFactory | None = None,
        connect: Callable[[], Transport] | None = None,
    ) -> None:
        self.state_dir = folder / "state"
        self.run_logs = RunLogs(folder / "logs")
        self.log_folder = folder / "logs"
        self.broker = MemoryBroker()
        self._connect = connect or self.broker.transport
        self.desk = FakeScheduler(self._connect())
        self.slot_count = 4
        self.limits = Limits(slots=4, grace_seconds=0.2, drain_seconds=0.2)
        self.executors: list[Executor] = []
        #: The latest boot's.
        self.clock: SchedulerClock
        self.slots: ScriptedSlots
        self._make_slots = make_slots or self._script_slots
        self._skipped_seconds = 0.0
        #: How far the host's clock is ahead of the schedulers' clock.
        self.host_ahead_seconds = 0.0

    def boot(
        self, *, welcomed: bool = True, state_dir: Path | None = None, boot_id: str = ""
    ) -> Executor:
        """Start an executor and wait for its welcome."""
        executor = self.make(state_dir=state_dir, boot_id=boot_id)
        executor.start()
        if welcomed:
            eventually(lambda: self.desk.boot_id == executor.identity.boot_id)
            eventually(lambda: executor.is_taking)
        return executor

    def make(self, *, state_dir: Path | None = None, boot_id: str = "") -> Executor:
        """Return an executor that is not started yet."""
        self.clock = SchedulerClock(
            monotonic=lambda: boot_seconds() + self._skipped_seconds,
            wall=lambda: time.time() + self.host_ahead_seconds,
        )
        executor = Executor(
            Identity.checked("demo", "exec-1", boot_id),
            SchedulerLink(self._connect(), AppKeys.derived("demo", SECRET)),
            make_slots=self._make_slots,
            run_logs=self.run_logs,
            state=state_dir or self.state_dir,
            limits=self.limits,
            clock=self.clock,
        )
        self.executors.append(executor)
        return executor

    def skip_seconds(self, seconds: float) -> None:
        """Let the executors' monotonic clock jump, as after a SIGSTOP or suspend."""
        self._skipped_seconds += seconds

    def settle(self) -> None:
        """Return once the core has handled everything sent to it before.

        Sends a run of its own that passes through everything else in the run queue.
        """
        marker = 900_000_000 + len(self.desk.heard)
        self.desk.send_trigger(marker, handler="none of that name")
        self.desk.expect(marker, Finished)

    def starts_of(self, run_id: int) -> int:
        """Return how many processes the latest boot started for a run."""
        return sum(trigger.run_id == run_id for trigger in list(self.slots.started))

    def records(self, folder: Path | None = None) -> list[AnyRecord | None]:
        """Return the journal's records."""
        journal = Journal((folder or self.state_dir) / "exec-1" / "journal")
        try:
            return [from_line(line) for line in journal.read()]
        finally:
            journal.close()

    def freeze_journal(self, into: Path) -> Path:
        """Copy the current state folder: what a SIGKILL now would leave."""
        # Its sign of life is replaced every second, maybe while it is copied.
        shutil.copytree(self.state_dir, into, ignore=shutil.ignore_patterns("alive.new"))
        return into

    def close(self) -> None:
        for executor in self.executors:
            if executor.is_alive:
                executor.stop(hurry=True)
        for executor in self.executors:
            assert executor.join(60)
        self.desk.close()

    def _script_slots(self, **hooks: Any) -> ScriptedSlots:
        self.slots = ScriptedSlots(count=self.slot_count, **hooks)
        return self.slots

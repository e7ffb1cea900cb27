"""The runs that job processes were handed ahead and have not reached, as far as is known.

    handed ahead ──the run before it has answered──> reached
         └─ withdrawn, or its process is gone: it goes back to its lane

A process goes on by itself, so what is known here may be late. Its begin note tells what has begun,
and only what has not begun by that note is taken back.
"""

import time
from collections.abc import Callable

from warren.executor.processes.job_process import JobProcess, SlotRun
from warren.executor.processes.look_ahead import Batch


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

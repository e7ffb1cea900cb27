"""The runs that a job process is handed ahead, so that it does not have to wait between them.

    head ──> follower ──> follower ──> …      one batch, answered run by run
               └─ withdrawn, or the process has worked for long enough: it goes back to its lane

The process goes on by itself. Its executor believes that a follower runs as soon as the run before
it has answered; what has really begun is in the process's begin note.
"""

import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from warren.executor import begin_notes
from warren.executor.begin_notes import Batch
from warren.executor.processes.job_process import JobProcess, SlotRun

#: The most runs that a job process is handed at once.
BATCH_RUNS = 8


class LookAhead:
    """What the job processes of one executor were handed ahead, and their begin notes.

    Without a `folder` for the notes nothing is handed ahead. `on_not_begun` is called with each run
    that a process had and will not begin, the last one first.
    """

    def __init__(
        self, folder: Path | None, seconds: float, on_not_begun: Callable[[SlotRun], None]
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._on_not_begun = on_not_begun
        #: The runs that no process has reached yet.
        self._ahead: dict[int, SlotRun] = {}
        self._notes: list[int] = []
        self._free: list[int] = []
        self._numbers = itertools.count(1)
        if folder is not None:
            with suppress(OSError):  # then no process gets a note
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    # -- notes --------------------------------------------------------------------------------

    @property
    def batch_size(self) -> int:
        """How many runs a process may be given at once."""
        return 1 if self._folder is None else BATCH_RUNS

    def assign_note(self) -> int | None:
        """Return the note of a new process, a file; None if there is no place for it.

        What the last process noted there stays until runs are handed to this one: the end of those
        runs may not be in the journal yet.
        """
        if self._folder is None:
            return None
        if self._free:
            return self._free.pop()
        note = begin_notes.make_note(self._folder / str(len(self._notes)))
        if note is not None:
            self._notes.append(note)
        return note

    def release_note(self, note: int | None) -> None:
        """Take back the note of a process that is gone."""
        if note is not None:
            self._free.append(note)

    def close(self) -> None:
        """Close the files."""
        for note in self._notes:
            os.close(note)
        self._notes.clear()
        self._free.clear()

    # -- handing over -------------------------------------------------------------------------

    def give(self, process: JobProcess, runs: Sequence[SlotRun], *, last: bool) -> None:
        """Give an idle process its next run and, if it can note them, others to go on with."""
        batch = None
        if len(runs) > 1 and process.note is not None:
            batch = self.new_batch(process.note, tuple(run.trigger.run_id for run in runs))
        given = runs if batch is not None else runs[:1]
        process.give(given, last=last, batch=batch)
        self._ahead |= {run.trigger.run_id: run for run in given[1:]}

    def new_batch(self, note: int, run_ids: tuple[int, ...]) -> Batch | None:
        """Return a batch for the process with this note; None if the note cannot be read."""
        try:
            before = begin_notes.begun(note)
        except OSError:
            return None
        return Batch(next(self._numbers), note, run_ids, self._seconds, before)

    def get(self, run_id: int) -> SlotRun | None:
        """Return a run that no process has reached yet."""
        return self._ahead.get(run_id)

    def has_next(self, process: JobProcess) -> bool:
        """Whether a process has runs that it has not reached."""
        return process.batch is not None and bool(process.batch.followers)

    def reach_next(self, process: JobProcess) -> SlotRun:
        """Record that a process has come to its next run; return that run."""
        assert process.batch is not None
        run = self._ahead.pop(process.batch.reach_next())
        process.begin(run)
        return run

    # -- what has begun -----------------------------------------------------------------------

    def has_begun(self, run: SlotRun) -> bool:
        """Whether a run that was reached is known to have begun."""
        batch = None if run.process is None else run.process.batch
        return batch is None or batch.has_begun(run.trigger.run_id, batch.begun())

    def never_began(self, process: JobProcess) -> bool:
        """Whether a dead process had not begun its run; take back the others that it had not."""
        batch = process.batch
        if batch is None or process.run is None:
            return process.died_idle
        noted = batch.begun()
        self._take_back(process, batch, noted)
        run = process.run
        return run is not None and run.result is None and not batch.has_begun(batch.head, noted)

    # -- taking back --------------------------------------------------------------------------

    def recall(self, process: JobProcess | None) -> None:
        """Withdraw what a process was handed ahead, and take back what has not begun of it."""
        if process is None or process.batch is None or process.run is None:
            return
        batch = process.batch
        if not batch.followers and process.run.trigger.run_id == batch.head:
            return
        noted = batch.withdraw()
        process.read()  # it has answered everything before the run that it noted last
        self._take_back(process, batch, noted)

    def on_withheld(self, process: JobProcess, number: int) -> None:
        """Take back what a process says that it will not begin of its batch of this number."""
        batch = process.batch
        if batch is not None and number == batch.number:
            self._take_back(process, batch, batch.head)  # it has answered all that it began

    def _take_back(self, process: JobProcess, batch: Batch, noted: int) -> None:
        """Take back the runs that have not begun, if `noted` is the last one that has."""
        run = process.run
        for run_id in batch.take_back(None if run is None else run.trigger.run_id, noted):
            back = self._ahead.pop(run_id, run)
            assert back is not None
            self._on_not_begun(back)

"""The runs that a job process is handed ahead, so that it waits for nobody between them.

    head ──> follower ──> follower ──> …      one batch, answered run by run
               └─ withdrawn, or the process has worked for long enough: it goes back to its lane

The process goes on by itself. Its executor believes that a follower runs as soon as the run before
it has answered; what has really begun is in the process's begin note.
"""

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warren.executor import begin_notes

#: The most runs that a job process is handed at once.
BATCH_RUNS = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs handed to one process at once, the head first; no other begins after `seconds`.

    `note` is the file of the process's begin note, and `before` what that held until then.
    """

    number: int
    note: int
    run_ids: tuple[int, ...]
    seconds: float
    before: int

    @property
    def head(self) -> int:
        """The run that was not handed ahead."""
        return self.run_ids[0]

    def has_begun(self, run_id: int, noted: int) -> bool:
        """Whether a run of this batch may have begun, given the note."""
        if noted not in self.run_ids:
            return noted != self.before
        return self.run_ids.index(run_id) <= self.run_ids.index(noted)

    def begun(self) -> int:
        """Return the run that the process has begun last; if that cannot be read, the last one."""
        try:
            return begin_notes.begun(self.note)
        except OSError:
            return self.run_ids[-1]

    def withdraw(self) -> int:
        """Let no further follower begin; return as `begun`."""
        try:
            return begin_notes.withdraw(self.note, self.number)
        except OSError:
            return self.run_ids[-1]


class LookAhead:
    """The begin notes of one executor's job processes; without a folder nothing is handed ahead."""

    def __init__(self, folder: Path | None, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._notes: list[int] = []
        self._free: list[int] = []
        self._numbers = itertools.count(1)
        if folder is not None:
            with suppress(OSError):  # then no process gets a note
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def is_possible(self) -> bool:
        """Whether processes have notes."""
        return self._folder is not None

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

    def new_batch(self, note: int, run_ids: tuple[int, ...]) -> Batch | None:
        """Return a batch for the process with this note; None if the note cannot be read."""
        try:
            before = begin_notes.begun(note)
        except OSError:
            return None
        return Batch(next(self._numbers), note, run_ids, self._seconds, before)

    def close(self) -> None:
        """Close the files."""
        for note in self._notes:
            os.close(note)
        self._notes.clear()
        self._free.clear()

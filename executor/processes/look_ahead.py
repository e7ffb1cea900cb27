"""The runs that a job process is handed ahead, so that it waits for nobody between them.

    head ──> follower ──> follower ──> …      one batch, answered run by run
               └─ withdrawn, or the process has worked for long enough: it goes back to its lane

The process goes on by itself. Its executor believes that a follower runs as soon as the run before
it has answered; what has really begun is in the process's begin note.
"""

import itertools
import os
from collections import deque
from contextlib import suppress
from pathlib import Path

from warren.executor import begin_notes

#: The most runs that a job process is handed at once.
BATCH_RUNS = 8


class Batch:
    """Runs handed to one process at once, the head first; no other begins after `seconds`.

    `note` is the file of the process's begin note, and `before` what that held until then.
    `followers` are those that the process has not reached yet, as far as is known.
    """

    def __init__(
        self, number: int, note: int, run_ids: tuple[int, ...], seconds: float, before: int
    ) -> None:
        self.number = number
        self.seconds = seconds
        self.head = run_ids[0]
        self.followers = deque(run_ids[1:])
        self._note = note
        self._run_ids = run_ids
        self._before = before

    def reach_next(self) -> int:
        """Note that the process has come to the next run; return that."""
        return self.followers.popleft()

    def has_begun(self, run_id: int, noted: int) -> bool:
        """Whether a run of this batch may have begun, given the note."""
        if noted not in self._run_ids:
            return noted != self._before
        return self._run_ids.index(run_id) <= self._run_ids.index(noted)

    def begun(self) -> int:
        """Return the run that the process has begun last; if that cannot be read, the last one."""
        try:
            return begin_notes.begun(self._note)
        except OSError:
            return self._run_ids[-1]

    def withdraw(self) -> int:
        """Let no further follower begin; return as `begun`."""
        try:
            return begin_notes.withdraw(self._note, self.number)
        except OSError:
            return self._run_ids[-1]

    def take_back(self, current: int | None, noted: int) -> list[int]:
        """Forget the runs that have not begun, `noted` being the last that has; return them.

        The last one among them is the `current` run if it was only believed to have been reached.
        """
        back = []
        while self.followers and not self.has_begun(self.followers[-1], noted):
            back.append(self.followers.pop())
        if current is None or current == self.head or self.has_begun(current, noted):
            return back
        return [*back, current]


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

"""Notes which run a job process began last, in a file that outlives it and its executor.

A job process may be given several runs at once. Before it begins one, it notes that run in its file
and then reads whether the batch was withdrawn; whoever withdraws a batch writes that first and then
reads the note. Between writing and reading, each takes the file's lock in the kernel, so at least
one of the two sees the other. So a run of a withdrawn batch that is not noted never begins.
"""

import os
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from warren.executor.disk import open_regular

#: The file: the run that was begun last, written by the job process, and the last batch that was
#: withdrawn, written by the executor.
_FIELD = struct.Struct("<Q")
_BEGUN, _WITHDRAWN = 0, _FIELD.size
_BYTES = 2 * _FIELD.size
_ALL_BATCHES = 2**64 - 1


def make_note(path: Path) -> int | None:
    """Return the descriptor of a new note with its disk space allocated; None if that failed."""
    try:
        file = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError:
        return None
    with suppress(OSError):
        if os.pwrite(file, bytes(_BYTES), 0) == _BYTES:
            return file
    os.close(file)
    return None


def begun(file: int) -> int:
    """Return the run that was begun last; raises OSError if that cannot be read."""
    return _read(file, _BEGUN)


def withdraw(file: int, batch: int = _ALL_BATCHES) -> int:
    """Let no further run of batches up to this one begin; return the run that was begun last.

    Raises:
        OSError: the file cannot be used.

    """
    _write(file, _WITHDRAWN, batch)
    return _read(file, _BEGUN)


class BeginNote:
    """The job process's side; without a `file` nothing can be noted."""

    def __init__(self, file: int | None) -> None:
        self._file = -1 if file is None else file
        self._identity = None if file is None else _identity(file)
        self._noted = 0

    def write(self, run_id: int) -> bool:
        """Note a run that is about to begin; return whether that worked."""
        if self._identity is None or _identity(self._file) != self._identity:
            return False  # the handler closed it, and the number may be another file's by now
        try:
            _write(self._file, _BEGUN, run_id)
        except OSError:
            return False
        self._noted = run_id
        return True

    def begin(self, batch: int, run_id: int) -> bool:
        """Note a run unless its batch was withdrawn; return whether it may begin."""
        before = self._noted
        if not self.write(run_id):
            return False
        with suppress(OSError):
            if _read(self._file, _WITHDRAWN) < batch:
                return True
        self.write(before)
        return False


class BatchPermit:
    """Decides which runs of a batch a job process may begin.

    Some time after it began the first one, and once the batch is withdrawn, `withhold(batch)` is
    called and no further run of it begins. `is_unable`: the process has lost the file, and must
    exit.
    """

    def __init__(self, note: BeginNote, withhold: Callable[[int], None]) -> None:
        self._note = note
        self._withhold = withhold
        self._ends_at = 0.0
        self._withheld = 0
        self.is_unable = False

    def takes(self, run_id: int, *, batch: int, seconds: float) -> bool:
        """Whether the process may begin this run, which is then noted. Arguments as in `Run`."""
        if not batch:
            return True
        if seconds:
            self._ends_at = time.monotonic() + seconds
            self.is_unable = not self._note.write(run_id)
            return not self.is_unable
        if batch == self._withheld:
            return False
        if time.monotonic() < self._ends_at and self._note.begin(batch, run_id):
            return True
        self._withheld = batch
        self._withhold(batch)
        return False


class OldNotes:
    """The notes that earlier boots left in a folder, a folder each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path_of(self, boot_id: str) -> Path:
        """Return the folder of a boot's notes."""
        return self._folder / boot_id

    def revoke(self, boot_id: str) -> frozenset[int] | None:
        """Stop a boot's job processes from beginning early runs; return what they noted last.

        None if that is not known.
        """
        try:
            return frozenset(_revoke(path) for path in self.path_of(boot_id).iterdir())
        except OSError:
            return None

    def delete(self, *, but: str) -> None:
        """Delete the notes of every boot but one."""
        from shutil import rmtree  # noqa: PLC0415 - job processes import this module, and need it not

        with suppress(OSError):
            for path in self._folder.iterdir():
                if path.name != but:
                    rmtree(path, ignore_errors=True)


def _revoke(path: Path) -> int:
    file = open_regular(path, os.O_RDWR)
    try:
        if os.fstat(file).st_size != _BYTES:
            raise OSError("a note was cut short")
        return withdraw(file)
    finally:
        os.close(file)


def _identity(file: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read(file: int, offset: int) -> int:
    data = os.pread(file, _FIELD.size, offset)
    if len(data) != _FIELD.size:
        raise OSError("a note was cut short")
    number: int = _FIELD.unpack(data)[0]
    return number


def _write(file: int, offset: int, number: int) -> None:
    if os.pwrite(file, _FIELD.pack(number), offset) != _FIELD.size:
        raise OSError("a note was cut short")


class Batch:
    """Runs given to one process at once, the head first; no other begins after `seconds`.

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
        """Advance to the next run and return it."""
        return self.followers.popleft()

    def has_begun(self, run_id: int, noted: int) -> bool:
        """Whether a run of this batch may have begun, given the note."""
        if noted not in self._run_ids:
            return noted != self._before
        return self._run_ids.index(run_id) <= self._run_ids.index(noted)

    def begun(self) -> int:
        """Return the run that the process has begun last; if that cannot be read, the last one."""
        try:
            return begun(self._note)
        except OSError:
            return self._run_ids[-1]

    def withdraw(self) -> int:
        """Let no further follower begin; return as `begun`."""
        try:
            return withdraw(self._note, self.number)
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

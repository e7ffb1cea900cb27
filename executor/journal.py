"""An append-only file of lines that is written in groups and survives a kill at any instruction.

It knows nothing of what the lines say (`records` does) nor of what they add up to (`ledger`).
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from executor.errors import JournalFailed


class Journal:
    """Lines in a file. `append` collects, `commit` writes and syncs them in one go.

    `write` does half of it: what it took survives the end of this process, but not of the host.
    Used from one thread. The caller holds the folder's lock, so that nobody else writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: list[bytes] = []
        self._unsynced: list[bytes] = []
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = self._written = os.fstat(self._file).st_size

    @property
    def size(self) -> int:
        """Bytes that are safely in the file."""
        return self._size

    @property
    def has_pending(self) -> bool:
        """Whether lines wait for a commit."""
        return bool(self._pending or self._unsynced)

    def read(self) -> list[bytes]:
        """Return the lines of the file; a last one that was not written to its end is left out.

        Such a torn line was never committed, so nothing was ever done because of it.
        """
        whole = self._path.read_bytes()
        lines = whole.split(b"\n")
        lines.pop()
        return lines

    def append(self, line: bytes) -> None:
        """Take a line, without its newline, into the next commit."""
        self._pending.append(line)

    def write(self) -> None:
        """Hand everything appended so far to the kernel, which keeps it should this process die.

        Raises:
            JournalFailed: the file is as it was before, the lines wait for the next commit.

        """
        if not self._pending:
            return
        group = b"\n".join(self._pending) + b"\n"
        try:
            self._write(group)
        except OSError as error:
            # A group written in part must not stand before its repetition.
            self._cut_back(self._written)
            raise self._failure(error) from error
        self._written += len(group)
        self._unsynced += self._pending
        self._pending.clear()

    def commit(self) -> None:
        """Make everything appended so far durable.

        Raises:
            JournalFailed: nothing of it is durable, all of it waits for the next commit.

        """
        self.write()
        if not self._unsynced:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._write_again()
            raise self._failure(error) from error
        self._size = self._written
        self._unsynced.clear()

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Replace the file by these lines, at once and durably; what was pending is in them.

        Raises:
            JournalFailed: the old file stands, and so does what was pending.

        """
        fresh = self._path.with_suffix(".tmp")
        try:
            file = _write_new(fresh, lines)
            fresh.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise JournalFailed(f"cannot write {fresh}: {error.strerror}") from error
        os.close(self._file)
        self._file = file
        self._size = self._written = os.fstat(file).st_size
        self._pending.clear()
        self._unsynced.clear()
        _sync_folder(self._path.parent)

    def close(self) -> None:
        """Close the file; what is pending is lost, as a kill would lose it."""
        os.close(self._file)

    def _write(self, group: bytes) -> None:
        view = memoryview(group)
        while view:
            view = view[os.write(self._file, view) :]

    def _write_again(self) -> None:
        """Put what was not synced into the file anew: the kernel may have dropped it."""
        self._cut_back(self._size)
        self._written = self._size
        self._pending = self._unsynced + self._pending
        self._unsynced = []
        with contextlib.suppress(JournalFailed):
            self.write()

    def _cut_back(self, size: int) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, size)

    def _failure(self, error: OSError) -> JournalFailed:
        return JournalFailed(f"cannot write {self._path}: {error.strerror}")


def _write_new(path: Path, lines: Iterable[bytes]) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.writelines(line + b"\n" for line in lines)
        os.fdatasync(file)
    except OSError:
        os.close(file)
        raise
    return file


def _sync_folder(folder: Path) -> None:
    # Without this a power cut might bring the old file back, without what was appended since.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

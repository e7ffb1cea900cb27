"""The job process's side of the run log: file descriptors 1 and 2, print, logging.

The file belongs to the run from its first moment, so also what C code and child processes write
lands there. A run that writes nothing leaves no file: its empty file is renamed to the next run's.
"""

import contextlib
import fcntl
import io
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.messages import LOG_TAIL_BYTES
from executor.context import log_line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """What a run has written: bytes, the last of them as text, and why something is missing."""

    size: int
    tail: str
    error: str


class LogFile(io.RawIOBase):
    """File descriptor 1, where a full disk costs output but never fails the run that prints."""

    def __init__(self) -> None:
        super().__init__()
        self.error = ""

    def fileno(self) -> int:
        """Return 1."""
        return 1

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write what can be written and claim that it was everything."""
        view = memoryview(data).cast("B")
        size = view.nbytes
        try:
            while view.nbytes:
                view = view[os.write(1, view) :]
        except OSError as error:
            self.error = error.strerror or str(error)
        return size


class LineHandler(logging.Handler):
    """Writes records as lines of the run log, to whatever standard output is by then."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            sys.stdout.write(log_line(record.created, record.levelname, self.format(record)))
        except Exception:  # noqa: BLE001 - logging's own rule: a record never fails its caller
            self.handleError(record)


class Output:
    """Leads everything that this process writes into the log of its current run.

    Made in the zygote before the handlers are imported, so that what they take hold of
    (`sys.stdout` in a logging configuration, say) is what the job processes use.
    """

    def __init__(self) -> None:
        self._file = -1
        self._null = -1
        self._path = ""
        self._is_silent = False
        self._open_error = ""
        self._make_streams()

    def adopt_logging(self) -> None:
        """Let records of `logging` from INFO up reach the log, unless the handlers set it up.

        Called when the handlers are imported: the zygote runs no code of theirs after that.
        """
        sys.stdin = None  # or each fork closes it and opens another
        root = logging.getLogger()
        if not root.handlers:
            root.addHandler(LineHandler())
            root.setLevel(logging.INFO)

    def begin(self, path: str) -> None:
        """Write to the file `path` from now on; without one the run goes on all the same."""
        if self._null < 0:
            self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._open_error = ""
        self._log.error = ""
        try:
            self._move_to(path)
        except OSError as error:
            self._open_error = error.strerror or str(error)
            self._replace_file(os.dup(self._null), "")
        os.dup2(self._null, 0)
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)
        self._restore_streams()

    def end(self) -> Written:
        """Flush, and tell what the run has written."""
        self.flush()
        self._is_silent = False
        if not self._path:
            return Written(0, "", f"its log is missing: {self._open_error}")
        error = f"its log is incomplete: {self._log.error}" if self._log.error else ""
        try:
            size = os.fstat(self._file).st_size
            at = max(0, size - LOG_TAIL_BYTES)
            tail = os.pread(self._file, LOG_TAIL_BYTES, at) if size else b""
        except OSError as lost:  # the handler closed every descriptor that it found
            return Written(0, "", f"its log is incomplete: {lost.strerror}")
        self._is_silent = not size and not error
        return Written(size, tail.decode(errors="replace"), error)

    def flush(self) -> None:
        """Write out what print has buffered."""
        for name in ("stdout", "stderr"):
            stream = vars(sys).get(name)  # the handler may have put anything there, or nothing
            if stream is not self._stream and stream is not None:
                with contextlib.suppress(Exception):
                    stream.flush()
        try:
            self._stream.flush()
        except ValueError:
            return  # closed

    def say(self, level: str, text: str) -> None:
        """Write a line of our own into the run's log."""
        with contextlib.suppress(Exception):
            self._stream.write(log_line(time.time(), level, text))

    def drop_if_silent(self) -> None:
        """Remove the empty file of a last run that wrote nothing."""
        if self._is_silent:
            with contextlib.suppress(OSError):
                if os.fstat(self._file).st_size == 0:
                    os.unlink(self._path)  # noqa: PTH108 - paths are text here, for speed

    def _move_to(self, path: str) -> None:
        if self._is_silent:
            try:
                os.rename(self._path, path)  # noqa: PTH104 - see above
            except OSError:
                pass  # another day, or the folder is gone: a new file then
            else:
                self._path = path
                return
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._replace_file(_with_folder(path, lambda: os.open(path, flags, 0o640)), path)

    def _replace_file(self, file: int, path: str) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file, self._path = _out_of_the_way(file), path
        with contextlib.suppress(OSError):
            # For as long as any process of the run has it open, it is not cleaned away.
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _make_streams(self) -> None:
        self._log = LogFile()
        self._stream = io.TextIOWrapper(
            io.BufferedWriter(self._log),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = self._stream  # type: ignore[misc]
        self._stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor

    def _restore_streams(self) -> None:
        if self._stream.closed or self._stdin.closed:
            self._make_streams()
        sys.stdin = self._stdin
        sys.stdout = sys.stderr = self._stream


def _out_of_the_way(file: int) -> int:
    """Move a descriptor from 0, 1, 2: a handler that closed those left them to be taken."""
    if file > 2:  # noqa: PLR2004 - the last of the standard descriptors
        return file
    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(file)


def _with_folder(path: str, action: Callable[[], T]) -> T:
    """Do something that needs the folder of `path`, making the folder when it is not there."""
    try:
        return action()
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)  # noqa: PTH103, PTH120 - see above
        return action()

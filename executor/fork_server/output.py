"""The job process's side of the run log: file descriptors 1 and 2, print, logging.

Both descriptors point to the run's file from its start, so the output of C code and of child
processes lands there too. A run that writes nothing leaves no file: its empty file is renamed for
the next run.
"""

import contextlib
import fcntl
import io
import logging
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

from warren.broker.messages import LOG_TAIL_BYTES
from warren.broker.reasons import Why, Words
from warren.executor.disk import open_regular, space_of, stop_mark
from warren.executor.handlers.context import log_line

#: Bytes of output between two checks of the disk's free space. A run's first bytes fit into a
#: block that the log takes anyway.
_CHECK_BYTES = 65_536

_APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND


@dataclass(frozen=True, slots=True)
class Written:
    """A run's output: its size in bytes, its end as text, and why something is missing from it."""

    size: int
    tail: str
    error: Words = ""


class LogFile(io.RawIOBase):
    """File descriptor 1. A full disk loses output but never fails the run that prints.

    Writing stops when fewer than `reserve_bytes` of the disk are free.
    """

    def __init__(self) -> None:
        super().__init__()
        self.begin(0)

    def begin(self, reserve_bytes: int) -> None:
        """Start a new log."""
        self.error: Words = ""
        self._reserve_bytes = reserve_bytes
        self._until_check = LOG_TAIL_BYTES
        self._is_stopped = False

    def fileno(self) -> int:
        return 1

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write as much as possible; report all of it as written."""
        view = memoryview(data).cast("B")
        size = view.nbytes
        try:
            while view.nbytes and self._may_write():
                written = os.write(1, view[: self._until_check])
                self._until_check -= written
                view = view[written:]
        except OSError as error:
            self.error = error.strerror or str(error)
        return size

    def _may_write(self) -> bool:
        if self._until_check <= 0 and not self._is_stopped:
            self._until_check = _CHECK_BYTES
            if space_of(1).free < self._reserve_bytes:
                self._is_stopped = True
                self.error = Why.DISK_NEARLY_FULL()
                os.write(1, stop_mark(self._reserve_bytes))
        return not self._is_stopped


class LineHandler(logging.Handler):
    """Writes records as lines of the run log, to what standard output is at that time."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stdout.write(log_line(record.created, record.levelname, self.format(record)))
        except Exception:  # noqa: BLE001 - logging's own rule: a record never fails its caller
            self.handleError(record)


class Output:
    """Redirects everything this process writes to the log of its current run.

    Created in the zygote before the handlers are imported, so that the streams they keep (such as
    `sys.stdout` in a logging configuration) are the ones that job processes use.
    """

    def __init__(self) -> None:
        self._file = -1
        self._null = -1
        self._path = ""
        self._is_empty = False
        self._open_error = ""
        self._make_streams()

    def adopt_logging(self, level: str = "info") -> None:
        """Write `logging` records of a level up to the log, unless the handlers configured logging.

        Called after the handlers are imported; the zygote runs none of their code after that.
        """
        sys.stdin = None  # otherwise each fork closes it and opens another
        root = logging.getLogger()
        if not root.handlers:
            root.addHandler(LineHandler())
            root.setLevel(level.upper())

    def begin(self, path: str, reserve_bytes: int = 0) -> None:
        """Write to the file `path` from now on; if it cannot be opened, the run continues without.

        Output of print stops when fewer than `reserve_bytes` of the disk are free.
        """
        if self._null < 0:
            self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._open_error = ""
        try:
            self._switch_to(path)
        except OSError as error:
            self._open_error = error.strerror or str(error)
            self._replace_file(os.dup(self._null), "")
        os.dup2(self._null, 0)
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)
        self._restore_streams()
        self._log.begin(reserve_bytes)

    def end(self) -> Written:
        """Flush, and return what the run has written."""
        self.flush()
        self._is_empty = False
        if not self._path:
            return Written(0, "", Why.LOG_MISSING(fault=self._open_error))
        error = Why.LOG_INCOMPLETE(why=self._log.error) if self._log.error else ""
        try:
            size = os.fstat(self._file).st_size
            at = max(0, size - LOG_TAIL_BYTES)
            tail = os.pread(self._file, LOG_TAIL_BYTES, at) if size else b""
        except OSError as lost:  # the handler closed every descriptor it found
            return Written(0, "", Why.LOG_INCOMPLETE(why=str(lost.strerror)))
        self._is_empty = not size and not error and self._is_in_place()
        return Written(size, tail.decode(errors="replace"), error)

    def release_log(self) -> None:
        """Keep no log open between runs, so that deleting it frees its space.

        An empty file stays open: it takes no space, and the next run reuses it.
        """
        with contextlib.suppress(OSError):  # the handler may have closed any of them
            os.dup2(self._null, 1)
            os.dup2(self._null, 2)
        if not self._is_empty and self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = -1

    def reopen_log(self) -> None:
        """Write to the log of the last run again, if it still exists."""
        if self._file < 0 and self._path:
            with contextlib.suppress(OSError):
                self._replace_file(open_regular(self._path, _APPENDING & ~os.O_CREAT), self._path)
        try:
            os.dup2(self._file, 1)
            os.dup2(self._file, 2)
        except OSError:
            return

    def flush(self) -> None:
        """Write out what print has buffered."""
        for name in ("stdout", "stderr"):
            stream = vars(sys).get(name)  # the handler may have replaced or deleted it
            if stream is not self._stream and stream is not None:
                with contextlib.suppress(Exception):
                    stream.flush()
        try:
            self._stream.flush()
        except ValueError:
            return  # closed or detached

    def write_line(self, level: str, text: str) -> None:
        """Write a line of our own into the run's log."""
        with contextlib.suppress(Exception):
            self._stream.write(log_line(time.time(), level, text))

    def remove_if_empty(self) -> None:
        """Remove the file of the last run if that wrote nothing."""
        if not self._is_empty:
            return
        try:
            if os.fstat(self._file).st_size == 0:
                os.unlink(self._path)  # noqa: PTH108 - paths are text here, for speed
        except OSError:
            return

    def _is_in_place(self) -> bool:
        """Whether the log is still where the run began it, so that it may be renamed."""
        try:
            stats = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116 - see above
            return os.path.samestat(stats, os.fstat(self._file))
        except OSError:
            return False

    def _switch_to(self, path: str) -> None:
        if self._is_empty:
            try:
                os.rename(self._path, path)  # noqa: PTH104 - see above
            except OSError:
                pass  # another day's folder, or the folder is gone: open a new file
            else:
                self._path = path
                return
        self._replace_file(_open_log(path), path)

    def _replace_file(self, file: int, path: str) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file, self._path = _above_stdio(file), path
        try:  # noqa: SIM105 - `suppress` takes eight more pages of a new process
            # While any process of the run has it open, the cleanup leaves it alone.
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            pass

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
        if not (_is_usable(self._stream) and _is_usable(self._stdin)):
            self._make_streams()
        sys.stdin = self._stdin
        sys.stdout = sys.stderr = self._stream


def _is_usable(stream: io.TextIOWrapper) -> bool:
    """Whether a stream is still usable: neither closed nor detached by a handler."""
    try:
        return not stream.closed
    except ValueError:  # detached
        return False


def _above_stdio(file: int) -> int:
    """Move a descriptor above 2: a handler may have closed 0, 1 or 2, so that `open` reuses it."""
    if file > 2:  # noqa: PLR2004 - the last of the standard descriptors
        return file
    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(file)


def _open_log(path: str) -> int:
    """Open a log, after creating its folder if that does not exist."""
    try:
        return open_regular(path, _APPENDING)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)  # noqa: PTH103, PTH120 - see above
        return open_regular(path, _APPENDING)

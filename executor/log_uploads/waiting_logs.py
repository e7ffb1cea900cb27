"""The logs that are to be stored: a list in the state folder, which outlives the executor.

Lines are added to a file, of which a killed executor loses nothing:

    + run identity due-time     the run starts
    = run size                  it has ended, with a log of this size
    - run                       its log is stored, or there is none

A run that has no other line than its first was cut off with its executor: what it wrote is stored
too. The logs themselves stay where they are.
"""

import contextlib
import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from warren.executor.disk import open_regular

FILE_NAME = "unstored-logs"
#: The most logs that wait; the limit of their bytes is a setting.
MOST_LOGS = 100_000
#: The file is written anew when this much was added, and more than is still needed.
_REWRITE_BYTES = 1_000_000
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_LINE_BYTES = 60
_FIELDS = {b"+": 4, b"=": 3, b"-": 2}


@dataclass(slots=True)
class WaitingLog:
    """A log that is to be stored; `size` 0 = not known."""

    run_id: int
    identity: int
    scheduled_at_ms: int
    size: int = 0
    #: How often that failed, and when (monotonic) to try again; of a running run, when to begin.
    tries: int = 0
    not_before: float = 0.0
    #: Of a running run: how many parts are stored, up to which byte, and since which part all of
    #: it is.
    parts: int = 0
    offset: int = 0
    whole_since: int = 0


class WaitingLogs:
    """The list. Thread-safe.

    Args:
        folder: the state folder.
        most_bytes: how many bytes of logs may wait; the oldest are dropped.

    Raises:
        OSError: the file cannot be read or written.

    """

    def __init__(self, folder: Path, most_bytes: int, most_logs: int = MOST_LOGS) -> None:
        self._path = folder / FILE_NAME
        self._most_bytes = most_bytes
        self._most_logs = most_logs
        self._changed = threading.Condition()
        self._running: dict[int, WaitingLog] = {}
        self._waiting: OrderedDict[int, WaitingLog] = OrderedDict()
        self._taken: dict[int, WaitingLog] = {}
        self._bytes = 0
        #: Logs that were dropped and of which nobody was told.
        self.dropped: list[WaitingLog] = []
        for log in read_list(self._path):
            self._waiting[log.run_id] = log
            self._bytes += log.size
        self._file = -1
        self._written = 0
        self._rewrite()

    def __len__(self) -> int:
        """How many logs of ended runs wait, or are being stored."""
        return len(self._waiting) + len(self._taken)

    @property
    def size(self) -> int:
        """How many bytes of logs wait, as far as is known."""
        return self._bytes

    def begin(self, run_id: int, identity: int, scheduled_at_ms: int) -> None:
        """Note that a run starts, and may write a log; once more changes nothing."""
        with self._changed:
            known = self._running.get(run_id)
            if known is not None and known.identity == identity:
                return
            earlier = self._waiting.pop(run_id, None)
            if earlier is not None:
                self._bytes -= earlier.size
            self._running[run_id] = WaitingLog(run_id, identity, scheduled_at_ms)
            self._write(b"+ %d %d %d\n" % (run_id, identity, scheduled_at_ms))

    def end(self, run_id: int, size: int, *, is_late: bool = False) -> None:
        """Note that a run has ended; one with an empty log is forgotten, unless that may grow."""
        with self._changed:
            log = self._running.pop(run_id, None)
            if log is None:
                return
            if not size and not is_late:
                self._write(b"- %d\n" % run_id)
                return
            log.size, log.not_before = size, 0.0
            self._waiting[run_id] = log
            self._bytes += size
            self._write(b"= %d %d\n" % (run_id, size))
            self._keep_limit()
            self._changed.notify_all()

    def running(self) -> list[WaitingLog]:
        """Return the runs that have started and not ended."""
        with self._changed:
            return list(self._running.values())

    def wait(self, seconds: float) -> None:
        """Wait until a run ends, or `wake` is called."""
        with self._changed:
            self._changed.wait(seconds)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def take(self, most: int, most_bytes: int, now: float) -> list[WaitingLog]:
        """Take the oldest logs that may be tried now: at least one, if there is one."""
        taken: list[WaitingLog] = []
        size = 0
        with self._changed:
            for log in self._waiting.values():
                if log.not_before > now:
                    continue
                if taken and (len(taken) >= most or size + log.size > most_bytes):
                    break
                taken.append(log)
                size += log.size
            for log in taken:
                del self._waiting[log.run_id]
                self._taken[log.run_id] = log
        return taken

    def measure(self, log: WaitingLog, size: int) -> None:
        """Note the size of a log that was taken; it was not known before, or has changed."""
        with self._changed:
            if size != log.size:
                self._bytes += size - log.size
                log.size = size
                self._write(b"= %d %d\n" % (log.run_id, size))

    def put_back(self, logs: Iterable[WaitingLog]) -> None:
        """Have logs wait again, behind the others."""
        with self._changed:
            for log in logs:
                if self._taken.pop(log.run_id, None) is not None:
                    self._waiting[log.run_id] = log
            self._keep_limit()

    def forget(self, run_ids: Iterable[int]) -> None:
        """Forget logs that were taken: they are stored, or will never be."""
        with self._changed:
            lines = []
            for run_id in run_ids:
                log = self._taken.pop(run_id, None)
                if log is not None:
                    self._bytes -= log.size
                    lines.append(b"- %d\n" % run_id)
            self._write(b"".join(lines))
            if self._written > max(_REWRITE_BYTES, self._needed_bytes()):
                self._rewrite()

    def take_dropped(self, most: int) -> list[WaitingLog]:
        """Return logs that were dropped, to be told of; they are not returned again."""
        with self._changed:
            taken, self.dropped = self.dropped[:most], self.dropped[most:]
        return taken

    def close(self) -> None:
        with self._changed:
            os.close(self._file)
            self._file = -1

    def _keep_limit(self) -> None:
        """Drop the oldest logs while too many wait, but not the only one."""
        lines = []
        while len(self._waiting) > 1 and (
            self._bytes > self._most_bytes or len(self._waiting) > self._most_logs
        ):
            run_id, log = self._waiting.popitem(last=False)
            self._bytes -= log.size
            self.dropped.append(log)
            lines.append(b"- %d\n" % run_id)
        self._write(b"".join(lines))

    def _needed_bytes(self) -> int:
        return _LINE_BYTES * (len(self._running) + len(self._waiting) + len(self._taken))

    def _write(self, lines: bytes) -> None:
        if not lines or self._file < 0:
            return
        with contextlib.suppress(OSError):  # heartbeats report a full disk
            os.write(self._file, lines)
            self._written += len(lines)

    def _rewrite(self) -> None:
        new = self._path.with_suffix(".new")
        file = os.open(new, _APPENDING | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        lines = b"".join(self._lines())
        try:
            _write_whole(file, lines)
            new.replace(self._path)
        except OSError:
            os.close(file)
            if self._file < 0:
                raise
            return
        if self._file >= 0:
            os.close(self._file)
        self._file, self._written = file, 0

    def _lines(self) -> Iterator[bytes]:
        for log in (*self._running.values(), *self._waiting.values(), *self._taken.values()):
            yield b"+ %d %d %d\n" % (log.run_id, log.identity, log.scheduled_at_ms)
            if log.size:
                yield b"= %d %d\n" % (log.run_id, log.size)


def _write_whole(file: int, lines: bytes) -> None:
    if os.write(file, lines) < len(lines):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), FILE_NAME)


def read_list(path: Path) -> list[WaitingLog]:
    """Return the logs in a list, oldest first; what is no line of it is skipped."""
    logs: dict[int, WaitingLog] = {}
    try:
        with open(path, "rb", opener=open_regular) as file:
            for line in file:
                _read(line, logs)
    except FileNotFoundError:
        return []
    return list(logs.values())


def _read(line: bytes, logs: dict[int, WaitingLog]) -> None:
    kind, *fields = line.split()[:4] or [b""]
    if _FIELDS.get(kind) != len(fields) + 1 or not line.endswith(b"\n"):
        return
    if not all(field.isdigit() and len(field) < 20 for field in fields):  # noqa: PLR2004 - digits
        return
    run_id, *others = map(int, fields)
    if kind == b"+":
        logs[run_id] = WaitingLog(run_id, *others)
    elif kind == b"-":
        logs.pop(run_id, None)
    elif run_id in logs:
        logs[run_id].size = others[0]


def waiting_runs(state_dir: Path) -> set[int]:
    """Return the runs whose logs wait in any executor's list in a folder of states."""
    # A gateway has a folder for each app, with those of its executors.
    return {log.run_id for path in state_dir.rglob(FILE_NAME) for log in read_list(path)}

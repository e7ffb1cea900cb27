"""The run logs on disk: `<folder>/yyyy-MM-dd/<run id>.log`, by the UTC day of the due time.

A run that printed nothing has no file. Job processes write the files (see `output`); this module
finds them, reads and searches them a piece at a time, cuts them and deletes old ones.

When lines were written is noted beside a log in `<run id>.times`, to half a second; `log_lines` of
the broker says how. The log itself stays as its job writes it.

Running jobs' logs are limited to the size cap, and kept out of the disk's reserve. Output of print
stops by itself (see `output`), but output of the programs that a job starts does not, so logs that
have grown too long are cut here.
"""

import contextlib
import fcntl
import io
import os
import re
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from warren.broker.log_lines import (
    FULL_NOTE,
    NOTES_BYTES,
    FoundLines,
    Lines,
    find,
    first_of_last,
    no_lines,
    skip,
    take,
    time_changes,
)
from warren.broker.messages import LOG_TAIL_BYTES
from warren.broker.reasons import Why, Words
from warren.executor.disk import (
    DEFAULT_RESERVE,
    Reserve,
    Space,
    misplaced,
    open_regular,
    space_of,
    stop_mark,
)

_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class LineTimes:
    """Takes notes of when logs grow. Used from one thread.

    Args:
        size_of: gives the size of a log.
        now_ms: the host's clock.
        notes_bytes: about how long the notes of one log may become.

    """

    def __init__(
        self,
        size_of: Callable[[str], int],
        now_ms: Callable[[], int],
        notes_bytes: int = NOTES_BYTES,
    ) -> None:
        self._size_of = size_of
        self._now_ms = now_ms
        self._notes_bytes = notes_bytes
        self._sizes: dict[str, int] = {}

    def look(self, paths: Collection[str]) -> None:
        """Note which logs have grown since the last call; `paths` are all logs of running jobs."""
        sizes = {path: self._size_of(path) for path in paths}
        for path, size in sizes.items():
            if size > self._sizes.get(path, 0):
                self._note(path, size)
        self._sizes = sizes

    def _note(self, path: str, size: int) -> None:
        line = b"%d %d\n" % (size, self._now_ms())
        try:
            notes = open_regular(notes_path(path), _APPENDING)
            try:
                room = self._notes_bytes - os.fstat(notes).st_size
                if room > 0:
                    os.write(notes, line if room > len(line) else line + FULL_NOTE)
            finally:
                os.close(notes)
        except OSError:
            return  # a log without times is still a log


def notes_path(path: str) -> str:
    """Return where the notes about a log are."""
    return f"{path.removesuffix('.log')}.times"


def read_notes(path: str) -> bytes:
    """Return the notes about a log; empty if there are none."""
    try:
        with open(notes_path(path), "rb", opener=open_regular) as file:
            return file.read(NOTES_BYTES + 100)
    except OSError:
        return b""


#: The most bytes of a run's log.
CAP_BYTES = 50_000_000
_CAP_MARK = "\n… [the log is cut here: over {:,} bytes]\n"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000


class RunLogs:
    """The logs of all runs in one folder, which several executors may share.

    They keep `reserve` of their disk free.
    """

    def __init__(
        self,
        folder: Path,
        cap_bytes: int = CAP_BYTES,
        reserve: Reserve = Reserve.parse(DEFAULT_RESERVE),  # noqa: B008 - it is frozen
    ) -> None:
        self.folder = folder.absolute()
        self._prefix = f"{self.folder}/"
        self.reserve = reserve
        self.cap_bytes = cap_bytes

    @property
    def reserve_bytes(self) -> int:
        """How many bytes of the disk the logs keep free."""
        return self.reserve.of(self._space())

    def shortfall(self) -> int:
        """Return how many bytes of the reserve are used; 0 if the disk cannot be read."""
        return self.reserve.shortfall(self._space())

    def path_of(self, scheduled_at_ms: int, run_id: int) -> str:
        """Return the path of a run's log; as text, because it is built for every run."""
        return f"{self._prefix}{_day_name(scheduled_at_ms // _DAY_MS)}/{run_id}.log"

    def tail(self, path: str, size: int = LOG_TAIL_BYTES) -> str:
        """Return the last `size` bytes of a log as text; empty if there is no such file."""
        try:
            with _open(path) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
                return file.read(size).decode(errors="replace")
        except OSError:
            return ""

    def fault(self, path: str) -> str:
        """Return why a path cannot hold a log; empty if it does, or if nothing is there."""
        return misplaced(path)

    def size(self, path: str) -> int:
        """Return a log's size, 0 if there is no such file."""
        try:
            # The size of a link itself: a file that a job links to is not ours to cut.
            return os.stat(path, follow_symlinks=False).st_size  # noqa: PTH116 - see path_of
        except OSError:
            return 0

    def set_aside(self, path: str) -> None:
        """Rename a log that is there before its run comes: it is that of another run of its id."""
        if os.path.isfile(path):  # noqa: PTH113 - see path_of
            with contextlib.suppress(OSError):
                os.rename(path, f"{path}.of-another")  # noqa: PTH104 - see path_of
                os.unlink(notes_path(path))  # noqa: PTH108 - see path_of

    def cut_to_cap(self, path: str) -> bool:
        """Cut a log that has grown beyond the cap; return whether it was cut."""
        if self.size(path) <= self.cap_bytes:
            return False
        return self.cut(path, self.cap_bytes, _CAP_MARK.format(self.cap_bytes).encode())

    def cut(self, path: str, size: int, mark: bytes) -> bool:
        """Cut a log to `size` bytes including a mark at its end; return False if that fails.

        Its writer goes on after the mark, since logs are opened for appending.
        """
        try:
            with open(path, "ab", opener=open_regular) as file:
                file.truncate(max(0, size - len(mark)))
                file.write(mark)
        except OSError:
            return False
        return True

    def drop_if_empty(self, path: str) -> None:
        with contextlib.suppress(OSError):
            if os.stat(path, follow_symlinks=False).st_size == 0:  # noqa: PTH116 - see path_of
                os.unlink(path)  # noqa: PTH108 - see path_of

    def read(
        self,
        run_id: int,
        day: str,
        from_line: int,
        limit: int = 1_000,
        *,
        growing: bool = False,
        at_end: bool = False,
    ) -> Lines:
        """Return up to `limit` lines of a run's log and CHUNK_BYTES of text.

        While the log is `growing`, a last line without a line feed is left out. `at_end` returns
        the last lines, whatever `from_line` says. The file is read in pieces, never as a whole.
        `day` is `yyyy-MM-dd`, as in the file's path.
        """
        from_line = max(1, from_line)
        if not _DAY.fullmatch(day):
            return no_lines(from_line, missing=True)
        path = f"{self._prefix}{day}/{int(run_id)}.log"
        try:
            with _open(path) as file:
                if at_end:
                    from_line = first_of_last(file, limit, growing=growing)
                if not skip(file, from_line - 1):
                    return no_lines(from_line)
                lines, offsets = take(file, from_line, max(0, limit), growing=growing)
                last_change_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
                times = time_changes(read_notes(path), offsets, from_line, last_change_ms)
                return replace(lines, times=times)
        except OSError:
            return no_lines(from_line, missing=not (self.folder / day).is_dir())

    def search(self, run_id: int, day: str, words: str, from_line: int) -> FoundLines:
        """Return which lines of a run's log contain some words; one search reads SEARCH_BYTES."""
        nothing = FoundLines(lines=(), to_line=max(1, from_line) - 1, is_end=True)
        if not _DAY.fullmatch(day) or not words:
            return nothing
        try:
            with _open(f"{self._prefix}{day}/{int(run_id)}.log") as file:
                if not skip(file, max(1, from_line) - 1):
                    return nothing
                return find(file, words, max(1, from_line))
        except OSError:
            return nothing

    def clean(
        self, keep_days: int, now: datetime | None = None, *, spared: Collection[int] = ()
    ) -> int:
        """Delete the folders of days more than `keep_days` ago; return how many.

        A log that is locked, because a run is still writing it, stays, and so does its folder; and
        those of `spared` runs.
        """
        names = {f"{run_id}{suffix}" for run_id in spared for suffix in (".log", ".times")}
        oldest = ((now or datetime.now(UTC)) - timedelta(days=keep_days)).date().isoformat()
        count = 0
        with contextlib.suppress(FileNotFoundError):
            for entry in self.folder.iterdir():
                if _DAY.fullmatch(entry.name) and entry.name < oldest and not entry.is_symlink():
                    count += _delete_day(entry, names)
        return count

    def _space(self) -> Space:
        for folder in (self.folder, self.folder.parent):
            with contextlib.suppress(OSError):
                return space_of(str(folder))
        return Space(0, 0)


@lru_cache(maxsize=16)
def _day_name(day: int) -> str:
    return date.fromordinal(_EPOCH_DAY + day).isoformat()


def _delete_day(folder: Path, spared: Collection[str]) -> bool:
    """Delete a day's logs that are not open or spared; return whether the folder is gone too."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in spared:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry, ignore_errors=True)
            elif not (entry.is_file(follow_symlinks=False) and _is_in_use(entry.path)):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 - there may be a million of them
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def _is_in_use(path: str) -> bool:
    """Whether a job process is writing a log: it then holds a shared lock on it."""
    try:
        with _open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _open(path: str) -> io.BufferedReader:
    return open(path, "rb", opener=open_regular)


@dataclass(frozen=True, slots=True)
class FinishedLog:
    """The end of a finished log as text, and why something is missing from it, if that is known."""

    tail: str
    error: Words = ""


class LogLimiter:
    """Limits the logs of running jobs, by path. Used from one thread."""

    def __init__(self, run_logs: RunLogs) -> None:
        self._run_logs = run_logs
        #: Each log's size when the reserve was last intact.
        self._sizes: dict[str, int] = {}
        #: The size limits of logs that have been stopped.
        self._limits: dict[str, int] = {}
        self.reserve_bytes = run_logs.reserve_bytes

    def enforce(self, paths: Collection[str]) -> None:
        """Cut the logs that are too long; `paths` are all logs of running jobs."""
        self.reserve_bytes = self._run_logs.reserve_bytes  # the folder may be mounted late
        sizes = self._enforce(paths)
        if sizes is not None:
            self._sizes = sizes
        for path in self._limits.keys() - set(paths):
            del self._limits[path]

    def needs_cut(self, path: str, size: int) -> bool:
        """Whether a log may be too long, given the size that its run reported."""
        if size > self._run_logs.cap_bytes or path in self._limits:
            return True
        return size > LOG_TAIL_BYTES and self._run_logs.shortfall() > 0

    def check(self, path: str, tail: str) -> FinishedLog:
        """Return a finished log that needs no cut and whose tail is known."""
        fault = self._run_logs.fault(path)
        return FinishedLog(tail, Why.LOG_MISSING(fault=fault) if fault else "")

    def close(self, path: str) -> FinishedLog:
        """Return a finished log; cut it if it is too long, drop it if empty."""
        tail = self._run_logs.tail(path)  # before the cut: it is what the run wrote last
        self._enforce([path])
        is_stopped = self._limits.pop(path, None) is not None
        self._sizes.pop(path, None)
        finished = self.check(path, tail)
        if is_stopped and not finished.error:
            return FinishedLog(tail, Why.LOG_INCOMPLETE(why=Why.DISK_NEARLY_FULL()))
        if not tail and not finished.error:
            self._run_logs.drop_if_empty(path)
        return finished

    def _enforce(self, paths: Collection[str]) -> dict[str, int] | None:
        """Cut these logs; return their sizes if the reserve is intact."""
        sizes = {path: self._run_logs.size(path) for path in paths}
        shortfall = self._run_logs.shortfall()
        if shortfall:
            self._stop(sizes, shortfall)
        for path, size in sizes.items():
            limit = self._limits.get(path)
            if limit is not None and size > limit:
                self._run_logs.cut(path, limit, stop_mark(self.reserve_bytes))
            elif size > self._run_logs.cap_bytes:
                self._run_logs.cut_to_cap(path)
        return None if shortfall else sizes

    def _stop(self, sizes: dict[str, int], shortfall: int) -> None:
        """Stop the logs that grew most, until the shortfall is made up for."""
        grown = {path: size - self._sizes.get(path, 0) for path, size in sizes.items()}
        for path in sorted(grown, key=grown.__getitem__, reverse=True):
            surplus = min(shortfall, grown[path])
            if surplus > 0 and path not in self._limits and sizes[path] > LOG_TAIL_BYTES:
                self._limits[path] = max(LOG_TAIL_BYTES, sizes[path] - surplus)
            shortfall -= max(0, surplus)

"""The run logs on disk: `<folder>/yyyy-MM-dd/<run id>.log`, by the UTC day of the due time.

A run that printed nothing has no file. Job processes write the files (see `output`); this module
finds them, reads them by line, cuts them and deletes old ones.
"""

import contextlib
import fcntl
import io
import os
import re
import shutil
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from warren.broker.messages.values import LOG_TAIL_BYTES
from warren.executor.disk import DEFAULT_RESERVE, Reserve, Space, space_of
from warren.executor.logs import log_lines, log_search
from warren.executor.logs.log_lines import Lines
from warren.executor.logs.log_search import FoundLines
from warren.executor.regular_files import misplaced, open_regular

#: Most bytes of one run's log.
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
        """Return why there cannot be a log at a path; empty if there is one or nothing."""
        return misplaced(path)

    def size(self, path: str) -> int:
        """Return a log's size, 0 if there is no such file."""
        try:
            # The size of a link itself: a file that a job links to is not ours to cut.
            return os.stat(path, follow_symlinks=False).st_size  # noqa: PTH116 - see path_of
        except OSError:
            return 0

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
        """Remove an empty log."""
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
            return _nothing(from_line, missing=True)
        path = f"{self._prefix}{day}/{int(run_id)}.log"
        try:
            with _open(path) as file:
                if at_end:
                    from_line = log_lines.first_of_last(file, limit, growing=growing)
                if not log_lines.skip(file, from_line - 1):
                    return _nothing(from_line)
                return log_lines.take(file, path, from_line, max(0, limit), growing=growing)
        except OSError:
            return _nothing(from_line, missing=not (self.folder / day).is_dir())

    def search(self, run_id: int, day: str, words: str, from_line: int) -> FoundLines:
        """Return which lines of a run's log hold some words, as far as one answer looks."""
        nothing = FoundLines(lines=(), to_line=max(1, from_line) - 1, is_end=True)
        if not _DAY.fullmatch(day) or not words:
            return nothing
        try:
            with _open(f"{self._prefix}{day}/{int(run_id)}.log") as file:
                if not log_lines.skip(file, max(1, from_line) - 1):
                    return nothing
                return log_search.find(file, words, max(1, from_line))
        except OSError:
            return nothing

    def clean(self, keep_days: int, now: datetime | None = None) -> int:
        """Delete the folders of days more than `keep_days` ago; return how many.

        A log that a run is still writing, which its lock shows, stays with its folder.
        """
        oldest = ((now or datetime.now(UTC)) - timedelta(days=keep_days)).date().isoformat()
        count = 0
        with contextlib.suppress(FileNotFoundError):
            for entry in self.folder.iterdir():
                if _DAY.fullmatch(entry.name) and entry.name < oldest and not entry.is_symlink():
                    count += _delete_day(entry)
        return count

    def _space(self) -> Space:
        for folder in (self.folder, self.folder.parent):
            with contextlib.suppress(OSError):
                return space_of(str(folder))
        return Space(0, 0)


@lru_cache(maxsize=16)
def _day_name(day: int) -> str:
    return date.fromordinal(_EPOCH_DAY + day).isoformat()


def _delete_day(folder: Path) -> bool:
    """Delete a day's logs that nobody has open; return whether the folder is gone too."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
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


def _nothing(from_line: int, *, missing: bool = False) -> Lines:
    return Lines(from_line=from_line, to_line=from_line - 1, text="", is_end=True, missing=missing)


def _open(path: str) -> io.BufferedReader:
    return open(path, "rb", opener=open_regular)

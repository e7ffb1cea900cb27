"""The run logs on disk: `<folder>/yyyy-MM-dd/<run id>.log`, by the day of the due time in UTC.

A run that printed nothing has no file. Job processes write the files (see `output`); here they are
found, read by line, capped and cleaned.
"""

import contextlib
import fcntl
import io
import os
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from broker.messages import LOG_TAIL_BYTES

#: Most bytes of one run's log.
CAP_BYTES = 50_000_000
#: Most bytes of text in one answer, and of one line; what is longer is cut with a mark.
CHUNK_BYTES, LINE_BYTES = 256_000, 16_000

_CAP_MARK = "\n… [the log is cut here: over {:,} bytes]\n"
_LINE_MARK = " … [line cut]"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_READ_BYTES = 65_536
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines `from_line`..`to_line`, 1-based; `to_line` < `from_line` when there are none.

    `is_end`: there are no further lines now. `missing`: nothing of that day is kept here.
    """

    from_line: int
    to_line: int
    text: str
    is_end: bool
    missing: bool = False


class RunLogs:
    """The logs of all runs in one folder, which several executors may share."""

    def __init__(self, folder: Path, cap_bytes: int = CAP_BYTES) -> None:
        self._folder = folder.absolute()
        self._prefix = f"{self._folder}/"
        self.cap_bytes = cap_bytes

    def path_of(self, scheduled_at_ms: int, run_id: int) -> str:
        """Return where a run's log is written, as text: it is made for every run."""
        day = date.fromordinal(_EPOCH_DAY + scheduled_at_ms // _DAY_MS)
        return f"{self._prefix}{day.isoformat()}/{run_id}.log"

    def tail(self, path: str, size: int = LOG_TAIL_BYTES) -> str:
        """Return the last `size` bytes of a log as text; empty when there is no such file."""
        try:
            with _open(path) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
                return file.read(size).decode(errors="replace")
        except OSError:
            return ""

    def cut_back(self, path: str) -> bool:
        """Cut a log that has grown over the cap, leaving its beginning and a mark.

        Whoever writes it goes on after the mark, since logs are opened for appending.
        """
        try:
            # Of a link, its own size: what a job has linked there is none of ours to cut.
            if os.stat(path, follow_symlinks=False).st_size <= self.cap_bytes:  # noqa: PTH116
                return False
            mark = _CAP_MARK.format(self.cap_bytes).encode()
            with open(path, "ab", opener=_no_follow) as file:
                file.truncate(max(0, self.cap_bytes - len(mark)))
                file.write(mark)
        except OSError:
            return False
        return True

    def close(self, path: str) -> str:
        """Return the tail of a log that is complete; bring it under the cap, or away when empty."""
        tail = self.tail(path)
        self.cut_back(path)
        if not tail:
            _drop_if_empty(path)
        return tail

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

        While the log is `growing`, a last line without its line feed is held back. `at_end`: the
        last lines there are, whatever `from_line` says. The file is read in pieces, never as a
        whole. `day` is `yyyy-MM-dd`, as in the file's path.
        """
        from_line = max(1, from_line)
        if not _DAY.fullmatch(day):
            return _nothing(from_line, missing=True)
        try:
            with _open(f"{self._prefix}{day}/{int(run_id)}.log") as file:
                if at_end:
                    from_line = max(1, _count_lines(file) - limit + 1)
                if not _skip_lines(file, from_line - 1):
                    return _nothing(from_line)
                return _take_lines(file, from_line, max(0, limit), growing=growing)
        except OSError:
            return _nothing(from_line, missing=not (self._folder / day).is_dir())

    def clean(self, keep_days: int, now: datetime | None = None) -> int:
        """Delete the folders of days more than `keep_days` ago; return how many.

        The log of a run that still writes stays, and its folder with it; its lock tells.
        """
        oldest = ((now or datetime.now(UTC)) - timedelta(days=keep_days)).date().isoformat()
        count = 0
        with contextlib.suppress(FileNotFoundError):
            for entry in self._folder.iterdir():
                if _DAY.fullmatch(entry.name) and entry.name < oldest and not entry.is_symlink():
                    count += _delete_day(entry)
        return count


def _delete_day(folder: Path) -> bool:
    """Delete a day's logs that nobody has open; True when the folder is gone too."""
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
    """Whether a job process writes a log: it holds a shared lock on it."""
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


def _drop_if_empty(path: str) -> None:
    with contextlib.suppress(OSError):
        if os.stat(path, follow_symlinks=False).st_size == 0:  # noqa: PTH116 - text, see path_of
            os.unlink(path)  # noqa: PTH108 - see above


def _no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)


def _open(path: str) -> io.BufferedReader:
    return open(path, "rb", opener=_no_follow)


def _count_lines(file: io.BufferedReader) -> int:
    """Return how many lines there are, the last one unfinished or not, and go back to the start."""
    count, last = 0, b"\n"
    while data := file.read(_READ_BYTES):
        count += data.count(b"\n")
        last = data[-1:]
    file.seek(0)
    return count + (last != b"\n")


def _skip_lines(file: io.BufferedReader, count: int) -> bool:
    """Move past `count` lines; False when there are not that many."""
    while count:
        at = file.tell()
        data = file.read(_READ_BYTES)
        if not data:
            return False
        found = data.count(b"\n")
        if found >= count:
            end = -1
            for _ in range(count):
                end = data.index(b"\n", end + 1)
            file.seek(at + end + 1)
            return True
        count -= found
    return True


def _take_lines(file: io.BufferedReader, from_line: int, limit: int, *, growing: bool) -> Lines:
    taken: list[str] = []
    size = 0
    while len(taken) < limit and size < CHUNK_BYTES:
        line = file.readline(LINE_BYTES)
        is_whole = line.endswith(b"\n") or _skip_rest(file, line)
        if not line or (growing and not is_whole):
            break
        size += len(line)
        taken.append(_as_text(line))
    return Lines(
        from_line=from_line,
        to_line=from_line + len(taken) - 1,
        text="\n".join(taken),
        is_end=not file.peek(1),
    )


def _skip_rest(file: io.BufferedReader, line: bytes) -> bool:
    """Move to the end of a line that was read in part; False when the file ends before it."""
    if len(line) < LINE_BYTES:
        return False
    while piece := file.readline(_READ_BYTES):
        if piece.endswith(b"\n"):
            return True
    return False


def _as_text(line: bytes) -> str:
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
    return text if len(line) < LINE_BYTES or line.endswith(b"\n") else text + _LINE_MARK

"""The run logs on disk: `<folder>/yyyy-MM-dd/<run id>.log`, by the UTC day of the due time.

A run that printed nothing has no file. Job processes write the files (see `output`); this module
finds them, reads and searches them a piece at a time, cuts them and deletes old ones.
"""

import contextlib
import fcntl
import io
import os
import re
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from warren.broker.messages.to_scheduler import FOUND_LIMIT
from warren.broker.messages.values import LOG_TAIL_BYTES
from warren.executor.disk import DEFAULT_RESERVE, Reserve, Space, misplaced, open_regular, space_of
from warren.executor.logs import line_times
from warren.executor.logs.line_times import TimeChanges

#: How many bytes one search reads at most.
SEARCH_BYTES = 8_000_000
_PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLines:
    """Numbers of lines; `to_line` is the last line searched."""

    lines: tuple[int, ...]
    to_line: int
    is_end: bool


def find(
    file: io.BufferedReader,
    words: str,
    from_line: int,
    *,
    most_bytes: int = SEARCH_BYTES,
    most_found: int = FOUND_LIMIT,
) -> FoundLines:
    """Return which lines contain the words, in any case, from the file's position on.

    `from_line` is the number of the line there. A search always ends at the end of a line, so that
    the next one continues with the line after it.
    """
    wanted = words.encode().lower()
    positions: list[int] = []
    line, looked = from_line, 0
    carried = b""
    while piece := file.readline(_PIECE_BYTES):
        looked += len(piece)
        # The words may span two pieces of a very long line.
        if wanted in (carried + piece).lower() and positions[-1:] != [line]:
            positions.append(line)
        carried = b""
        if not piece.endswith(b"\n"):
            carried = piece[-len(wanted) :]
            continue
        line += 1
        if looked >= most_bytes or len(positions) >= most_found:
            is_end = not file.peek(1)
            return FoundLines(lines=tuple(positions), to_line=line - 1, is_end=is_end)
    last = line if carried else line - 1
    return FoundLines(lines=tuple(positions), to_line=last, is_end=True)


#: The most bytes of text in an answer, and in a line; longer lines are cut and marked.
CHUNK_BYTES, LINE_BYTES = 256_000, 16_000

_LINE_MARK = " … [line cut]"
_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines `from_line` to `to_line`, 1-based; `to_line` < `from_line` if there are none.

    `is_end`: there are no more lines at present. `missing`: no logs of that day are kept here.
    `times`: pairs of a line and the time of that line and those after it.
    """

    from_line: int
    to_line: int
    text: str
    is_end: bool
    missing: bool = False
    times: TimeChanges = ()


def first_of_last(file: io.BufferedReader, limit: int, *, growing: bool) -> int:
    """Return the number of the line with which the last `limit` lines begin; rewind the file.

    These begin in the last CHUNK_BYTES; if even the last line is longer, it is returned. While the
    log is `growing`, an unfinished line does not count.
    """
    finished, end, size = _count_lines(file)
    count = finished + (end < size)
    start = max(0, (end if growing else size) - CHUNK_BYTES)
    earlier, begins_at, _ = _count_lines(file, start)
    first = earlier + 1 if begins_at == start else earlier + 2
    return max(1, count - limit + 1, min(first, finished if growing else count))


def _count_lines(file: io.BufferedReader, limit: int = sys.maxsize) -> tuple[int, int, int]:
    """Count the line feeds in the first `limit` bytes; rewind the file.

    Returns their number, the bytes up to and including the last one, and the bytes in all.
    """
    count = end = size = 0
    while data := file.read(min(limit - size, _READ_BYTES)):
        if newlines := data.count(b"\n"):
            count, end = count + newlines, size + data.rindex(b"\n") + 1
        size += len(data)
    file.seek(0)
    return count, end, size


def skip(file: io.BufferedReader, count: int) -> bool:
    """Move past `count` lines; return False if there are fewer."""
    while count:
        at = file.tell()
        data = file.read(_READ_BYTES)
        if not data:
            return False
        newlines = data.count(b"\n")
        if newlines >= count:
            end = -1
            for _ in range(count):
                end = data.index(b"\n", end + 1)
            file.seek(at + end + 1)
            return True
        count -= newlines
    return True


def take(file: io.BufferedReader, path: str, from_line: int, limit: int, *, growing: bool) -> Lines:
    """Return up to `limit` lines and CHUNK_BYTES from the file's position on.

    `from_line` is the number of the line there. While the log is `growing`, an unfinished last line
    is left out. `path` is the file's.
    """
    taken: list[str] = []
    offsets: list[int] = []
    size = 0
    while len(taken) < limit and size < CHUNK_BYTES:
        offset = file.tell()
        line = file.readline(LINE_BYTES)
        is_whole = line.endswith(b"\n") or _skip_rest(file, line)
        if not line or (growing and not is_whole):
            break
        size += len(line)
        taken.append(_as_text(line))
        offsets.append(offset)
    last_change_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
    return Lines(
        from_line=from_line,
        to_line=from_line + len(taken) - 1,
        text="\n".join(taken),
        is_end=not file.peek(1),
        times=line_times.changes(path, offsets, from_line, last_change_ms),
    )


def _skip_rest(file: io.BufferedReader, line: bytes) -> bool:
    """Move to the end of a partly read line; return False if the file ends before that."""
    if len(line) < LINE_BYTES:
        return False
    while piece := file.readline(_READ_BYTES):
        if piece.endswith(b"\n"):
            return True
    return False


def _as_text(line: bytes) -> str:
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
    return text if len(line) < LINE_BYTES or line.endswith(b"\n") else text + _LINE_MARK


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
        """Rename a log that is there before its run starts: it is that of another run of its id."""
        if os.access(path, os.F_OK):
            with contextlib.suppress(OSError):
                os.rename(path, f"{path}.of-another")  # noqa: PTH104 - see path_of
                os.unlink(line_times.notes_path(path))  # noqa: PTH108 - see path_of

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
                    from_line = first_of_last(file, limit, growing=growing)
                if not skip(file, from_line - 1):
                    return _nothing(from_line)
                return take(file, path, from_line, max(0, limit), growing=growing)
        except OSError:
            return _nothing(from_line, missing=not (self.folder / day).is_dir())

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

    def clean(self, keep_days: int, now: datetime | None = None) -> int:
        """Delete the folders of days more than `keep_days` ago; return how many.

        A log that is locked, because a run is still writing it, stays, and so does its folder.
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

"""Reads the lines of an open log, in pieces, never the whole file."""

import io
import os
import sys
from dataclasses import dataclass

from warren.executor.logs import line_times
from warren.executor.logs.line_times import TimeChanges

#: Most bytes of text in one answer, and in one line; longer lines are cut and marked.
CHUNK_BYTES, LINE_BYTES = 256_000, 16_000

_LINE_MARK = " … [line cut]"
_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines `from_line` to `to_line`, 1-based; `to_line` < `from_line` if there are none.

    `is_end`: there are no more lines at present. `missing`: no logs of that day are kept here.
    `times`: from which line on which time counts.
    """

    from_line: int
    to_line: int
    text: str
    is_end: bool
    missing: bool = False
    times: TimeChanges = ()


def first_of_last(file: io.BufferedReader, limit: int, *, growing: bool) -> int:
    """Return the first of the last lines that begin in the last CHUNK_BYTES; go to the start.

    That is the last line if it is longer. While the log is `growing`, an unfinished one is no line.
    """
    finished, end, size = _count_lines(file)
    count = finished + (end < size)
    start = max(0, (end if growing else size) - CHUNK_BYTES)
    earlier, begins_at, _ = _count_lines(file, start)
    first = earlier + 1 if begins_at == start else earlier + 2
    return max(1, count - limit + 1, min(first, finished if growing else count))


def _count_lines(file: io.BufferedReader, most: int = sys.maxsize) -> tuple[int, int, int]:
    """Count the line feeds in the first `most` bytes; go back to the start.

    Returns their number, how many bytes there are up to the last one, and how many in all.
    """
    count = end = size = 0
    while data := file.read(min(most - size, _READ_BYTES)):
        if found := data.count(b"\n"):
            count, end = count + found, size + data.rindex(b"\n") + 1
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
        found = data.count(b"\n")
        if found >= count:
            end = -1
            for _ in range(count):
                end = data.index(b"\n", end + 1)
            file.seek(at + end + 1)
            return True
        count -= found
    return True


def take(file: io.BufferedReader, path: str, from_line: int, limit: int, *, growing: bool) -> Lines:
    """Return up to `limit` lines and CHUNK_BYTES from the file's place on, which is `from_line`.

    While the log is `growing`, an unfinished last line is left out. `path` is the file's.
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

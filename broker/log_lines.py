"""The lines of a run's log, read a piece at a time from any file of bytes: on disk or in a store.

Notes say when a log grew: each of their lines is `size milliseconds`, the log's size at that time.
What was written after the last note is as old as the log's last change. Notes that have reached
their maximum length end with `full`. Only the logs of short runs have no notes.

Lines are shown as a terminal leaves them.
"""

import io
import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from warren.broker.messages import FOUND_LIMIT, LOG_TAIL_BYTES

#: The most bytes of notes beside a log: about six hours of a job that prints all the time.
NOTES_BYTES = 1_000_000
#: The last line of notes that are as long as they may be.
FULL_NOTE = b"full\n"
#: Pairs of a line and the time of that line and those after it, in epoch milliseconds.
TimeChanges = tuple[tuple[int, int], ...]
#: How many bytes one search reads at most.
SEARCH_BYTES = 8_000_000
_PIECE_BYTES = 65_536


def time_changes(
    notes: bytes, offsets: Sequence[int], from_line: int, last_change_ms: int
) -> TimeChanges:
    """Return when the lines at these offsets of a log were written: a pair wherever that changes.

    A time of 0 = not known.
    """
    sizes, instants, is_full = _read_notes(notes)
    after_the_notes = last_change_ms if sizes and not is_full else 0
    times: list[tuple[int, int]] = []
    for line, offset in enumerate(offsets, from_line):
        at = bisect_right(sizes, offset)
        at_ms = instants[at] if at < len(instants) else after_the_notes
        if not times or times[-1][1] != at_ms:
            times.append((line, at_ms))
    return tuple(times)


def _read_notes(text: bytes) -> tuple[list[int], list[int], bool]:
    """Return the sizes in rising order, their instants, and whether the notes became full."""
    sizes: list[int] = []
    instants: list[int] = []
    for line in text.splitlines():
        size, _, at_ms = line.partition(b" ")
        is_number = size.isdigit() and at_ms.isdigit() and len(line) < 40  # noqa: PLR2004 - digits
        # A log that was cut may have grown back to an earlier size.
        if is_number and (not sizes or int(size) > sizes[-1]):
            sizes.append(int(size))
            instants.append(int(at_ms))
    return sizes, instants, text.endswith(FULL_NOTE)


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


def no_lines(from_line: int, *, missing: bool = False) -> Lines:
    return Lines(from_line=from_line, to_line=from_line - 1, text="", is_end=True, missing=missing)


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


def take(
    file: io.BufferedReader, from_line: int, limit: int, *, growing: bool = False
) -> tuple[Lines, list[int]]:
    """Return up to `limit` lines and CHUNK_BYTES from the file's position on, and their offsets.

    `from_line` is the number of the line there. While the log is `growing`, an unfinished last line
    is left out.
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
    lines = Lines(
        from_line=from_line,
        to_line=from_line + len(taken) - 1,
        text="\n".join(taken),
        is_end=not file.peek(1),
    )
    return lines, offsets


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


#: Escape sequences of terminals: `ESC [ … letter`, `ESC ] … BEL`, `ESC ( B` and the like.
_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^_`-~])"
)
#: Moves to the first column, as `\r` does.
_TO_START = re.compile(r"\x1b\[[01]?G")
#: Visible replacements for control characters, and for characters that change text direction.
_SIGNS = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) != "\t"}
    | {0x7F: "\u2421"}
    | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
    | {
        code: f"\\u{code:04x}"
        for code in (0x200E, 0x200F, 0x061C, 0x2028, 0x2029, *range(0x202A, 0x202F))
    }
    | {code: f"\\u{code:04x}" for code in range(0x2066, 0x206A)}
    | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
)


def shown(line: str) -> str:
    """Return a line without escape sequences, with visible control characters."""
    return without_codes(last_state(line)).translate(_SIGNS)


def shown_text(text: str) -> str:
    """Return several lines, each as `shown` returns it."""
    return "\n".join(shown(line) for line in text.split("\n"))


def shown_end(tail: str, length: int) -> str:
    """Return the last whole lines of a log's end, as `shown` returns them, within a length.

    A last line that is longer alone is cut.
    """
    text = shown_text(whole_lines(tail).rstrip())
    if len(text) <= length:
        return text
    kept = text[-length:]
    return kept.partition("\n")[2] or kept


def whole_lines(tail: str) -> str:
    """Return the end of a log without an incomplete first line."""
    is_cut = len(tail.encode(errors="replace")) >= LOG_TAIL_BYTES
    return (tail.partition("\n")[2] if is_cut else "") or tail


def without_codes(line: str) -> str:
    """Return a line without escape sequences."""
    return _TERMINAL.sub("", line) if "\x1b" in line else line


def last_state(line: str) -> str:
    """Return the last state of a line that overwrites itself, as progress bars do."""
    if "\x1b" in line:
        line = _TO_START.sub("\r", line)
    if "\r" not in line:
        return line
    states = line.split("\r")
    # What comes last may only set a colour, or nothing.
    return next((state for state in reversed(states) if without_codes(state)), states[-1])

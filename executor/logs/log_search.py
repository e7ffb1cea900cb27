"""Finds the lines of a log that hold some words, a stretch of the file at a time."""

import io
from dataclasses import dataclass

from warren.broker.messages.to_scheduler import FOUND_LIMIT

#: What one answer looks at.
SEARCH_BYTES = 8_000_000
_PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLines:
    """Numbers of lines; `to_line` is the last one that was looked at."""

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
    """Return which lines hold the words, small letters or capitals, from the file's place on.

    `from_line` is the number of the line there. A line is looked at as a whole, so that the next
    search goes on with the next one.
    """
    wanted = words.encode().lower()
    found: list[int] = []
    line, looked = from_line, 0
    carried = b""
    while piece := file.readline(_PIECE_BYTES):
        looked += len(piece)
        # Words may lie where a very long line was cut into pieces.
        if wanted in (carried + piece).lower() and found[-1:] != [line]:
            found.append(line)
        carried = b""
        if not piece.endswith(b"\n"):
            carried = piece[-len(wanted) :]
            continue
        line += 1
        if looked >= most_bytes or len(found) >= most_found:
            is_end = not file.peek(1)
            return FoundLines(lines=tuple(found), to_line=line - 1, is_end=is_end)
    last = line if carried else line - 1
    return FoundLines(lines=tuple(found), to_line=last, is_end=True)

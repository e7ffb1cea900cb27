"""When the lines of a log were written, to half a second: noted beside it, in `<run id>.times`.

The log itself stays as its job writes it. Each line of the notes is `size milliseconds`: the log's
size at that time. What was written after the last note is as old as the log's last change. A log
without notes is that of a shorter run, or of an executor that takes no notes.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

from warren.executor.disk import open_regular

#: The most bytes of notes beside a log: about six hours of a job that prints all the time.
NOTES_BYTES = 1_000_000
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT
#: The last line of notes that are as long as they may be.
_FULL = b"full\n"
#: Pairs of a line and the time of that line and those after it, in epoch milliseconds.
TimeChanges = tuple[tuple[int, int], ...]


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
                    os.write(notes, line if room > len(line) else line + _FULL)
            finally:
                os.close(notes)
        except OSError:
            return  # a log without times is still a log


def notes_path(path: str) -> str:
    """Return where the notes about a log are."""
    return f"{path.removesuffix('.log')}.times"


def changes(path: str, offsets: Sequence[int], from_line: int, last_change_ms: int) -> TimeChanges:
    """Return when the lines at these offsets of a log were written: a pair wherever that changes.

    A time of 0 = not known.
    """
    sizes, instants, is_full = _read(path)
    after_the_notes = last_change_ms if sizes and not is_full else 0
    times: list[tuple[int, int]] = []
    for line, offset in enumerate(offsets, from_line):
        at = bisect_right(sizes, offset)
        at_ms = instants[at] if at < len(instants) else after_the_notes
        if not times or times[-1][1] != at_ms:
            times.append((line, at_ms))
    return tuple(times)


def _read(path: str) -> tuple[list[int], list[int], bool]:
    """Return the sizes in rising order, their instants, and whether the notes became full."""
    try:
        with open(notes_path(path), "rb", opener=open_regular) as file:
            text = file.read(NOTES_BYTES + 100)
    except OSError:
        return [], [], False
    sizes: list[int] = []
    instants: list[int] = []
    for line in text.splitlines():
        size, _, at_ms = line.partition(b" ")
        is_number = size.isdigit() and at_ms.isdigit() and len(line) < 40  # noqa: PLR2004 - digits
        # A log that was cut may have grown back to an earlier size.
        if is_number and (not sizes or int(size) > sizes[-1]):
            sizes.append(int(size))
            instants.append(int(at_ms))
    return sizes, instants, text.endswith(_FULL)

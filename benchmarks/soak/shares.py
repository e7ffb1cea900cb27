"""What jobs share, seen from outside: each holds locked files, and tells if none is left.

The kernel unlocks the files of a process that dies, so nothing depends on a clock.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Others may come and go while a job looks for a free file.
LOOKS = 3
EXCEEDED = "exceeded"


@contextmanager
def held(folder: Path, name: str, size: int, weight: int, who: str) -> Iterator[None]:
    """Hold `weight` of `size` files; note who finds fewer free ones."""
    taken: dict[int, int] = {}
    try:
        for number in [*range(size)] * LOOKS:
            if len(taken) < weight and number not in taken:
                _take(folder / f"{name}.{number}", number, taken)
        if len(taken) < weight:
            with (folder / EXCEEDED).open("a") as out:
                out.write(f"{who} found {len(taken)} of {weight} free, of {size} of {name}\n")
        yield
    finally:
        for file in taken.values():
            os.close(file)


def exceeded(folder: Path) -> list[str]:
    """Return a line for each job that found too few."""
    path = folder / EXCEEDED
    return path.read_text().splitlines() if path.exists() else []


def _take(path: Path, number: int, taken: dict[int, int]) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken[number] = file
        return
    os.close(file)

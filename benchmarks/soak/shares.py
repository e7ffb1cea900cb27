"""What jobs share, seen from outside: each run holds locked files, and tells if none is left.

The kernel unlocks the files of a process that dies, so nothing depends on a clock. A file names the
run that holds it.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

#: Others may come and go while a job looks for a free file.
LOOKS = 3
EXCEEDED = "exceeded"


class Exceeded(NamedTuple):
    """A run that found too few files free, those that held the others, and what it found."""

    run: int
    holders: frozenset[int]
    text: str

    def __str__(self) -> str:
        holders = ", ".join(map(str, sorted(self.holders)))
        return f"run {self.run} found {self.text}; held by {holders or 'nobody'}"


@contextmanager
def held(folder: Path, name: str, size: int, weight: int, run: int) -> Iterator[None]:
    """Hold `weight` of `size` files for a run; note which run finds fewer free ones."""
    taken: dict[int, int] = {}
    try:
        for number in [*range(size)] * LOOKS:
            if len(taken) < weight and number not in taken:
                _take(folder / f"{name}.{number}", number, taken, run)
        if len(taken) < weight:
            others = (folder / f"{name}.{number}" for number in range(size) if number not in taken)
            holders = ",".join(sorted(_holders(others)))
            with (folder / EXCEEDED).open("a") as out:
                out.write(f"{run}\t{holders}\t{len(taken)} of {weight} free, of {size} of {name}\n")
        yield
    finally:
        for file in taken.values():
            os.close(file)


def exceeded(folder: Path) -> list[Exceeded]:
    """Return what each run noted that found too few."""
    path = folder / EXCEEDED
    lines = path.read_text().splitlines() if path.exists() else []
    found = []
    for line in lines:
        run, holders, text = line.split("\t")
        found.append(
            Exceeded(int(run), frozenset(map(int, filter(None, holders.split(",")))), text)
        )
    return found


def _take(path: Path, number: int, taken: dict[int, int], run: int) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.pwrite(file, b"%d" % run, 0)
        taken[number] = file
        return
    os.close(file)


def _holders(files: Iterable[Path]) -> set[str]:
    return {text for file in files if (text := file.read_text())}

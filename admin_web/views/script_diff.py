"""The difference between two versions of a script, as lines of a page.

Time and size are bounded: identical beginnings and ends are cut off first, and a middle too large
to be compared line by line is shown as removed and added as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, islice, zip_longest

#: Lines of each side that are compared at most, without identical beginnings and ends.
COMPARED = 3_000
#: Lines shown around each change, and lines shown at most.
AROUND = 3
SHOWN = 5_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference.

    `kind` is same, out, in or gap; a gap stands for identical lines that are left out. `old` and
    `new` are line numbers from 1 on; None if that side does not have the line.
    """

    kind: str
    old: int | None = None
    new: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Lines in order; `is_cut`: there are more than are shown."""

    lines: list[Line]
    added: int
    removed: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """Lines side by side; None = no line on that side."""

    old: Line | None
    new: Line | None

    @property
    def is_gap(self) -> bool:
        """Whether it stands for lines that are left out."""
        return self.old is not None and self.old.kind == "gap"


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `old_from` to `old_to` of one version and `new_from` to `new_to` of the other."""

    is_same: bool
    old_from: int
    old_to: int
    new_from: int
    new_to: int


def difference(old: str, new: str) -> Difference:
    """Return the differences between two scripts."""
    before, after = old.splitlines(), new.splitlines()
    blocks = list(_blocks(before, after))
    every = (line for block in _with_gaps(blocks) for line in _lines(block, before, after))
    lines = list(islice(every, SHOWN + 1))
    changed = [block for block in blocks if not block.is_same]
    return Difference(
        lines=lines[:SHOWN],
        added=sum(block.new_to - block.new_from for block in changed),
        removed=sum(block.old_to - block.old_from for block in changed),
        is_cut=len(lines) > SHOWN,
    )


def side_by_side(lines: Sequence[Line]) -> Iterator[Pair]:
    """Yield the lines of a difference in pairs: removed ones beside added ones."""
    for is_change, group in groupby(lines, key=lambda line: line.kind in ("out", "in")):
        stretch = list(group)
        if not is_change:
            yield from (Pair(line, line) for line in stretch)
            continue
        out = [line for line in stretch if line.kind == "out"]
        put_in = [line for line in stretch if line.kind == "in"]
        yield from (Pair(*both) for both in zip_longest(out, put_in))


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[_Block]:
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    yield _Block(True, 0, head, 0, head)
    middle = old[head:old_end], new[head:new_end]
    if max(map(len, middle)) > COMPARED:
        yield _Block(False, head, old_end, head, new_end)
    else:
        # Keeps autojunk on: without it, many repeated lines would take quadratic time.
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, *middle).get_opcodes():
            yield _Block(tag == "equal", head + i1, head + i2, head + j1, head + j2)
    yield _Block(True, old_end, len(old), new_end, len(new))


def _alike(sequence: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines at the beginning are identical."""
    pairs = enumerate(zip(sequence, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(sequence), len(other)))


def _with_gaps(blocks: Sequence[_Block]) -> Iterator[_Block | None]:
    """Yield the blocks; None replaces the middle of long identical ones."""
    present = [block for block in blocks if block.old_to > block.old_from or not block.is_same]
    if all(block.is_same for block in present):
        return
    for place, block in enumerate(present):
        count = block.old_to - block.old_from
        before = 0 if place == 0 else AROUND
        after = 0 if place == len(present) - 1 else AROUND
        if not block.is_same or count <= before + after + 1:
            yield block
            continue
        if before:
            yield _part(block, 0, before)
        yield None
        if after:
            yield _part(block, count - after, count)


def _part(block: _Block, start: int, end: int) -> _Block:
    return _Block(
        True,
        block.old_from + start,
        block.old_from + end,
        block.new_from + start,
        block.new_from + end,
    )


def _lines(block: _Block | None, old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    if block is None:
        yield Line("gap")
    elif block.is_same:
        for offset in range(block.old_to - block.old_from):
            at_old, at_new = block.old_from + offset, block.new_from + offset
            yield Line("same", at_old + 1, at_new + 1, old[at_old])
    else:
        for number in range(block.old_from, block.old_to):
            yield Line("out", old=number + 1, text=old[number])
        for number in range(block.new_from, block.new_to):
            yield Line("in", new=number + 1, text=new[number])

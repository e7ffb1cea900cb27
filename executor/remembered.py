"""Ids that are done, for an hour or so, in a few bits each.

Run ids are dense (they come in blocks from one counter), so a bitmap per 256 ids holds millions
of them in a few megabytes, where a set would take a hundred bytes each.
"""

from collections.abc import Iterator

#: Ids in one bitmap.
BLOCK_SIZE = 256
#: Most bitmaps kept, some 300 bytes each; beyond, the oldest are forgotten before their time.
BLOCK_LIMIT = 100_000


class RememberedIds:
    """A set of ids that forgets what was added long ago. Not thread-safe."""

    def __init__(self, limit: int = BLOCK_LIMIT) -> None:
        self._limit = limit
        self._bits: dict[int, int] = {}
        self._touched_at_ms: dict[int, int] = {}

    def __contains__(self, number: int) -> bool:
        block, bit = divmod(number, BLOCK_SIZE)
        return bool(self._bits.get(block, 0) >> bit & 1)

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self._bits.values())

    def add(self, number: int, at_ms: int) -> None:
        """Remember an id from `at_ms` on."""
        block, bit = divmod(number, BLOCK_SIZE)
        self.add_block(block, 1 << bit, at_ms)

    def add_block(self, block: int, bits: int, at_ms: int) -> None:
        """Remember every id of a block whose bit is set."""
        self._bits[block] = self._bits.get(block, 0) | bits
        self._touched_at_ms[block] = max(at_ms, self._touched_at_ms.get(block, 0))

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """Yield (block, bits, when it was last added to) of each block."""
        for block, bits in self._bits.items():
            yield block, bits, self._touched_at_ms[block]

    def forget_before(self, at_ms: int) -> int:
        """Forget blocks last added to before; return the time before which ids may be forgotten.

        That is 0 when nothing was forgotten, and later than `at_ms` when there were too many.
        """
        touched = self._touched_at_ms
        gone = [block for block, then in touched.items() if then < at_ms]
        horizon = at_ms if gone else 0
        surplus = len(touched) - len(gone) - self._limit
        if surplus > 0:
            oldest = sorted((then, block) for block, then in touched.items() if then >= at_ms)
            gone += [block for _, block in oldest[:surplus]]
            horizon = oldest[surplus - 1][0] + 1
        for block in gone:
            del self._bits[block], touched[block]
        return horizon

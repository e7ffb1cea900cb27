"""The ids of finished runs, kept for about an hour in a few bits each.

Run ids are dense (they come in blocks from one counter), so bitmaps of 256 ids hold millions of
them in a few megabytes; a set would need a hundred bytes each.
"""

from collections.abc import Iterator

#: Ids in one bitmap.
BLOCK_SIZE = 256
#: Most bitmaps kept, about 300 bytes each; beyond that the oldest are dropped early.
BLOCK_LIMIT = 100_000


class FinishedIds:
    """A set of ids that drops old ones. Not thread-safe."""

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
        """Add an id that finished at `at_ms`."""
        block, bit = divmod(number, BLOCK_SIZE)
        self.add_block(block, 1 << bit, at_ms)

    def add_block(self, block: int, bits: int, at_ms: int) -> None:
        """Add every id of a block whose bit is set."""
        self._bits[block] = self._bits.get(block, 0) | bits
        self._touched_at_ms[block] = max(at_ms, self._touched_at_ms.get(block, 0))

    def touched_at_ms(self, number: int) -> int:
        """Return when an id of the block of this one was last added; 0 if none was."""
        return self._touched_at_ms.get(number // BLOCK_SIZE, 0)

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """Yield (block, bits, time of the last addition in ms) of each block."""
        for block, bits in self._bits.items():
            yield block, bits, self._touched_at_ms[block]

    def forget_before(self, at_ms: int) -> int:
        """Drop blocks older than `at_ms`; return the time before which ids may be missing.

        That is 0 if nothing was dropped, and later than `at_ms` if there were too many blocks.
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

"""The runs whose reports the broker has: the latest reports, and the ids for about an hour.

Run ids are dense (they come in blocks from one counter), so bitmaps of 256 ids hold millions of
them in a few megabytes; a set would need a hundred bytes each.
"""

from collections.abc import Iterator
from itertools import groupby

from warren.executor.journal import records

#: Ids in one bitmap.
BLOCK_SIZE = 256
#: The most bitmaps that are kept, about 300 bytes each; beyond that, the oldest are dropped early.
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
        """Add the ids of a block whose bits are set."""
        self._bits[block] = self._bits.get(block, 0) | bits
        self._touched_at_ms[block] = max(at_ms, self._touched_at_ms.get(block, 0))

    def remove(self, number: int) -> None:
        """Remove an id."""
        block, bit = divmod(number, BLOCK_SIZE)
        if number in self:
            self._bits[block] ^= 1 << bit

    def touched_at_ms(self, number: int) -> int:
        """Return when an id was last added to this id's block; 0 if none was."""
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
        old_blocks = [block for block, then in touched.items() if then < at_ms]
        horizon = at_ms if old_blocks else 0
        surplus = len(touched) - len(old_blocks) - self._limit
        if surplus > 0:
            oldest = sorted((then, block) for block, then in touched.items() if then >= at_ms)
            old_blocks += [block for _, block in oldest[:surplus]]
            horizon = oldest[surplus - 1][0] + 1
        for block in old_blocks:
            del self._bits[block], touched[block]
        return horizon


#: How long a run is kept after the broker has its report, in milliseconds.
MEMORY_MS = 3_600_000
#: How long a report may take from the broker into the database: a scheduler that is stuck holds it
#: until the broker gives it to another one.
SETTLED_MS = 600_000
#: Bytes of memory for reports, kept in case a scheduler asks for them again.
RESULTS_LIMIT = 8_000_000
#: The overhead of a kept line, in bytes: more than a typical line itself, so it has to be counted.
LINE_COST = 250


class FinishedRuns:
    """Finished runs by id, each with its FINISHED line if that is still kept. Not thread-safe."""

    def __init__(self, results_limit: int = RESULTS_LIMIT) -> None:
        self._results_limit = results_limit
        self._results: dict[int, tuple[int, bytes]] = {}
        self._results_bytes = 0
        self._ids = FinishedIds()

    def __contains__(self, run_id: int) -> bool:
        return run_id in self._results or run_id in self._ids

    def line(self, run_id: int) -> bytes:
        """Return the FINISHED line of a run; b"" if it is not kept."""
        return self._results.get(run_id, (0, b""))[1]

    def is_settled(self, run_id: int, now_ms: int) -> bool:
        """Whether a scheduler must have stored the report of a run by now, unless it is lost."""
        return run_id in self._ids and now_ms - self._ids.touched_at_ms(run_id) >= SETTLED_MS

    def add(self, run_id: int, at_ms: int, line: bytes) -> None:
        """Add a run, with its FINISHED line, or b"" if that is unknown."""
        self._ids.add(run_id, at_ms)
        if run_id in self._results:
            self._drop(run_id)
        if line:
            self._results[run_id] = (at_ms, line)
            self._results_bytes += len(line) + LINE_COST
        while self._results_bytes > self._results_limit or self._is_oldest_before(
            at_ms - MEMORY_MS
        ):
            self._drop(next(iter(self._results)))

    def drop(self, run_id: int) -> None:
        """Forget a run."""
        self._ids.remove(run_id)
        if run_id in self._results:
            self._drop(run_id)

    def ended_before(self, run_id: int, at_ms: int) -> bool:
        """Whether a run that is known by its id alone ended before this time."""
        return run_id in self._ids and self._ids.touched_at_ms(run_id) < at_ms

    def add_block(self, block: records.FinishedIdBlock) -> int:
        """Add the ids of a REMEMBERED line; return the highest."""
        bits = int(block.bits, 16)
        self._ids.add_block(block.block, bits, block.at_ms)
        return block.block * BLOCK_SIZE + bits.bit_length() - 1

    def forget(self, now_ms: int) -> int:
        """Drop what is older than an hour; return the time before which ids may be missing.

        That is 0 if nothing was dropped.
        """
        horizon_ms = now_ms - MEMORY_MS
        for run_id in [run_id for run_id, (at, _) in self._results.items() if at < horizon_ms]:
            self._drop(run_id)
        return self._ids.forget_before(horizon_ms)

    def lines(self) -> Iterator[bytes]:
        """Yield the journal lines that restore the finished runs."""
        for block, bits, at_ms in self._ids.blocks():
            remembered = records.FinishedIdBlock(block=block, bits=f"{bits:x}", at_ms=at_ms)
            yield records.to_line(remembered)
        yield from (line for _, line in self._results.values())
        for at_ms, group in groupby(self._results.items(), key=lambda item: item[1][0]):
            run_ids = tuple(run_id for run_id, _ in group)
            yield records.to_line(records.Confirmed(run_ids=run_ids, at_ms=at_ms))

    def _drop(self, run_id: int) -> None:
        _, line = self._results.pop(run_id)
        self._results_bytes -= len(line) + LINE_COST

    def _is_oldest_before(self, horizon_ms: int) -> bool:
        """Whether the first report is that old; if the clock was set back, some are kept longer."""
        first = next(iter(self._results), None)
        return first is not None and self._results[first][0] < horizon_ms

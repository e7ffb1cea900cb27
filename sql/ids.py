"""Run ids in blocks from a counter row, so that a batch of runs is one INSERT everywhere."""

import threading
from collections import deque

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from sql.engine import Database
from sql.models import Sequence

#: Fewest and most ids that are held for the runs to come.
SMALLEST_BLOCK = 8
LARGEST_BLOCK = 2_000


class RunIds:
    """Gives out run ids, from a reserve that follows the demand; thread-safe.

    What is held when the process ends is lost, which leaves gaps and harms nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._free: deque[int] = deque()
        self._wanted = SMALLEST_BLOCK

    def reserve(self) -> None:
        """Fetch a block when the reserve is low, in a transaction of its own.

        Call it before a unit of work that takes ids, so that the counter's row is not locked for
        the length of that unit.
        """
        with self._lock:
            wanted = self._wanted
            if len(self._free) >= wanted:
                return
        # Without the lock: who takes ids inside a unit of work must not wait for this one.
        first = self._database.write(lambda session: take_block(session, wanted))
        with self._lock:
            self._free.extend(range(first, first + wanted))

    def one(self) -> int:
        """Return one id for a run that only its id protects, from outside any unit of work.

        A unit that is repeated, its first commit's answer being lost, then finds its run there.
        """
        with self._lock:
            if self._free:
                return self._free.popleft()
        return self._database.write(lambda session: take_block(session, 1))

    def take(self, session: Session, count: int) -> list[int]:
        """Return `count` ids; from the caller's own transaction when the reserve is too small."""
        with self._lock:
            self._wanted = min(LARGEST_BLOCK, max(SMALLEST_BLOCK, self._wanted // 2, 2 * count))
            if len(self._free) >= count:
                return [self._free.popleft() for _ in range(count)]
        # Nothing of this block is kept: it is gone with the transaction if that rolls back.
        first = take_block(session, count)
        return list(range(first, first + count))


def take_block(session: Session, size: int) -> int:
    """Return the first of `size` fresh run ids; the caller's transaction makes them its own."""
    row = select(Sequence.next_id).where(Sequence.name == "run").with_for_update()
    first = session.execute(row).scalar_one()
    session.execute(update(Sequence).where(Sequence.name == "run").values(next_id=first + size))
    return int(first)

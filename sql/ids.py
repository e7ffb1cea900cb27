"""Run ids in blocks from a counter row, so that a batch of runs is one INSERT everywhere."""

import threading

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from sql.engine import Database
from sql.models import Sequence


class RunIds:
    """Gives out run ids; unused ones of a block are lost, which leaves gaps and harms nothing.

    Args:
        database: where the counter row is.
        block: how many ids are fetched at once.

    """

    def __init__(self, database: Database, *, block: int = 1_000) -> None:
        self._database = database
        self._block = block
        self._lock = threading.Lock()
        self._next = 0
        self._end = 0

    def reserve(self, count: int) -> None:
        """Fetch a block when fewer than `count` ids are left, in a transaction of its own."""
        with self._lock:
            if self._end - self._next >= count:
                return
            size = max(count, self._block)
            self._next = self._database.write(lambda session: take_block(session, size))
            self._end = self._next + size

    def take(self, session: Session, count: int) -> range:
        """Return `count` ids; from the caller's own transaction when the reserve is too small."""
        with self._lock:
            if self._end - self._next >= count:
                first, self._next = self._next, self._next + count
                return range(first, first + count)
        # Nothing of this block is kept: it is gone with the transaction if that rolls back.
        first = take_block(session, count)
        return range(first, first + count)


def take_block(session: Session, size: int) -> int:
    """Return the first of `size` fresh run ids; the caller's transaction makes them its own."""
    row = select(Sequence.next_id).where(Sequence.name == "run").with_for_update()
    first = session.execute(row).scalar_one()
    session.execute(update(Sequence).where(Sequence.name == "run").values(next_id=first + size))
    return int(first)

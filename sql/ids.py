"""Reserves run ids in blocks from a counter row, so that a batch of runs is one INSERT."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from warren.sql.engine import Database
from warren.sql.epochs import Cause
from warren.sql.errors import RunIdTaken
from warren.sql.models import Sequence

P = ParamSpec("P")
T = TypeVar("T")

#: The fewest and the most ids that are reserved ahead.
SMALLEST_BLOCK = 8
LARGEST_BLOCK = 2_000
#: A reserve that is used up sooner doubles.
BUSY_SECONDS = 1.0


class RunIds:
    """Assigns run ids from a reserve that grows and shrinks with the demand; thread-safe.

    Ids still reserved when the process ends are never used; the gaps are harmless. So are those of
    a reserve that is dropped because the counter went back.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._free: deque[int] = deque()
        self._turns = database.seen_ids.turns
        self._wanted = SMALLEST_BLOCK
        self._is_fetching = False
        self._fetched_at = -math.inf

    @property
    def turns(self) -> int:
        """How often the counter went back, or the server changed.

        What was read before by an id of any table may be gone, and the id belong to another row.
        """
        return self._database.seen_ids.turns

    def reserve(self) -> None:
        """Fetch a block in a separate transaction if the reserve is low.

        Call it before a unit of work that takes ids, so that this does not lock the counter's row
        until it commits.
        """
        with self._lock:
            self._give_up_old()
            if len(self._free) >= self._wanted or (self._is_fetching and self._free):
                return
            self._is_fetching = True
            if self._clock() - self._fetched_at < BUSY_SECONDS:
                self._wanted = min(LARGEST_BLOCK, 2 * self._wanted)
            self._fetched_at = self._clock()
            wanted = self._wanted
        # Not under the lock: a unit of work that takes ids must not wait for this transaction.
        try:
            first, turns = self._block(wanted)
        finally:
            self._is_fetching = False
        with self._lock:
            self._give_up_old()
            if turns == self._turns:
                self._free.extend(range(first, first + wanted))

    def take_one(self) -> int:
        """Return one id, to be taken before the unit of work that plans the run.

        If that unit is repeated because the answer to its commit was lost, it finds its run by this
        id.
        """
        with self._lock:
            self._give_up_old()
            if self._free:
                return self._free.popleft()
        return self._block(1)[0]

    def take(self, session: Session, count: int) -> list[int]:
        """Return `count` ids; in the caller's transaction if the reserve is too small."""
        if not count:
            return []
        with self._lock:
            self._give_up_old()
            self._wanted = min(LARGEST_BLOCK, max(SMALLEST_BLOCK, self._wanted // 2, 2 * count))
            if len(self._free) >= count:
                return [self._free.popleft() for _ in range(count)]
        # This block is not added to the reserve, because the transaction may roll it back.
        first = self._take_block(session, count)
        return list(range(first, first + count))

    def _block(self, size: int) -> tuple[int, int]:
        """Fetch a block; return its first id, and how often the counter has gone back."""
        first = self._database.write(lambda session: self._take_block(session, size))
        seen = self._database.seen_ids
        seen.highest = max(seen.highest, first + size - 1)
        return first, seen.turns

    def _take_block(self, session: Session, size: int) -> int:
        """Take a block in the caller's transaction.

        Raises:
            RunIdTaken: this process has seen ids of it before.

        """
        # Read first: once the counter's row is locked, others may have seen what follows.
        seen_id = self._database.seen_ids.highest
        first = take_block(session, size)
        if first <= seen_id:
            words = f"the counter of run ids is at {first}, and {seen_id} has been seen"
            raise RunIdTaken(words, first)
        return first

    def _give_up_old(self) -> None:
        """Drop the reserve if the counter has gone back since: its ids may be reused."""
        if self._turns != self._database.seen_ids.turns:
            self._turns = self._database.seen_ids.turns
            self._free.clear()


def again_if_taken(work: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function that takes ids before its transaction: repeat it if others have those ids."""

    @wraps(work)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except RunIdTaken:
            return work(*args, **kwargs)

    return repeated


def has_gone_back(database: Database, next_id: int, seen_id: int) -> bool:
    """Return whether the counter is at an id that was seen before it was read.

    If it is, a new epoch begins, unless another process has begun it.
    """
    if next_id <= seen_id:
        database.begin_epoch(Cause.COUNTER, seen_id=seen_id)
        return True
    database.seen_ids.highest = max(database.seen_ids.highest, next_id - 1)
    return False


def take_block(session: Session, size: int) -> int:
    """Return the first of `size` new run ids; they are taken when the caller commits."""
    row = select(Sequence.next_id).where(Sequence.name == "run").with_for_update()
    first = session.execute(row).scalar_one()
    session.execute(update(Sequence).where(Sequence.name == "run").values(next_id=first + size))
    return int(first)

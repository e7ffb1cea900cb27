"""How many runs each address has in flight.

A count is the last one from the database, plus what was routed since.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from warren.sql.engine import Database
from warren.sql.runs import queries

#: An address of an app.
Place = tuple[int, str]


#: The most runs that an address may have in flight; the others stay PLANNED.
LIMIT = 2_000
#: How long a count is trusted, and how long one that says "full": other schedulers see some of the
#: ends.
COUNT_SECONDS = 1.0
FULL_SECONDS = 0.25


class Workload:
    """Counts of runs in flight; `limit` is for one address of one app.

    Used by one thread, except `free`. The count misses runs that end while it is taken, until it is
    taken again. `clock` is monotonic seconds.
    """

    def __init__(
        self,
        database: Database,
        *,
        limit: int = LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._limit = limit
        self._clock = clock
        self._counts: Counter[tuple[int, str]] = Counter()
        self._counted_at = float("-inf")
        # Bounded, because nothing reads it while no run is due.
        self._freed: deque[Mapping[tuple[int, str], int]] = deque(maxlen=1_000)

    def room(self, app_id: int, addresses: Iterable[str]) -> int:
        """Return how many more runs these addresses take in total."""
        addresses = list(addresses)
        self._count(older_than=COUNT_SECONDS)
        if any(not self.has_room(app_id, address) for address in addresses):
            # An executor finishes thousands a second: a full one soon has room again.
            self._count(older_than=FULL_SECONDS)
        return sum(max(0, self._limit - self._counts[app_id, address]) for address in addresses)

    def in_flight(self, app_id: int, addresses: Iterable[str]) -> dict[str, int]:
        """Return how many runs each of these addresses has, by the last count."""
        return {address: self._counts[app_id, address] for address in addresses}

    def has_room(self, app_id: int, address: str, *, also: int = 0) -> bool:
        """Whether the address takes one more run, besides `also` runs that are not added yet."""
        return self._counts[app_id, address] + also < self._limit

    def add(self, app_id: int, address: str) -> None:
        """Record that a run was routed to an address."""
        self._counts[app_id, address] += 1

    def free(self, ended: Mapping[tuple[int, str], int]) -> None:
        """Record how many runs ended at each address of each app; may be called from any thread."""
        self._freed.append(ended)

    def _count(self, *, older_than: float) -> None:
        if self._clock() - self._counted_at < older_than:
            while self._freed:
                self._counts.subtract(self._freed.popleft())
            return
        self._freed.clear()
        self._counts = Counter()
        for boot, runs in self._database.read(queries.in_flight).items():
            self._counts[boot.app_id, boot.address] += runs
        self._counted_at = self._clock()

"""How many runs each address has in flight, as counted lately and as routed since."""

import time
from collections import Counter
from collections.abc import Iterable

from sql import run_queries
from sql.engine import Database

#: Runs in flight an address may have; the rest stays PLANNED.
LIMIT = 2_000
#: How long a count is believed.
COUNT_SECONDS = 1.0


class Workload:
    """Counts of runs in flight; used by one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: Counter[str] = Counter()
        self._counted_at = float("-inf")

    def room(self, addresses: Iterable[str]) -> int:
        """Return how many more runs these addresses take together."""
        self._count()
        return sum(max(0, LIMIT - self._counts[address]) for address in addresses)

    def has_room(self, address: str) -> bool:
        """Whether the address takes one more."""
        return self._counts[address] < LIMIT

    def add(self, address: str) -> None:
        """Note that a run was routed there."""
        self._counts[address] += 1

    def _count(self) -> None:
        if time.monotonic() - self._counted_at < COUNT_SECONDS:
            return
        self._counts = Counter()
        for row in self._database.read(run_queries.in_flight):
            self._counts[row.executor_address] += row.runs
        self._counted_at = time.monotonic()

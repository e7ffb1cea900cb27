"""How many runs each address has in flight, and which jobs peeks leave out for a while.

A count is the last one from the database, plus what was routed since.

Runs are peeked at by due time. If thousands of jobs wait for one executor, their runs are the
oldest, so those jobs must be left out long enough for others to be found.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from warren.sql.engine import Database
from warren.sql.runs import queries

#: How long a job is left out whose executor is full or offline, if so many are that they fill a
#: peek: until its executor has room, but at least
#: `FULL_SECONDS`, so that a claim finds room for many runs, and at most this, as its route may
#: choose another executor; or if it waits for several executors or for one that is offline.
MANY_FULL_SECONDS = 5.0
MANY_WAITING_SECONDS = 1.0
#: How long a job is left out if its runs can neither be routed nor ended.
BROKEN_SECONDS = 60.0

#: An address of an app.
Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Aside:
    """How long a job is left out: until a time, or until its place, if any, has room."""

    until: float
    with_room_at: float = 0.0
    place: Place | None = None


class JobsAside:
    """Knows which jobs to leave out. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Aside] = {}

    def put_full(self, full: Mapping[int, Place | None], now: float, *, peek_limit: int) -> None:
        """Leave out jobs whose place has no room, or which wait for several places or for none.

        They were found by a peek for at most `peek_limit` runs, and could fill the next one too.
        """
        are_many = len(self._jobs) + len(full) >= peek_limit
        for job_id, place in full.items():
            seconds = FULL_SECONDS
            if are_many:
                seconds = MANY_FULL_SECONDS if place else MANY_WAITING_SECONDS
            self._jobs[job_id] = _Aside(now + seconds, now + FULL_SECONDS, place)

    def put_broken(self, job_id: int, now: float) -> None:
        """Leave out a job that would fail again."""
        self._jobs[job_id] = _Aside(now + BROKEN_SECONDS)

    def free(self, now: float, room_of: Callable[[Place], int]) -> None:
        """Readmit jobs whose time is up, and as many as their places now have room for."""
        room: dict[Place, int] = {}
        kept = {}
        for job_id, aside in self._jobs.items():
            place = aside.place
            if aside.until <= now:
                continue
            if place is not None and aside.with_room_at <= now:
                left = room[place] if place in room else room_of(place)
                room[place] = left - 1
                if left > 0:
                    continue
            kept[job_id] = aside
        self._jobs = kept

    @property
    def job_ids(self) -> Collection[int]:
        """The jobs to leave out."""
        return self._jobs.keys()


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
        for row in self._database.read(queries.in_flight):
            self._counts[row.app_id, row.address] += row.runs
        self._counted_at = self._clock()

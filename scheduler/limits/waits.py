"""The jobs that wait for limits: peeks leave them out until their limits have room.

A job whose limit was full is peeked at again once a run has released the limit or its bucket has
refilled. The peek takes no more runs than the limit has room for, so a thousand waiting runs cost
no more than one.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from warren.scheduler.limits.room import FullLimit, LimitState
from warren.sql.engine import Database
from warren.sql.limits import holds

#: How often limits are checked without a signal: runs also end on other schedulers, and people
#: change limits.
LOOK_SECONDS = 0.5
#: After this long a job is claimed although its limit is full: it may have dropped the limit.
RECHECK_SECONDS = 10.0
#: The room of a limit that no longer limits anything.
_ANY_NUMBER = 1_000_000


@dataclass(frozen=True, slots=True)
class ReadyJobs:
    """Jobs that wait for one limit, which has room for `runs` of their runs."""

    limit_id: int
    job_ids: Collection[int]
    runs: int


class LimitWaits:
    """The jobs of one scheduler that wait for limits; used by its dispatcher's thread.

    Args:
        has_room: set by others when a run gave something back.
        underused: set here while half of a limit that jobs wait for is free: ends of runs are
            waiting to be stored.
        now_ms: the database's clock.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        database: Database,
        *,
        has_room: threading.Event,
        underused: threading.Event,
        now_ms: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._has_room = has_room
        self._underused = underused
        self._now_ms = now_ms
        self._clock = clock
        self._full: dict[int, FullLimit] = {}
        self._apps: dict[int, int] = {}
        self._until: dict[int, float] = {}
        self._room: dict[int, int] = {}
        self._looked_at = float("-inf")

    @property
    def job_ids(self) -> Collection[int]:
        return self._full.keys()

    def put(self, app_id: int, full: Mapping[int, FullLimit]) -> None:
        """Leave out jobs of an app until their limits have room."""
        until = self._clock() + RECHECK_SECONDS
        for job_id, limit in full.items():
            self._full[job_id], self._apps[job_id] = limit, app_id
            self._until[job_id] = until

    def release(self, job_ids: Iterable[int]) -> None:
        """Let jobs be peeked at like all others."""
        for job_id in job_ids:
            self._full.pop(job_id, None)
            self._apps.pop(job_id, None)
            self._until.pop(job_id, None)

    def look(self) -> None:
        """Read how much room limits have, if that may have changed."""
        has_changed = self._has_room.is_set()
        self._has_room.clear()
        now = self._clock()
        self.release([job_id for job_id, until in self._until.items() if until <= now])
        if not self._full:
            self._room = {}
            self._underused.clear()
            return
        now_ms = self._now_ms()
        is_due = self._clock() - self._looked_at >= LOOK_SECONDS
        if not (has_changed or is_due or self._seconds_until_ready(now_ms) == 0):
            return
        self._looked_at = self._clock()
        limit_ids = {full.limit_id for full in self._full.values()}
        rows = self._database.read(lambda session: holds.room(session, limit_ids))
        states = {
            limit_id: LimitState.at(row, held, now_ms) for limit_id, (row, held) in rows.items()
        }
        if any(state.is_half_free for state in states.values()):
            self._underused.set()
        else:
            self._underused.clear()
        # Runs of a deleted limit are found, to be ended.
        rooms = {limit_id: state.room for limit_id, state in states.items()}
        self._room = {
            limit_id: _ANY_NUMBER if (room := rooms.get(limit_id)) is None else room
            for limit_id in limit_ids
        }
        for job_id, full in self._full.items():
            state = states.get(full.limit_id)
            ready_ms = None
            if state is not None and not state.has_room(full.weight):
                ready_ms = state.ready_ms(full.weight, now_ms)
            self._full[job_id] = replace(full, ready_ms=ready_ms)

    def ready(self, app_id: int) -> list[ReadyJobs]:
        """Return the jobs of an app that wait for limits with room."""
        jobs: dict[int, list[int]] = defaultdict(list)
        for job_id, full in self._full.items():
            if self._apps[job_id] == app_id and self._room.get(full.limit_id, 0) >= full.weight:
                jobs[full.limit_id].append(job_id)
        return [
            ReadyJobs(limit_id, job_ids, self._room[limit_id])
            for limit_id, job_ids in sorted(jobs.items())
        ]

    def take(self, limit_id: int, runs: int) -> None:
        """Record that this many runs were sent; after none, wait until something changes."""
        self._room[limit_id] = max(0, self._room.get(limit_id, 0) - runs) if runs else 0

    def seconds_left(self) -> float:
        """Return how many seconds the dispatcher may sleep without missing room in a limit."""
        if not self._full:
            return float("inf")
        return min(LOOK_SECONDS, self._seconds_until_ready(self._now_ms()))

    def _seconds_until_ready(self, now_ms: int) -> float:
        waits = [
            full.ready_ms - now_ms for full in self._full.values() if full.ready_ms is not None
        ]
        return max(0, min(waits)) / 1000 if waits else float("inf")

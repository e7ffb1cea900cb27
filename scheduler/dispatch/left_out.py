"""Which jobs peeks leave out, because their runs could not be sent now, and until when.

Runs are peeked at by due time. If thousands of jobs wait for one executor, their runs are the
oldest, so those jobs must be left out long enough for others to be found.

    its executor is full or offline    until it has room, or for a while
    several executors, or other runs   for a while
    answers of executors               until they are here, or overdue (`routing/probes.py`)
    a limit is full                    until a run has released it or its bucket has refilled

A job that waits for a limit comes back by itself: the peek takes no more of its runs than the limit
has room for, so a thousand waiting runs cost no more than one.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from warren.scheduler.dispatch.decisions import Waits
from warren.scheduler.dispatch.workload import FULL_SECONDS, Place
from warren.scheduler.limits.room import FullLimit, LimitState
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds.loop import ROOM_IN_LIMITS
from warren.scheduler.routing.probes import Probes
from warren.sql.limits import holds

#: How long a job is left out if so many are that they fill a peek. If its executor is full: until
#: that has room, but at least `FULL_SECONDS`, so that a claim finds room for many runs, and at most
#: this, as its route may choose another executor. Otherwise for the shorter time.
MANY_FULL_SECONDS = 5.0
MANY_WAITING_SECONDS = 1.0
#: How long a job is left out if its runs can neither be routed nor ended.
BROKEN_SECONDS = 60.0
#: How often limits are checked without a signal: runs also end on other schedulers, and people
#: change limits.
LOOK_SECONDS = 0.5
#: After this long a job is claimed although its limit is full: it may have dropped the limit.
RECHECK_SECONDS = 10.0
#: The room of a limit that no longer limits anything.
_ANY_NUMBER = 1_000_000
#: The most jobs that are left out of one peek: SQLite takes 32,766 parameters.
LEFT_OUT_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class _Aside:
    """How long a job is left out: until a time, or until its place, if any, has room."""

    until: float
    with_room_at: float = 0.0
    place: Place | None = None


class JobsAside:
    """The jobs that wait for executors with room, or for a while. Times are monotonic seconds."""

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


@dataclass(frozen=True, slots=True)
class _Limited:
    """A job that waits for a limit, its app, and until when."""

    app_id: int
    limit: FullLimit
    until: float


@dataclass(frozen=True, slots=True)
class ReadyJobs:
    """Jobs that wait for one limit, which has room for `runs` of their runs."""

    limit_id: int
    job_ids: Collection[int]
    runs: int


class JobsLeftOut:
    """The jobs that one scheduler leaves out of its peeks; used by its dispatcher's thread.

    Args:
        probes: know the jobs that wait for answers.
        room_of: returns how many more runs a place takes.

    """

    def __init__(
        self, context: NodeContext, probes: Probes, room_of: Callable[[Place], int]
    ) -> None:
        self._context = context
        self._clock = context.monotonic
        self._probes = probes
        self._room_of = room_of
        self._aside = JobsAside()
        self._limited: dict[int, _Limited] = {}
        self._room: dict[int, int] = {}
        self._looked_at = float("-inf")
        #: Whether half of a limit that jobs wait for is free: ends of runs wait to be stored.
        self.are_limits_underused = False

    def all(self) -> set[int]:
        """Return the jobs whose runs cannot be sent now, as many as one query takes."""
        return set(islice(self.not_for_limits() | self._limited.keys(), LEFT_OUT_LIMIT))

    def not_for_limits(self) -> set[int]:
        """Return the jobs that wait for executors."""
        return {*self._aside.job_ids, *self._probes.held_back()}

    @property
    def for_limits(self) -> Collection[int]:
        """The jobs that wait for limits."""
        return self._limited.keys()

    def put(self, app_id: int, waits: Iterable[Waits], *, peek_limit: int) -> None:
        """Leave out jobs of an app; at most `peek_limit` runs were peeked at."""
        now = self._clock()
        full: dict[int, Place | None] = {}
        for wait in waits:
            match wait.on:
                case FullLimit() as limit:
                    self._limited[wait.job_id] = _Limited(app_id, limit, now + RECHECK_SECONDS)
                case None | tuple() as place:
                    full[wait.job_id] = place
        self._aside.put_full(full, now, peek_limit=peek_limit)

    def put_broken(self, job_id: int) -> None:
        """Leave out a job that would fail again."""
        self._aside.put_broken(job_id, self._clock())

    def readmit(self) -> None:
        """Readmit jobs that need not wait any more; read how much room limits have now."""
        now = self._clock()
        self._aside.free(now, self._room_of)
        self.release([job_id for job_id, each in self._limited.items() if each.until <= now])
        has_changed = self._context.wakes.of("dispatcher").take(ROOM_IN_LIMITS)
        if not self._limited:
            self._room = {}
            self.are_limits_underused = False
        elif has_changed or now - self._looked_at >= LOOK_SECONDS or not self._until_refilled():
            self._looked_at = now
            self._look(self._context.now_ms())

    def release(self, job_ids: Iterable[int]) -> None:
        """Let jobs that wait for limits be peeked at like all others."""
        for job_id in job_ids:
            self._limited.pop(job_id, None)

    def ready(self, app_id: int) -> list[ReadyJobs]:
        """Return the jobs of an app that wait for limits with room."""
        jobs: dict[int, list[int]] = defaultdict(list)
        for job_id, each in self._limited.items():
            limit = each.limit
            if each.app_id == app_id and self._room.get(limit.limit_id, 0) >= limit.weight:
                jobs[limit.limit_id].append(job_id)
        return [
            ReadyJobs(limit_id, job_ids, self._room[limit_id])
            for limit_id, job_ids in sorted(jobs.items())
        ]

    def take(self, limit_id: int, runs: int) -> None:
        """Record that this many runs were sent; after none, wait until something changes."""
        self._room[limit_id] = max(0, self._room.get(limit_id, 0) - runs) if runs else 0

    def seconds_left(self) -> float:
        """Return how long the dispatcher may sleep without missing an answer or room in a limit."""
        limits_left = min(LOOK_SECONDS, self._until_refilled()) if self._limited else float("inf")
        return min(self._probes.seconds_left(), limits_left)

    def _look(self, now_ms: int) -> None:
        limit_ids = {each.limit.limit_id for each in self._limited.values()}
        rows = self._context.database.read(lambda session: holds.room(session, limit_ids))
        states = {
            limit_id: LimitState.at(row, held, now_ms) for limit_id, (row, held) in rows.items()
        }
        self.are_limits_underused = any(state.is_half_free for state in states.values())
        # Runs of a deleted limit are found, to be ended.
        rooms = {limit_id: state.room for limit_id, state in states.items()}
        self._room = {
            limit_id: _ANY_NUMBER if (room := rooms.get(limit_id)) is None else room
            for limit_id in limit_ids
        }
        for job_id, each in self._limited.items():
            state, weight = states.get(each.limit.limit_id), each.limit.weight
            ready_ms = None
            if state is not None and not state.has_room(weight):
                ready_ms = state.ready_ms(weight, now_ms)
            self._limited[job_id] = replace(each, limit=replace(each.limit, ready_ms=ready_ms))

    def _until_refilled(self) -> float:
        """Return the seconds until a bucket has enough for a job; infinite if none refills."""
        ready = [each.limit.ready_ms for each in self._limited.values()]
        ready_ms = min((at_ms for at_ms in ready if at_ms is not None), default=None)
        if ready_ms is None:
            return float("inf")
        return max(0, ready_ms - self._context.now_ms()) / 1000

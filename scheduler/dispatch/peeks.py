"""Finds the runs of an app that are due and may be sent, without locks.

Left out are apps and due times that a pause or a downtime held back, and jobs that wait. If more is
due than can be sent, priorities say which runs go first.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sqlalchemy.orm import Session

from warren.broker.turns import Turns
from warren.scheduler.dispatch.decisions import FULL_SECONDS, Place, Waits
from warren.scheduler.dispatch.missed_runs import Pauses
from warren.scheduler.limits import FullLimit, LimitState
from warren.scheduler.membership.registration import AppSettings
from warren.scheduler.membership.uptime import SendingUptime
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds import OLD_RUNS, ROOM_IN_LIMITS
from warren.scheduler.routing.probes import Probes
from warren.sql import limits
from warren.sql.models.job_tables import Priority
from warren.sql.registry import apps, pauses, presence
from warren.sql.runs import due_runs

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
        """Leave out jobs whose place has no room; None = they wait for several places, or for none.

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
        rows = self._context.database.read(lambda session: limits.room(session, limit_ids))
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


#: How far back a peek looks between two full sweeps, and the time between sweeps.
LOOK_BACK_MS = 10_000
SWEEP_MS = 10_000
#: For how many seconds priorities are used before they are read again.
READ_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Peeked:
    """Runs that may be sent, in turn; `waiting` has those of each class, if there are more."""

    run_ids: Sequence[int] = ()
    turns: Turns | None = None
    waiting: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The jobs of an app that are not of normal priority."""

    high: Collection[int] = ()
    low: Collection[int] = ()


_ALL_NORMAL = _Ranked()


class Peeks:
    """Peeks at what is due for one scheduler; used by its dispatcher's thread.

    Args:
        uptime: knows the downtimes whose runs are too late to send.
        settings: say which apps have priorities.

    """

    def __init__(
        self,
        context: NodeContext,
        left_out: JobsLeftOut,
        uptime: SendingUptime,
        settings: AppSettings,
    ) -> None:
        self.pauses = Pauses()
        self._context = context
        self._awake = context.wakes.of("dispatcher")
        self._left_out = left_out
        self._uptime = uptime
        self._settings = settings
        self._since_ms = 0
        self._swept_at = 0
        self._ranked: dict[int, _Ranked] = {}
        self._schedulers = 1
        self._read_at = float("-inf")
        self._turns: dict[int, Turns] = {}

    def since_ms(self, now_ms: int) -> int:
        """Return the earliest due time that the next peek looks at."""
        is_swept = 0 <= now_ms - self._swept_at < SWEEP_MS
        return self._since_ms if is_swept and not self._awake.has(OLD_RUNS) else 0

    def next_due(self, session: Session, now_ms: int) -> dict[int, int]:
        """Read the pauses; return when the next run of each app that is not paused is due."""
        held = self.pauses.held_apps
        self.pauses = Pauses(pauses.known(session), now_ms)
        # Runs held back by a pause may be long due.
        if self._awake.take(OLD_RUNS) or self.pauses.held_apps != held:
            self._swept_at = 0
        since_ms = self.since_ms(now_ms)
        due = due_runs.next_due(session, since_ms=since_ms)
        due = {app_id: at for app_id, at in due.items() if app_id not in self.pauses.held_apps}
        if not since_ms:
            self._swept_at = now_ms
            self._since_ms = min([now_ms - LOOK_BACK_MS, *due.values()])
        return due

    def due(
        self, app_id: int, until_ms: int, limit: int, *, of_jobs: Collection[int] = ()
    ) -> Peeked:
        """Return due runs; if there may be more, those whose turn it is by priority."""
        left_out = self._left_out.not_for_limits() if of_jobs else self._left_out.all()

        def peek(jobs: Collection[int], without: Collection[int] = left_out) -> list[int]:
            return self._peek(app_id, until_ms, limit, jobs, without)

        peeked = peek(of_jobs)
        if not self._settings(app_id).has_priorities:
            return Peeked(peeked)
        ranked, turns = self._priorities(app_id)
        if len(peeked) < limit:
            return Peeked(peeked, turns)
        others = {*ranked.high, *ranked.low}
        # If no job of a class is known to wait for the limit, others of the class may.
        unknown = others - {*self._left_out.for_limits}
        high, low = (
            sorted(({*jobs} & {*of_jobs}) or ({*jobs} & unknown)) if of_jobs else [*jobs]
            for jobs in (ranked.high, ranked.low)
        )
        waiting = [
            peek(high) if high else [],
            peek(of_jobs, {*left_out, *others}),
            peek(low) if low else [],
        ]
        return Peeked(turns.shared(waiting, limit), turns, waiting)

    def flows(self, app_id: int, limit: int) -> Peeked:
        """Return an app's due flows, which need no executor."""
        left_out, until_ms = self._left_out.all(), self._context.now_ms()
        return Peeked(
            self._context.database.read(
                lambda session: due_runs.peek_flows(
                    session,
                    app_id,
                    since_ms=self._since_ms,
                    until_ms=until_ms,
                    limit=limit,
                    without_jobs=left_out,
                )
            )
        )

    def seconds_until_next(self, app_id: int, peeked_ms: int, most: float) -> float:
        """Return the seconds until an app's next run is due that does not wait, `most` at most.

        It is 0 if one has become due since the last peek.
        """
        left_out, now_ms = self._left_out.all(), self._context.now_ms()
        due_at = self._context.database.read(
            lambda session: due_runs.next_due_of(
                session,
                app_id,
                after_ms=peeked_ms,
                until_ms=now_ms + round(most * 1000),
                without_jobs=left_out,
            )
        )
        return most if due_at is None else min(most, max(0.0, (due_at - now_ms) / 1000))

    def _peek(
        self,
        app_id: int,
        until_ms: int,
        limit: int,
        of_jobs: Collection[int],
        without_jobs: Collection[int],
    ) -> list[int]:
        return self._context.database.read(
            lambda session: due_runs.peek_due(
                session,
                app_id,
                since_ms=self._since_ms,
                until_ms=until_ms,
                limit=limit,
                of_jobs=of_jobs,
                without_jobs=without_jobs,
                missed=[*self._uptime.missed, *self.pauses.missed_of(app_id)],
            )
        )

    def _priorities(self, app_id: int) -> tuple[_Ranked, Turns]:
        """Return an app's jobs that are not of normal priority, and whose turn it is."""
        now = self._context.monotonic()
        if now - self._read_at >= READ_SECONDS:
            self._ranked, self._schedulers = self._context.database.read(_read_priorities)
            self._read_at = now
        turns = self._turns.setdefault(app_id, Turns())
        turns.sharers = self._schedulers
        return self._ranked.get(app_id, _ALL_NORMAL), turns


def _read_priorities(session: Session) -> tuple[dict[int, _Ranked], int]:
    """Return the jobs that are not of normal priority by app, and how many schedulers there are."""
    by_app: dict[int, dict[str, set[int]]] = {}
    for job_id, app_id, priority in apps.not_normal(session):
        by_app.setdefault(app_id, {}).setdefault(priority, set()).add(job_id)
    ranked = {
        app_id: _Ranked(
            frozenset(jobs.get(Priority.HIGH, ())), frozenset(jobs.get(Priority.LOW, ()))
        )
        for app_id, jobs in by_app.items()
    }
    return ranked, max(1, presence.schedulers_alive(session))

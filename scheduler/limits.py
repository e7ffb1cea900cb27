"""Limits that jobs share, and jobs whose scope is the cluster: what they say, and their room.

Room is how much the runs of one claim may take. It is decided as an executor's
`warren.executor.lanes.lanes` does, but about all executors. Runs that wait stay PLANNED, in the
order of their due times. `LimitLocks` locks the limits that a claim needs, so that no other
scheduler takes the same room; all else is pure: no I/O, no clock.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from warren.broker import durations
from warren.broker.messages import Block
from warren.broker.reasons import Reason, Why, Words
from warren.resources.spelling import nearest
from warren.scheduler.problems import Code, FieldName, Problem
from warren.sql import limits
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.limits import Bucket, Holder, LimitRow, NewHold
from warren.sql.models import Job, Limit
from warren.sql.models.job_tables import Scope
from warren.sql.runs import due_runs
from warren.sql.runs.due_runs import Waiting
from warren.sql.runs.run_rows import PlannedRun

#: What limits are called.
LIMIT_NAME = r"[a-z][a-z0-9-]{0,63}"
#: The most limits that one job names, and the most that one of its runs takes of each.
MAX_LIMITS = 10
MAX_WEIGHT = 10_000
_USE = re.compile(rf"({LIMIT_NAME})(?::([1-9][0-9]{{0,4}}))?")


class LimitUse(NamedTuple):
    """A limit by its name, and how much of it each run takes."""

    name: str
    weight: int = 1

    def __str__(self) -> str:
        """Return the shortest form of the field."""
        return self.name if self.weight == 1 else f"{self.name}:{self.weight}"


def use_texts(said: Iterable[str | Mapping[str, int]]) -> Iterator[str]:
    """Yield the texts of uses, some of which are given as {NAME: WEIGHT}."""
    for use in said:
        if isinstance(use, str):
            yield use
        else:
            yield from (str(LimitUse(*pair)) for pair in use.items())


def parse_use(text: str) -> LimitUse | None:
    """Parse NAME or NAME:WEIGHT; return None if it is neither."""
    match = _USE.fullmatch(text)
    if match is None or int(match[2] or 1) > MAX_WEIGHT:
        return None
    return LimitUse(match[1], int(match[2] or 1))


@lru_cache(maxsize=4_096)
def stored_uses(stored: str | None) -> tuple[LimitUse, ...]:
    """Return the limits in a job's row, without invalid entries."""
    return uses_of((stored or "").split(","))


def uses_of(texts: Iterable[str]) -> tuple[LimitUse, ...]:
    """Return the limits in a job's field, without invalid entries."""
    return tuple(use for text in texts if (use := parse_use(text)) is not None)


#: The most of a rate, and its longest period in seconds.
MAX_RATE = 1_000_000
MAX_PER = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """The desired state of a limit; None = not limited.

    Attributes:
        at_once: how much all runs may hold together.
        rate: how much runs may take in each `per`.
        per: in seconds.

    """

    name: str
    at_once: int | None = None
    rate: int | None = None
    per: int | None = None

    @property
    def most(self) -> int:
        """The most that one run can ever take."""
        return min(value for value in (self.at_once, self.rate, MAX_RATE) if value is not None)

    @property
    def words(self) -> str:
        """What it says, as on a page."""
        at_once = [] if self.at_once is None else [f"{self.at_once} at once"]
        rate = [] if self.rate is None else [f"{self.rate} per {durations.shown(self.per or 0)}"]
        return ", ".join(at_once + rate)

    def columns(self) -> dict[str, int | None]:
        """Return what is stored of it."""
        per_ms = None if self.per is None else self.per * 1_000
        return {"at_once": self.at_once, "rate": self.rate, "per_ms": per_ms}


def spec_of(limit: Limit) -> LimitSpec:
    """Return a stored limit as a user would describe it."""
    per = None if limit.per_ms is None else limit.per_ms // 1_000
    return LimitSpec(name=limit.name or "", at_once=limit.at_once, rate=limit.rate, per=per)


def limits_of(session: Session, jobs: Iterable[Sequence[str]]) -> list[LimitSpec]:
    """Return the limits that jobs name, by name; each job is given by its field."""
    named = {use.name for texts in jobs for use in uses_of(texts)}
    return [spec_of(row) for row in limits.all_named(session) if row.name in named] if named else []


def problems(spec: LimitSpec) -> Iterator[Problem]:
    """Yield everything that is wrong with a limit."""
    if not re.fullmatch(LIMIT_NAME, spec.name):
        yield Problem(Code.LIMIT_NAME, "name", pattern=LIMIT_NAME, got=spec.name[:100])
    if (spec.rate is None) != (spec.per is None):
        at = "rate" if spec.rate is None else "per"
        yield Problem(Code.LIMIT_RATE, at, name=spec.name[:100])
    elif spec.at_once is None and spec.rate is None:
        yield Problem(Code.LIMIT_EMPTY, "name", name=spec.name[:100])
    for at, value, most in (
        ("at_once", spec.at_once, MAX_WEIGHT),
        ("rate", spec.rate, MAX_RATE),
        ("per", spec.per, MAX_PER),
    ):
        if value is not None and not 1 <= value <= most:
            facts = {"what": FieldName(at), "least": 1, "most": most, "got": value}
            yield Problem(Code.INTEGER, at, **facts)


class KnownLimits:
    """The limits that jobs may name: those that are stored, and `also` those of the same file."""

    def __init__(self, known: Mapping[str, LimitSpec]) -> None:
        self._known = known

    @classmethod
    def read(cls, session: Session, also: Iterable[LimitSpec] = ()) -> "KnownLimits":
        stored = map(spec_of, limits.all_named(session))
        return cls({spec.name: spec for spec in (*stored, *also)})

    def problems_of(self, named: Iterable[str]) -> Iterator[Problem]:
        """Yield why runs of a job could never take the limits that it names."""
        for use in uses_of(named):
            limit = self._known.get(use.name)
            if limit is None:
                yield self._unknown(use.name)
            elif use.weight > limit.most:
                facts = {"name": use.name, "n": use.weight, "most": limit.most}
                yield Problem(Code.LIMIT_TOO_SMALL, "limits", **facts)

    def _unknown(self, name: str) -> Problem:
        if near := nearest(name, sorted(self._known)):
            return Problem(Code.LIMIT_UNKNOWN_NEAR, "limits", got=name, near=near)
        return Problem(Code.LIMIT_UNKNOWN, "limits", got=name)


#: Orders the runs of a job: by tick, then by id.
Age = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """It starts later; `is_full`: the maximum number of runs is running."""

    is_full: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """It will not run."""

    reason: Reason


def age_of(run: PlannedRun) -> Age:
    """Return the age of a run, as executors see it."""
    return run.scheduled_at, run.id


@dataclass(slots=True, kw_only=True)
class ClusterLane:
    """The runs of one job in the whole cluster, as a claim sees them.

    Attributes:
        most: how many may run at once.
        running: the ages of those that are running.
        stopping: how many others are running, such as those being killed.
        ahead: how many due runs wait before those that are still to be decided.
        claimed: the ages of the runs in the claim that are still to be decided.

    """

    block: Block
    most: int
    running: set[Age] = field(default_factory=set)
    stopping: int = 0
    ahead: int = 0
    claimed: set[Age] = field(default_factory=set)

    @property
    def queues(self) -> bool:
        """Whether its runs wait for each other, so that only the first has to be looked at."""
        return self.block is Block.SERIAL_EXECUTION

    @property
    def newest(self) -> Age:
        """The newest run that is running or still to be decided."""
        return max(self.running | self.claimed)

    def decide(self, run: PlannedRun) -> Wait | Refuse | None:
        """Decide about the next claimed run; None = it may start."""
        age = age_of(run)
        self.claimed.discard(age)
        at_work = len(self.running) + self.stopping
        match self.block:
            case Block.DISCARD_LATER if at_work + self.ahead >= self.most:
                return Refuse(Why.DISCARDED_IN_CLUSTER())
            case Block.COVER_EARLY if age not in self._newest(age):
                return Refuse(Why.OUTDATED_IN_CLUSTER())
            case Block.SERIAL_EXECUTION if self.ahead:
                self.ahead += 1
                return Wait(is_full=at_work >= self.most)
        # It waits unless it is sent.
        self.ahead += 1
        return Wait(is_full=True) if at_work >= self.most else None

    def send(self, run: PlannedRun) -> None:
        """Record that a run which may start was sent."""
        self.ahead -= 1
        self.running.add(age_of(run))

    def covered(self) -> list[int]:
        """Return the running runs that newer ones in the claim replace."""
        if self.block is not Block.COVER_EARLY:
            return []
        newest = self._newest(*self.claimed)
        return sorted(run_id for tick, run_id in self.running if (tick, run_id) not in newest)

    def _newest(self, *candidates: Age) -> set[Age]:
        everyone = sorted({*self.running, *self.claimed, *candidates}, reverse=True)
        return set(everyone[: self.most])


@dataclass(frozen=True, slots=True)
class FullLimit:
    """A limit without room for a run that takes `weight`; `ready_ms` is when its bucket has it."""

    limit_id: int
    weight: int
    ready_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NeverFits:
    """A run that takes more than its limit can ever allow, or whose limit was deleted."""

    why: Words


@dataclass(frozen=True, slots=True)
class LimitNeed:
    """What each run of a job takes; `limit_id` None = there is no limit of this name."""

    name: str
    limit_id: int | None
    weight: int


@dataclass(slots=True)
class LimitState:
    """A limit at an instant: how much of it is held, and how many tokens its bucket has.

    `at_once` and `rate` are None if it has no such limit.
    """

    at_once: int | None
    held: int
    rate: int | None = None
    per_ms: int = 0
    tokens: float = 0.0
    has_changed: bool = False

    @classmethod
    def at(
        cls, row: LimitRow, held: int, now_ms: int, *, at_once: int | None = None
    ) -> "LimitState":
        """Return a limit now; `at_once` is that of a job's own."""
        tokens, per_ms = 0.0, row.per_ms or 0
        if row.rate is not None and per_ms:
            since_ms = now_ms if row.refilled_at is None else row.refilled_at
            tokens = float(row.rate if row.tokens is None else row.tokens)
            tokens = min(row.rate, tokens + max(0, now_ms - since_ms) * row.rate / per_ms)
        return cls(
            at_once=row.at_once if at_once is None else at_once,
            held=held,
            rate=row.rate if per_ms else None,
            per_ms=per_ms,
            tokens=tokens,
        )

    @property
    def most(self) -> int | None:
        """The most that one run, or one broadcast, can ever take; None = any number."""
        most = [value for value in (self.at_once, self.rate) if value is not None]
        return min(most) if most else None

    @property
    def room(self) -> int | None:
        """How much can be taken now; None = any number."""
        room = [] if self.at_once is None else [self.at_once - self.held]
        if self.rate is not None:
            room.append(int(self.tokens))
        return max(0, min(room)) if room else None

    @property
    def is_half_free(self) -> bool:
        """Whether half of what may be held at once is free."""
        return self.at_once is not None and 2 * self.held <= self.at_once

    def has_room(self, weight: int) -> bool:
        """Whether this much can be taken now."""
        return self.room is None or weight <= self.room

    def ready_ms(self, weight: int, now_ms: int) -> int | None:
        """Return when the bucket has enough, if only the bucket lacks room; else None."""
        if self.at_once is not None and weight > self.at_once - self.held:
            return None
        if self.rate is None:
            return None
        return now_ms + ceil(max(0.0, weight - self.tokens) * self.per_ms / self.rate)

    def take(self, weight: int) -> None:
        """Record that a run takes this much."""
        if self.at_once is not None:
            self.held += weight
        if self.rate is not None:
            self.tokens -= weight
            self.has_changed = True


@dataclass(slots=True, kw_only=True)
class LimitRoom:
    """The limits that a claim has locked, by id, and what each of its jobs takes of them.

    `lanes` are those of the jobs whose scope is the cluster. `waiting` has the waiting runs of jobs
    that limit how many may wait.
    """

    now_ms: int = 0
    limits: Mapping[int, LimitState] = field(default_factory=dict)
    needs: Mapping[int, tuple[LimitNeed, ...]] = field(default_factory=dict)
    lanes: Mapping[int, ClusterLane] = field(default_factory=dict)
    waiting: Mapping[int, Waiting] = field(default_factory=dict)

    def obstacle(self, job_id: int, runs: int = 1) -> FullLimit | NeverFits | None:
        """Return why this many runs of a job cannot start together now; None if they can."""
        for need in self.needs.get(job_id, ()):
            if need.limit_id is None:
                return NeverFits(Why.LIMIT_GONE(name=need.name))
            limit, weight = self.limits[need.limit_id], need.weight * runs
            if limit.most is not None and weight > limit.most:
                return NeverFits(Why.NEVER_FITS(name=need.name, n=weight, most=limit.most))
            if not limit.has_room(weight):
                return FullLimit(need.limit_id, weight, limit.ready_ms(weight, self.now_ms))
        return None

    def take(self, job_id: int) -> None:
        """Record that a run of a job is sent."""
        for need in self.needs.get(job_id, ()):
            if need.limit_id is not None:
                self.limits[need.limit_id].take(need.weight)

    def count(self, job_id: int) -> int | None:
        """Return how many limits a run of a job holds until it ends; None = none."""
        return len(self._held_by(job_id)) or None

    def holds(self, runs: Iterable[tuple[int, int]]) -> list[NewHold]:
        """Return what these runs hold; each is a job and the run's id."""
        return [
            NewHold(need.limit_id, run_id, need.weight)
            for job_id, run_id in runs
            for need in self._held_by(job_id)
            if need.limit_id is not None
        ]

    def buckets(self) -> list[Bucket]:
        """Return the buckets from which tokens were taken."""
        return [
            Bucket(limit_id, limit.tokens, self.now_ms)
            for limit_id, limit in sorted(self.limits.items())
            if limit.has_changed
        ]

    def _held_by(self, job_id: int) -> list[LimitNeed]:
        return [
            need
            for need in self.needs.get(job_id, ())
            if need.limit_id is not None and self.limits[need.limit_id].at_once is not None
        ]


log = structlog.get_logger()

#: A limit's name, or the id of the job whose own limit it is.
Key = str | int


class LimitLocks:
    """Knows the ids of limits; used by one thread.

    A cached id may belong to a limit that was deleted since; then it is looked up again.
    """

    def __init__(self) -> None:
        self._ids: dict[Key, int] = {}

    def lock(
        self,
        session: Session,
        jobs: Mapping[int, JobToRun],
        runs: Sequence[PlannedRun],
        now_ms: int,
    ) -> LimitRoom:
        """Return the room for these runs of one app, locked until the transaction ends."""
        due = [jobs[job_id] for job_id in {run.job_id for run in runs} if job_id in jobs]
        limited = [job for job in due if is_limited(job)]
        crowding = {job.id: job.concurrency for job in due if job.max_waiting}
        room = LimitRoom(now_ms=now_ms)
        if crowding:
            last_ms = max(run.due_at for run in runs)
            ids = [run.id for run in runs]
            room.waiting = due_runs.waiting_of_jobs(
                session, runs[0].app_id, crowding, until_ms=last_ms, without_runs=ids
            )
        return self._locked(session, room, limited, runs) if limited else room

    def _locked(
        self,
        session: Session,
        room: LimitRoom,
        limited: Sequence[JobToRun],
        runs: Sequence[PlannedRun],
    ) -> LimitRoom:
        jobs = {job.id: job for job in limited}
        keys = {key for job in limited for key, _ in _needs(job)}
        rows = self._lock(session, keys)
        held = limits.held(session, [row.id for row in rows.values()]) if rows else {}
        states = {}
        for key, row in rows.items():
            at_once = max(1, jobs[key].concurrency) if isinstance(key, int) else None
            state = LimitState.at(row, held.get(row.id, 0), room.now_ms, at_once=at_once)
            states[row.id] = state
        ids = {key: row.id for key, row in rows.items()}
        return replace(
            room,
            limits=states,
            needs={
                job.id: tuple(
                    LimitNeed(str(key), ids.get(key), weight) for key, weight in _needs(job)
                )
                for job in limited
            },
            lanes=_lanes(
                session,
                {ids[job.id]: job for job in limited if job.scope == Scope.CLUSTER},
                runs,
                held,
            ),
        )

    def _lock(self, session: Session, keys: Collection[Key]) -> dict[Key, LimitRow]:
        """Lock the limits that exist, all at once if their ids are known or new."""
        self._find(session, [key for key in keys if key not in self._ids])
        rows = _by_key(limits.lock(session, [self._ids[key] for key in keys if key in self._ids]))
        if outdated := [key for key in keys if key in self._ids and key not in rows]:
            for key in outdated:
                del self._ids[key]
            self._find(session, outdated)
            ids = [self._ids[key] for key in outdated if key in self._ids]
            rows |= _by_key(limits.lock(session, ids))
        return rows

    def _find(self, session: Session, keys: Collection[Key]) -> None:
        self._ids |= _ids(session, keys)


def _ids(session: Session, keys: Collection[Key]) -> dict[Key, int]:
    ids: dict[Key, int] = {}
    if names := [key for key in keys if isinstance(key, str)]:
        ids.update(limits.ids_by_name(session, names).items())
    if job_ids := [key for key in keys if isinstance(key, int)]:
        ids.update(limits.ids_of_jobs(session, job_ids).items())
    return ids


def count_going(
    session: Session,
    jobs: Iterable[JobToRun | Job],
    *,
    now_ms: int,
    named: Collection[str] | None = None,
) -> None:
    """Record that jobs' runs at executors hold what a run takes now.

    They may have been sent before the job took a limit, or before the limit had `at_once`. `named`
    are the limits to consider, locked by the caller; None = all that the jobs take.
    """
    needs = {
        job.id: [need for need in _needs(job) if named is None or need[0] in named] for job in jobs
    }
    keys = {key for of_job in needs.values() for key, _ in of_job}
    ids = _ids(session, keys)
    if not ids:
        return
    rows = _by_key(limits.lock(session, list(ids.values())))
    held = {key: row.id for key, row in rows.items() if row.at_once or row.job_id}
    uses = {
        job_id: {held[key]: weight for key, weight in of_job if key in held}
        for job_id, of_job in needs.items()
    }
    if new := limits.hold_going(session, uses, now_ms=now_ms):
        log.info("going_runs_counted", runs=len({hold.run_id for hold in new}))


def is_limited(job: JobToRun) -> bool:
    """Whether runs of a job take of limits."""
    return bool(job.limits) or job.scope == Scope.CLUSTER


def _needs(job: JobToRun | Job) -> list[tuple[Key, int]]:
    own: list[tuple[Key, int]] = [(job.id, 1)] if job.scope == Scope.CLUSTER else []
    return own + [(use.name, use.weight) for use in stored_uses(job.limits)]


def _by_key(rows: Sequence[LimitRow]) -> dict[Key, LimitRow]:
    return {row.job_id if row.name is None else row.name: row for row in rows}  # type: ignore[misc] # one of both is set


def _lanes(
    session: Session,
    jobs: Mapping[int, JobToRun],
    runs: Sequence[PlannedRun],
    held: Mapping[int, int],
) -> dict[int, ClusterLane]:
    """Return the lanes of jobs, which are given by the ids of their own limits."""
    if not jobs:
        return {}
    covering = [limit_id for limit_id, job in jobs.items() if job.block == Block.COVER_EARLY]
    at_work: dict[int, list[Holder]] = defaultdict(list)
    for holder in limits.holders(session, covering) if covering else ():
        at_work[holder.limit_id].append(holder)
    job_ids = {job.id for job in jobs.values()}
    own = [run for run in runs if run.job_id in job_ids]
    ahead = due_runs.waiting_counts(
        session,
        own[0].app_id,
        job_ids,
        # Of those that are due together, any may go first.
        until_ms=max(run.due_at for run in own) - 1,
        without_runs=[run.id for run in own],
    )
    lanes = {}
    for limit_id, job in jobs.items():
        running = [run for run in at_work[limit_id] if run.kill_requested_at is None]
        lanes[job.id] = ClusterLane(
            block=Block(job.block),
            most=max(1, job.concurrency),
            running={(run.scheduled_at, run.run_id) for run in running},
            # Only a job that covers needs to know which they are.
            stopping=held.get(limit_id, 0) - len(running),
            ahead=ahead.get(job.id, 0),
            claimed={age_of(run) for run in own if run.job_id == job.id},
        )
    return lanes

"""Which runs of the next hour start late, and by how much: a simulation, pure and without a clock.

Runs are taken in the order of their due times. Each needs a slot of its app, room for its job, and
its share of every limit that it names; it begins when all are free, and holds them for as long as
its job usually takes. What has to wait is tried again when what it waits for becomes free.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import NamedTuple


class Needed(StrEnum):
    """What a run needs to start."""

    SLOT = "slot"
    JOB = "job"
    LIMIT = "limit"


class Resource(NamedTuple):
    """The slots of an app, the room of a job, or the units of a limit, by its id."""

    kind: Needed
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A run that is due, or already runs; `takes` are resources with the units that it takes.

    `lasts_ms` is counted from its start; of a run that already runs, from now.
    """

    job_id: int
    app_id: int
    due_at: int
    lasts_ms: int
    takes: Mapping[Resource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A limit by time: `tokens` are there at the beginning, and `per_ms` come every millisecond."""

    size: float
    per_ms: float
    tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When a run is expected to start, and the last thing that it waited for.

    `starts_at` None = not before the end of what was simulated.
    """

    run: Expected
    starts_at: int | None
    waited_for: Resource | None

    def late_ms(self, until_ms: int) -> int:
        """Return how late it starts, or how late it is already at the end."""
        return (until_ms if self.starts_at is None else self.starts_at) - self.run.due_at


def foresee(
    due: Iterable[Expected],
    running: Iterable[Expected],
    room: Mapping[Resource, int],
    *,
    now_ms: int,
    until_ms: int,
    rates: Mapping[Resource, Rate] | None = None,
) -> list[Start]:
    """Return when each run that is due starts, in the order of their due times.

    Args:
        due: runs to come and runs that wait; those due before `now_ms` are tried first.
        running: runs that hold their resources already.
        room: how many units there are of each resource; of those that are missing, any number.
        now_ms: where the simulation begins.
        until_ms: where it ends.
        rates: limits by time.

    """
    simulation = _Simulation(room, dict(rates or {}), now_ms, until_ms)
    for run in running:
        simulation.hold(run, now_ms)
    return simulation.run(sorted(due, key=lambda run: run.due_at))


@dataclass(slots=True)
class _Waiting:
    """A run by its place in the order, with what it waited for last."""

    place: int
    run: Expected
    waited_for: Resource | None = None


@dataclass(slots=True)
class _Simulation:
    room: Mapping[Resource, int]
    rates: dict[Resource, Rate]
    now_ms: int
    until_ms: int
    used: dict[Resource, int] = field(default_factory=lambda: defaultdict(int))
    refilled_at: dict[Resource, float] = field(default_factory=dict)
    #: Runs that wait for a resource, by their places.
    queues: dict[Resource, list[tuple[int, _Waiting]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    #: What ends, or is tried again: time, number, the run that ends or the one that is tried.
    events: list[tuple[int, int, Expected | _Waiting]] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=count)
    started: dict[int, Start] = field(default_factory=dict)

    def run(self, due: Sequence[Expected]) -> list[Start]:
        waiting = [_Waiting(place, run) for place, run in enumerate(due)]
        for one in waiting:
            self._at(max(one.run.due_at, self.now_ms), one)
        while self.events and self.events[0][0] < self.until_ms:
            at_ms, _, what = heapq.heappop(self.events)
            if isinstance(what, _Waiting):
                self._try(what, at_ms)
            else:
                self._give_back(what, at_ms)
        for one in waiting:
            self.started.setdefault(
                one.place, Start(run=one.run, starts_at=None, waited_for=one.waited_for)
            )
        return [self.started[one.place] for one in waiting]

    def hold(self, run: Expected, at_ms: int) -> None:
        """Let a run take its resources, and end later."""
        for resource, units in run.takes.items():
            if resource in self.rates:
                rate = self.rates[resource]
                self.rates[resource] = Rate(
                    size=rate.size, per_ms=rate.per_ms, tokens=rate.tokens - units
                )
            else:
                self.used[resource] += units
        self._at(at_ms + max(run.lasts_ms, 1), run)

    def _at(self, at_ms: int, what: Expected | _Waiting) -> None:
        heapq.heappush(self.events, (at_ms, next(self.numbers), what))

    def _try(self, one: _Waiting, at_ms: int) -> bool:
        """Start a run, or let it wait for the first thing that it lacks."""
        for resource, units in one.run.takes.items():
            if resource in self.rates:
                enough_at = self._enough_at(resource, units, at_ms)
                if enough_at > at_ms:
                    one.waited_for = resource
                    self._at(enough_at, one)
                    return False
            elif not self._fits(resource, units):
                one.waited_for = resource
                heapq.heappush(self.queues[resource], (one.place, one))
                return False
        self.hold(one.run, at_ms)
        self.started[one.place] = Start(run=one.run, starts_at=at_ms, waited_for=one.waited_for)
        return True

    def _fits(self, resource: Resource, units: int) -> bool:
        most = self.room.get(resource)
        return most is None or self.used[resource] + units <= most

    def _give_back(self, run: Expected, at_ms: int) -> None:
        freed = [resource for resource in run.takes if resource not in self.rates]
        for resource in freed:
            self.used[resource] -= run.takes[resource]
        for resource in freed:
            queue = self.queues[resource]
            while queue and self._fits(resource, queue[0][1].run.takes[resource]):
                _, one = heapq.heappop(queue)
                self._try(one, at_ms)

    def _enough_at(self, resource: Resource, units: int, at_ms: int) -> int:
        """Return when a limit by time has enough tokens; refills it up to now."""
        rate = self.rates[resource]
        since = self.refilled_at.get(resource, self.now_ms)
        tokens = min(rate.size, rate.tokens + (at_ms - since) * rate.per_ms)
        self.refilled_at[resource] = at_ms
        self.rates[resource] = Rate(size=rate.size, per_ms=rate.per_ms, tokens=tokens)
        lacking = min(units, rate.size) - tokens
        return at_ms if lacking <= 0 else at_ms + int(lacking / rate.per_ms) + 1

"""Chooses executors: routes are pure functions of job, live addresses, memory and randomness.

No route does I/O. Answers of executors for FAILOVER and BUSYOVER are asked for before and passed
in; the memory of ROUND and the least-used routes is passed in and returned.

A route added by an installation is user code, so it never runs inside a transaction:

    claim meets one -> the run stays PLANNED -> commit -> decide -> claim again, with the decision

A decision counts only if the facts behind it still hold. A route that raises, or chooses an address
that is not allowed, ends one run and does not block others.

A route ignores what another route remembered.

On XXL-JOB's consistent hash ring, most jobs stay where they are when an executor comes or goes.
Each address has 100 nodes, `SHARD-<address>-NODE-<0..99>`; a hash is the first four bytes of an
MD5, little-endian; a job goes to the first node that is not below the hash of its decimal id.
"""

import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from hashlib import md5
from random import Random
from types import MappingProxyType
from typing import Any

import structlog

from warren.broker.reasons import Why, Words
from warren.scheduler.problems import Code, Problem, fault_of

#: What a route remembers about a job between two decisions, as JSON; `route` is the route's name.
Memory = Mapping[str, Any]


class Probe(StrEnum):
    """What to ask executors before a route chooses: whether they are alive, or idle."""

    BEAT = "BEAT"
    IDLE_BEAT = "IDLE_BEAT"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """An executor's answer; `words` describe it in the trigger message.

    `heard` False = it did not answer in time, which proves nothing. `rank` orders executors that
    are not ok but may be taken if none is, the highest first; None = it may not be taken.
    """

    ok: bool
    words: Words
    heard: bool = True
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """The facts that a route may use.

    `addresses` are the live executors, sorted, or in the order of the app's own list; `away` are
    those of that list that are offline. `wanted` are those that a user named for this run, in the
    user's order. `probes` is None until executors were asked; one that is missing counts as not ok.
    `shard_index` matters to a broadcast only. `run_id` is the run that is to be sent. `nobody` is
    why there are no candidates, if there is more to say than which are offline. `free_slots` is
    what schedulers know of each, for a route that needs it.
    """

    job_id: int
    run_id: int = 0
    addresses: tuple[str, ...]
    memory: Memory | None = None
    probes: Mapping[str, ProbeAnswer] | None = field(default=None, compare=False)
    wanted: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    shard_index: int = 0
    nobody: Words = ""
    free_slots: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The addresses that may be chosen: the live ones, or those of them that are wanted."""
        if not self.wanted:
            return self.addresses
        return tuple(address for address in self.wanted if address in self.addresses)

    def with_probes(self, probes: Mapping[str, ProbeAnswer]) -> "RouteRequest":
        return replace(self, probes=probes)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen address, and how it was chosen; `memory` is to be stored, None = unchanged.

    The words of an added route are plain text.
    """

    address: str | None
    words: Words
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Router:
    """A route, and whether it needs answers of executors or a stored memory.

    `pick` is only called with at least one candidate. With a `probe` it is called when every
    candidate has answered or is overdue. `takes_first_ok` promises that it takes the first
    candidate whose answer is ok; then it is called as soon as that one is known. `needs_slots`: it
    gets `free_slots`.
    """

    pick: Callable[[RouteRequest, Random], Choice]
    probe: Probe | None = None
    takes_first_ok: bool = False
    needs_memory: bool = False
    needs_slots: bool = False

    def is_decided(self, request: RouteRequest) -> bool:
        """Whether the answers so far are enough to choose."""
        if self.probe is None:
            return True
        probes = request.probes or {}
        for address in request.candidates:
            answer = probes.get(address)
            if answer is None:
                return False
            if answer.ok and self.takes_first_ok:
                return True
        return True


_NODES = 100


def consistent_hash(job_id: int, addresses: Sequence[str]) -> str:
    """Return the address for a job on the ring of these addresses.

    Raises `ValueError` if there are no addresses.
    """
    if not addresses:
        raise ValueError("expected addresses to have at least one, got: none")
    nodes, owners = _ring(tuple(addresses))
    return addresses[owners[bisect_left(nodes, _hash(str(job_id))) % len(nodes)]]


@lru_cache(maxsize=64)
def _ring(addresses: tuple[str, ...]) -> tuple["array[int]", "array[int]"]:
    """Build the ring: sorted node hashes, with the index of the address of each.

    If two nodes have the same hash, the later address wins.
    64 rings of 50 executors take about 3 MB.
    """
    owner_of = {
        _hash(f"SHARD-{address}-NODE-{node}"): index
        for index, address in enumerate(addresses)
        for node in range(_NODES)
    }
    nodes = sorted(owner_of)
    return array("I", nodes), array("I", (owner_of[node] for node in nodes))


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "little")


#: ROUND starts at a random count below this, so that jobs do not all start at one executor.
_ROUND_STARTS = 100


class Route(StrEnum):
    """The routes that every installation has."""

    FIRST = "FIRST"
    LAST = "LAST"
    ROUND = "ROUND"
    RANDOM = "RANDOM"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    LEAST_FREQUENTLY_USED = "LEAST_FREQUENTLY_USED"
    LEAST_RECENTLY_USED = "LEAST_RECENTLY_USED"
    LEAST_LOADED = "LEAST_LOADED"
    FAILOVER = "FAILOVER"
    BUSYOVER = "BUSYOVER"
    SHARDING_BROADCAST = "SHARDING_BROADCAST"

    @property
    def words(self) -> str:
        """What sentences call it."""
        return ROUTE_WORDS[self]


ROUTE_WORDS: Mapping[str, str] = {
    Route.FIRST: "first",
    Route.LAST: "last",
    Route.ROUND: "round robin",
    Route.RANDOM: "random",
    Route.CONSISTENT_HASH: "consistent hash",
    Route.LEAST_FREQUENTLY_USED: "least frequently used",
    Route.LEAST_RECENTLY_USED: "least recently used",
    Route.LEAST_LOADED: "least loaded",
    Route.FAILOVER: "failover",
    Route.BUSYOVER: "busyover",
    Route.SHARDING_BROADCAST: "sharding broadcast",
}


def first(request: RouteRequest, _random: Random) -> Choice:
    """Choose the first."""
    return _plain(Route.FIRST, request, 0)


def last(request: RouteRequest, _random: Random) -> Choice:
    """Choose the last."""
    return _plain(Route.LAST, request, len(request.candidates) - 1)


def at_random(request: RouteRequest, random: Random) -> Choice:
    """Choose any, with equal probability."""
    return _plain(Route.RANDOM, request, random.randrange(len(request.candidates)))


def in_turn(request: RouteRequest, random: Random) -> Choice:
    """Choose the next one in turn, starting at random; `count` is the last turn."""
    known = _remembered(Route.ROUND, request)
    count = known["count"] + 1 if known else random.randrange(_ROUND_STARTS)
    chosen = request.candidates[count % len(request.candidates)]
    words = Why.TURN(route=Route.ROUND.words, n=count)
    return Choice(chosen, words, {"route": Route.ROUND, "count": count})


def by_hash(request: RouteRequest, _random: Random) -> Choice:
    """Choose by the job's place on the hash ring."""
    chosen = consistent_hash(request.job_id, request.candidates)
    # The same words for all jobs, so that one statement routes the runs of many.
    return Choice(chosen, Why.ONE_OF(route=Route.CONSISTENT_HASH.words, n=len(request.candidates)))


def least_frequently_used(request: RouteRequest, random: Random) -> Choice:
    """Choose the one with the fewest uses; the earliest of several.

    Counts are kept relative to the lowest, so that a new executor, which starts at random below the
    number of executors, does not get every run until it has caught up with weeks of uses.
    """
    route = Route.LEAST_FREQUENTLY_USED
    known: dict[str, int] = _remembered(route, request).get("counts", {})
    kept = {address: known[address] for address in request.addresses if address in known}
    lowest = min(kept.values(), default=0)
    counts = {
        address: kept[address] - lowest
        if address in kept
        else random.randrange(len(request.addresses))
        for address in request.addresses
    }
    chosen = min(request.candidates, key=counts.__getitem__)
    counts[chosen] += 1
    words = Why.USE(route=route.words, n=counts[chosen])
    return Choice(chosen, words, {"route": route, "counts": counts})


def least_recently_used(request: RouteRequest, _random: Random) -> Choice:
    """Choose the one used longest ago; a new one queues behind the others."""
    route = Route.LEAST_RECENTLY_USED
    known: list[str] = _remembered(route, request).get("order", [])
    live, remembered, allowed = set(request.addresses), set(known), set(request.candidates)
    order = [address for address in known if address in live]
    order += [address for address in request.addresses if address not in remembered]
    chosen = next(address for address in order if address in allowed)
    order.remove(chosen)
    words = Why.ONE_OF(route=route.words, n=len(live))
    return Choice(chosen, words, {"route": route, "order": [*order, chosen]})


def least_loaded(request: RouteRequest, random: Random) -> Choice:
    """Choose the one with the most free slots, as far as schedulers know; of equals, any."""
    free = request.free_slots
    most = max(free.get(address, 0) for address in request.candidates)
    best = [address for address in request.candidates if free.get(address, 0) == most]
    return Choice(random.choice(best), Why.FREE_SLOTS(route=Route.LEAST_LOADED.words, n=most))


def failover(request: RouteRequest, _random: Random) -> Choice:
    """Choose the first that answered."""
    return _first_ok(Route.FAILOVER, request)


def busyover(request: RouteRequest, _random: Random) -> Choice:
    """Choose the first idle one, else the best of those that are not busy with this job.

    Remembers which runs are on their way, so that other schedulers ask executors about them too.
    """
    choice = _first_ok(Route.BUSYOVER, request)
    if choice.address is None:
        return choice
    sent = (*underway(request.memory), request.run_id)
    return replace(choice, memory=memory_of_underway(sent))


def underway(memory: Memory | None) -> tuple[int, ...]:
    """Return the runs that BUSYOVER remembers as on their way."""
    is_own = memory is not None and memory.get("route") == Route.BUSYOVER
    return tuple(memory["sent"]) if is_own and memory is not None else ()


def memory_of_underway(run_ids: Iterable[int]) -> Memory:
    """Return BUSYOVER's memory for these runs on their way."""
    return {"route": Route.BUSYOVER, "sent": list(run_ids)}


def broadcast(request: RouteRequest, _random: Random) -> Choice:
    """Choose for one shard of a broadcast; a shard whose executor is gone goes to the first."""
    index = request.shard_index if request.shard_index < len(request.candidates) else 0
    words = Why.SHARD(route=Route.SHARDING_BROADCAST.words, index=request.shard_index)
    if index != request.shard_index:
        words = Why.SHARD_MOVED(route=Route.SHARDING_BROADCAST.words, index=request.shard_index)
    return Choice(request.candidates[index], words)


def _plain(route: Route, request: RouteRequest, index: int) -> Choice:
    words = Why.ONE_OF(route=route.words, n=len(request.candidates))
    return Choice(request.candidates[index], words)


def _first_ok(route: Route, request: RouteRequest) -> Choice:
    if request.probes is None:
        return Choice(None, Why.NOBODY_ASKED(route=route.words))
    asked: list[Words] = [Why.AWAY(address=address) for address in request.away]
    for address in request.candidates:
        answer = request.probes.get(address)
        asked.append(answer.words if answer else Why.SILENT(address=address))
        if answer and answer.ok:
            return Choice(address, Why.ASKED(route=route.words, what=tuple(asked)))
    best = _best(request.probes)
    asked.append(Why.NONE_LEFT() if best is None else Why.BEST(address=best))
    return Choice(best, Why.ASKED(route=route.words, what=tuple(asked)))


def _best(probes: Mapping[str, ProbeAnswer]) -> str | None:
    """Return the best one that is acceptable although none is ok; of equals, the first."""
    ranks = {address: probe.rank for address, probe in probes.items() if probe.rank is not None}
    return max(ranks, key=ranks.__getitem__, default=None)


def _remembered(route: Route, request: RouteRequest) -> dict[str, Any]:
    memory = request.memory
    return dict(memory) if memory is not None and memory.get("route") == route else {}


#: Each route by its name.
BUILT_IN: Mapping[str, Router] = MappingProxyType(
    {
        Route.FIRST: Router(first),
        Route.LAST: Router(last),
        Route.ROUND: Router(in_turn, needs_memory=True),
        Route.RANDOM: Router(at_random),
        Route.CONSISTENT_HASH: Router(by_hash),
        Route.LEAST_FREQUENTLY_USED: Router(least_frequently_used, needs_memory=True),
        Route.LEAST_RECENTLY_USED: Router(least_recently_used, needs_memory=True),
        Route.LEAST_LOADED: Router(least_loaded, needs_slots=True),
        Route.FAILOVER: Router(failover, probe=Probe.BEAT, takes_first_ok=True),
        Route.BUSYOVER: Router(
            busyover, probe=Probe.IDLE_BEAT, takes_first_ok=True, needs_memory=True
        ),
        Route.SHARDING_BROADCAST: Router(broadcast),
    }
)


#: Longest memory, as JSON, and longest text of a choice, in characters.
MEMORY_LIMIT = 65_536
WORDS_LIMIT = 2_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Asked:
    """A run that waits for the decision of a route."""

    run_id: int
    route: str
    request: RouteRequest


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """What a route chose for a request, or its error text."""

    request: RouteRequest
    choice: Choice
    fault: str = ""


def decide(
    asked: Sequence[Asked], routers: Mapping[str, Router], random: Random
) -> dict[int, RouteDecision]:
    """Let routes choose, one run after the other, each with the memory left by the one before."""
    memories: dict[int, Memory] = {}
    decisions = {}
    for decided in asked:
        request = decided.request
        if request.job_id in memories:
            request = replace(request, memory=memories[request.job_id])
        decision = _decide(routers[decided.route], request, random)
        if decision.fault:
            log.error(
                "route_failed", run_id=decided.run_id, route=decided.route, error=decision.fault
            )
        elif decision.choice.memory is not None:
            memories[request.job_id] = decision.choice.memory
        decisions[decided.run_id] = decision
    return decisions


def _decide(router: Router, request: RouteRequest, random: Random) -> RouteDecision:
    try:
        return RouteDecision(request, _sound(router.pick(request, random), request))
    except Exception as error:  # noqa: BLE001 - it is not our code
        words = f"{type(error).__name__}: {fault_of(error)}"
        return RouteDecision(request, Choice(None, words), fault=words)


def _sound(choice: object, request: RouteRequest) -> Choice:
    """Return the choice if it can be stored, else raise an error that says why not."""
    if not isinstance(choice, Choice):
        raise TypeError(f"expected a Choice, got: {choice!r:.100}")
    if choice.address is not None and choice.address not in request.candidates:
        raise ValueError(f"expected one of the executors that are online, got: {choice.address!r}")
    memory = None
    if choice.memory is not None:
        text = json.dumps(choice.memory)
        if len(text) > MEMORY_LIMIT:
            raise ValueError(f"expected a memory of up to {MEMORY_LIMIT} characters: {len(text)}")
        memory = json.loads(text)
        if not isinstance(memory, dict):
            raise TypeError(f"expected a memory to be a mapping, got: {text[:100]}")
    return Choice(choice.address, str(choice.words)[:WORDS_LIMIT], memory)


__all__ = [
    "BUILT_IN",
    "Choice",
    "Memory",
    "Probe",
    "ProbeAnswer",
    "Route",
    "RouteRequest",
    "Router",
    "choose",
    "find",
    "planned_shards",
    "with_added",
]


def choose(
    route: str, request: RouteRequest, random: Random, routers: Mapping[str, Router] = BUILT_IN
) -> Choice:
    """Choose an address; None if there is no candidate, or none that its probe allows.

    Raises `Problem` for a route that does not exist.
    """
    router = find(route, routers)
    if request.candidates:
        return router.pick(request, random)
    if request.nobody:
        return Choice(None, request.nobody)
    if request.wanted:
        return Choice(None, Why.WANTED_OFFLINE(addresses=", ".join(request.wanted)))
    if request.away:
        return Choice(None, Why.LISTED_OFFLINE(addresses=", ".join(request.away)))
    return Choice(None, Why.NOBODY_ONLINE())


def planned_shards(route: str) -> int:
    """Return the `shard_total` of a new run: 0 = as many as there are executors when it is due."""
    return 0 if route == Route.SHARDING_BROADCAST else 1


def with_added(added: Mapping[str, Router]) -> Mapping[str, Router]:
    """Return the built-in routes and those added by an installation.

    Raises `ValueError` if an added one has the name of a built-in one.
    """
    if taken := sorted(set(BUILT_IN) & set(added)):
        raise ValueError(f"expected added routes to have new names, got: {', '.join(taken)}")
    return MappingProxyType({**BUILT_IN, **added})


def find(route: str, routers: Mapping[str, Router] = BUILT_IN) -> Router:
    """Return a route by name.

    Raises `Problem` if it does not exist.
    """
    if route not in routers:
        raise Problem(Code.ROUTE, "route", known=", ".join(routers), got=route[:60])
    return routers[route]

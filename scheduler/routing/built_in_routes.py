"""The built-in routes: XXL-JOB's ten, and LEAST_LOADED.

A route ignores what another route remembered.

On XXL-JOB's consistent hash ring, most jobs stay where they are when an executor comes or goes.
Each address has 100 nodes, `SHARD-<address>-NODE-<0..99>`; a hash is the first four bytes of an
MD5, little-endian; a job goes to the first node that is not below the hash of its decimal id.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from hashlib import md5
from random import Random
from types import MappingProxyType
from typing import Any

from warren.broker.reasons.codes import Why, Words
from warren.scheduler.routing.choice import (
    Choice,
    Memory,
    Probe,
    ProbeAnswer,
    Router,
    RouteRequest,
)

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
    words = Why.TURN(route=Route.ROUND, n=count)
    return Choice(chosen, words, {"route": Route.ROUND, "count": count})


def by_hash(request: RouteRequest, _random: Random) -> Choice:
    """Choose by the job's place on the hash ring."""
    chosen = consistent_hash(request.job_id, request.candidates)
    # The same words for all jobs, so that one statement routes the runs of many.
    return Choice(chosen, Why.ONE_OF(route=Route.CONSISTENT_HASH, n=len(request.candidates)))


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
    words = Why.USE(route=route, n=counts[chosen])
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
    words = Why.ONE_OF(route=route, n=len(live))
    return Choice(chosen, words, {"route": route, "order": [*order, chosen]})


def least_loaded(request: RouteRequest, random: Random) -> Choice:
    """Choose the one with the most free slots, as far as schedulers know; of equals, any."""
    free = request.free_slots
    most = max(free.get(address, 0) for address in request.candidates)
    best = [address for address in request.candidates if free.get(address, 0) == most]
    return Choice(random.choice(best), Why.FREE_SLOTS(route=Route.LEAST_LOADED, n=most))


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
    words = Why.SHARD(route=Route.SHARDING_BROADCAST, index=request.shard_index)
    if index != request.shard_index:
        words = Why.SHARD_MOVED(route=Route.SHARDING_BROADCAST, index=request.shard_index)
    return Choice(request.candidates[index], words)


def _plain(route: Route, request: RouteRequest, index: int) -> Choice:
    words = Why.ONE_OF(route=route, n=len(request.candidates))
    return Choice(request.candidates[index], words)


def _first_ok(route: Route, request: RouteRequest) -> Choice:
    if request.probes is None:
        return Choice(None, Why.NOBODY_ASKED(route=route))
    asked: list[Words] = [Why.AWAY(address=address) for address in request.away]
    for address in request.candidates:
        answer = request.probes.get(address)
        asked.append(answer.words if answer else Why.SILENT(address=address))
        if answer and answer.ok:
            return Choice(address, Why.ASKED(route=route, what=tuple(asked)))
    best = _best(request.probes)
    asked.append(Why.NONE_LEFT() if best is None else Why.BEST(address=best))
    return Choice(best, Why.ASKED(route=route, what=tuple(asked)))


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

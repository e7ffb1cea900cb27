"""The ten strategies. A memory of another strategy, left from before an edit, counts as none."""

from random import Random
from typing import Any

from scheduler.hash_ring import consistent_hash
from scheduler.route_choice import Choice, Route, RouteRequest

#: ROUND starts at a random one of so many counts, so that jobs do not all start at one executor.
_ROUND_STARTS = 100


def first(request: RouteRequest, _random: Random) -> Choice:
    """Choose the first."""
    return _plain(Route.FIRST, request, 0)


def last(request: RouteRequest, _random: Random) -> Choice:
    """Choose the last."""
    return _plain(Route.LAST, request, len(request.candidates) - 1)


def at_random(request: RouteRequest, random: Random) -> Choice:
    """Choose any, each as likely as the others."""
    return _plain(Route.RANDOM, request, random.randrange(len(request.candidates)))


def in_turn(request: RouteRequest, random: Random) -> Choice:
    """Choose the next one of a round that starts anywhere; `count` is the turn last taken."""
    known = _remembered(Route.ROUND, request)
    count = known["count"] + 1 if known else random.randrange(_ROUND_STARTS)
    chosen = request.candidates[count % len(request.candidates)]
    return Choice(chosen, f"{Route.ROUND}, turn {count}", {"route": Route.ROUND, "count": count})


def by_hash(request: RouteRequest, _random: Random) -> Choice:
    """Choose by the job's place on the hash ring."""
    chosen = consistent_hash(request.job_id, request.candidates)
    return Choice(chosen, f"{Route.CONSISTENT_HASH} of job {request.job_id}")


def least_frequently_used(request: RouteRequest, random: Random) -> Choice:
    """Choose the one with the fewest uses; the earliest of several.

    Counts are kept relative to the lowest, so that a new executor, which starts at random below
    the number of executors, is not given every run until it has caught up with weeks of uses.
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
    return Choice(chosen, f"{route}, use {counts[chosen]}", {"route": route, "counts": counts})


def least_recently_used(request: RouteRequest, _random: Random) -> Choice:
    """Choose the one whose last use is longest ago; one that is new queues up behind the others."""
    route = Route.LEAST_RECENTLY_USED
    known: list[str] = _remembered(route, request).get("order", [])
    live, remembered, allowed = set(request.addresses), set(known), set(request.candidates)
    order = [address for address in known if address in live]
    order += [address for address in request.addresses if address not in remembered]
    chosen = next(address for address in order if address in allowed)
    order.remove(chosen)
    return Choice(chosen, f"{route} of {len(live)}", {"route": route, "order": [*order, chosen]})


def failover(request: RouteRequest, _random: Random) -> Choice:
    """Choose the first that answered."""
    return _first_ok(Route.FAILOVER, request)


def busyover(request: RouteRequest, _random: Random) -> Choice:
    """Choose the first that is idle."""
    return _first_ok(Route.BUSYOVER, request)


def broadcast(request: RouteRequest, _random: Random) -> Choice:
    """Choose for one shard of a broadcast; a shard whose executor has gone goes to the first."""
    index = request.shard_index if request.shard_index < len(request.candidates) else 0
    words = f"{Route.SHARDING_BROADCAST}, shard {request.shard_index}"
    if index != request.shard_index:
        words += ", whose executor has left"
    return Choice(request.candidates[index], words)


def _plain(route: Route, request: RouteRequest, index: int) -> Choice:
    return Choice(request.candidates[index], f"{route} of {len(request.candidates)}")


def _first_ok(route: Route, request: RouteRequest) -> Choice:
    if request.probes is None:
        return Choice(None, f"{route}: no executor was asked yet")
    asked = [f"{address} is away" for address in request.away]
    for address in request.candidates:
        answer = request.probes.get(address)
        asked.append(f"{address} {answer.words if answer else 'did not answer'}")
        if answer and answer.ok:
            return Choice(address, f"{route}: {'; '.join(asked)}")
    return Choice(None, f"{route}: {'; '.join(asked)}; none left")


def _remembered(route: Route, request: RouteRequest) -> dict[str, Any]:
    memory = request.memory
    return dict(memory) if memory is not None and memory.get("route") == route else {}

"""Which executor runs it: strategies as pure functions of job, live addresses, memory and chance.

No strategy does I/O. What FAILOVER and BUSYOVER must know is asked before and handed in; what
ROUND and the least-used strategies remember is handed in and handed back.
"""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

from scheduler import route_strategies as strategies
from scheduler.hash_ring import consistent_hash
from scheduler.route_choice import Choice, Memory, ProbeAnswer, Route, Router, RouteRequest

__all__ = [
    "BUILT_IN",
    "Choice",
    "Memory",
    "ProbeAnswer",
    "Route",
    "RouteRequest",
    "Router",
    "choose",
    "consistent_hash",
    "needs_memory",
    "needs_probe",
    "with_added",
]

#: XXL-JOB's ten strategies.
BUILT_IN: Mapping[str, Router] = MappingProxyType(
    {
        Route.FIRST: Router(strategies.first),
        Route.LAST: Router(strategies.last),
        Route.ROUND: Router(strategies.in_turn, needs_memory=True),
        Route.RANDOM: Router(strategies.at_random),
        Route.CONSISTENT_HASH: Router(strategies.by_hash),
        Route.LEAST_FREQUENTLY_USED: Router(strategies.least_frequently_used, needs_memory=True),
        Route.LEAST_RECENTLY_USED: Router(strategies.least_recently_used, needs_memory=True),
        Route.FAILOVER: Router(strategies.failover, needs_probe=True),
        Route.BUSYOVER: Router(strategies.busyover, needs_probe=True),
        Route.SHARDING_BROADCAST: Router(strategies.broadcast),
    }
)


def choose(
    route: str, request: RouteRequest, random: Random, routers: Mapping[str, Router] = BUILT_IN
) -> Choice:
    """Choose an address; None when there is no candidate, or none whose probe was ok.

    Raises `ValueError` for a route that does not exist.
    """
    router = _router(route, routers)
    if request.candidates:
        return router.pick(request, random)
    if request.wanted:
        return Choice(None, f"none of the wanted executors is online: {', '.join(request.wanted)}")
    return Choice(None, "no executor is online")


def needs_probe(route: str, routers: Mapping[str, Router] = BUILT_IN) -> bool:
    """Say whether executors are to be asked before this strategy can choose."""
    return _router(route, routers).needs_probe


def needs_memory(route: str, routers: Mapping[str, Router] = BUILT_IN) -> bool:
    """Say whether this strategy remembers what it chose."""
    return _router(route, routers).needs_memory


def with_added(added: Mapping[str, Router]) -> Mapping[str, Router]:
    """Give the built-in strategies and those that an installation adds.

    Raises `ValueError` when an added one has the name of a built-in one.
    """
    if taken := sorted(set(BUILT_IN) & set(added)):
        raise ValueError(f"expected added routes to have new names, got: {', '.join(taken)}")
    return MappingProxyType({**BUILT_IN, **added})


def _router(route: str, routers: Mapping[str, Router]) -> Router:
    if route not in routers:
        raise ValueError(f"expected route to be one of {', '.join(routers)}, got: {route[:60]!r}")
    return routers[route]

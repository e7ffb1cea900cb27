"""Chooses executors: routes as pure functions of job, live addresses, memory and randomness.

No route does I/O. Answers of executors for FAILOVER and BUSYOVER are asked for before and passed
in; the memory of ROUND and the least-used routes is passed in and returned.
"""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

from broker.reasons.codes import Why
from scheduler.problems import Code, Problem
from scheduler.routing import built_in_routes
from scheduler.routing.choice import (
    Choice,
    Memory,
    Probe,
    ProbeAnswer,
    Route,
    Router,
    RouteRequest,
)

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

#: XXL-JOB's ten routes.
BUILT_IN: Mapping[str, Router] = MappingProxyType(
    {
        Route.FIRST: Router(built_in_routes.first),
        Route.LAST: Router(built_in_routes.last),
        Route.ROUND: Router(built_in_routes.in_turn, needs_memory=True),
        Route.RANDOM: Router(built_in_routes.at_random),
        Route.CONSISTENT_HASH: Router(built_in_routes.by_hash),
        Route.LEAST_FREQUENTLY_USED: Router(
            built_in_routes.least_frequently_used, needs_memory=True
        ),
        Route.LEAST_RECENTLY_USED: Router(built_in_routes.least_recently_used, needs_memory=True),
        Route.FAILOVER: Router(built_in_routes.failover, probe=Probe.BEAT, takes_first_ok=True),
        Route.BUSYOVER: Router(
            built_in_routes.busyover, probe=Probe.IDLE_BEAT, takes_first_ok=True, needs_memory=True
        ),
        Route.SHARDING_BROADCAST: Router(built_in_routes.broadcast),
    }
)


def choose(
    route: str, request: RouteRequest, random: Random, routers: Mapping[str, Router] = BUILT_IN
) -> Choice:
    """Choose an address; None if there is no candidate, or none that its probe allows.

    Raises `Problem` for a route that does not exist.
    """
    router = find(route, routers)
    if request.candidates:
        return router.pick(request, random)
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

"""Chooses executors: routes as pure functions of job, live addresses, memory and randomness.

No route does I/O. Answers of executors for FAILOVER and BUSYOVER are asked for before and passed
in; the memory of ROUND and the least-used routes is passed in and returned.
"""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

from warren.broker.reasons.codes import Why
from warren.scheduler.problems import Code, Problem
from warren.scheduler.routing.built_in_routes import BUILT_IN, Route
from warren.scheduler.routing.choice import Choice, Memory, Probe, ProbeAnswer, Router, RouteRequest

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

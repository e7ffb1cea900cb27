"""Chooses executors: routes are pure functions of job, live addresses, memory and randomness.

No route does I/O. Answers of executors for FAILOVER and BUSYOVER are asked for before and passed
in; the memory of ROUND and the least-used routes is passed in and returned.

A route added by an installation is user code, so it never runs inside a transaction:

    claim meets one -> the run stays PLANNED -> commit -> decide -> claim again, with the decision

A decision counts only if the facts behind it still hold. A route that raises, or chooses an address
that is not allowed, ends one run and does not block others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

import structlog

from warren.broker.reasons.codes import Why
from warren.scheduler.problems import Code, Problem, fault_of
from warren.scheduler.routing.built_in_routes import BUILT_IN, Route
from warren.scheduler.routing.choice import Choice, Memory, Probe, ProbeAnswer, Router, RouteRequest

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
class Decision:
    """What a route chose for a request, or its error text."""

    request: RouteRequest
    choice: Choice
    fault: str = ""


def decide(
    asked: Sequence[Asked], routers: Mapping[str, Router], random: Random
) -> dict[int, Decision]:
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


def _decide(router: Router, request: RouteRequest, random: Random) -> Decision:
    try:
        return Decision(request, _sound(router.pick(request, random), request))
    except Exception as error:  # noqa: BLE001 - it is not our code
        words = f"{type(error).__name__}: {fault_of(error)}"
        return Decision(request, Choice(None, words), fault=words)


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

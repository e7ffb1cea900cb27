"""Asks a run's route where it goes, with all that the route may look at."""

import random
from collections.abc import Mapping
from dataclasses import replace

from scheduler import routing
from scheduler.added_routes import Asked
from scheduler.claim import Claim
from scheduler.probe_answers import Among
from scheduler.probes import Probes, Undecided
from scheduler.route_choice import Choice, Memory, Router, RouteRequest
from sql.rows import AnyRow


class RouteFailed(ValueError):
    """A route does not exist, or raised, or chose what it may not."""


class Chooser:
    """Chooses for one scheduler; `routers` are all routes there are."""

    def __init__(self, probes: Probes, routers: Mapping[str, Router]) -> None:
        self._probes = probes
        self._routers = routers
        self._random = random.Random()  # noqa: S311 - spreads load

    def needs_memory(self, job: AnyRow) -> bool:
        """Say whether the job's route remembers; one that does not exist remembers nothing."""
        router = self._routers.get(job.executor_route_strategy)
        return router is not None and router.needs_memory

    def request(self, row: AnyRow, job: AnyRow, claim: Claim) -> RouteRequest:
        """Return what the job's route may look at for this run.

        Raises:
            RouteFailed: there is no such route.

        """
        router = self._router(job)
        is_free = not row.wanted_addresses
        request = RouteRequest(
            job_id=job.id,
            addresses=claim.addresses if is_free else tuple(claim.live),
            memory=_memory(job, claim),
            wanted=() if is_free else tuple(dict.fromkeys(row.wanted_addresses.split(","))),
            away=claim.away if is_free else (),
            shard_index=row.shard_index,
        )
        if router.probe is None:
            return request
        among = Among(claim.app, claim.live, claim.taken, claim.given)
        return self._probes.answered(router, request, among)

    def choose(
        self, row: AnyRow, job: AnyRow, request: RouteRequest, claim: Claim
    ) -> Choice | None:
        """Return the route's choice; None when the claim notes what it still waits for.

        Raises:
            RouteFailed: the route has failed.

        """
        route, router = job.executor_route_strategy, self._router(job)
        if not router.is_decided(request):
            claim.undecided.append(Undecided(job.id, router, request))
            return None
        if route in routing.BUILT_IN or not request.candidates:
            return routing.choose(route, request, self._random, self._routers)
        decision = claim.decisions.get(row.id)
        if decision is None or decision.request != request:
            claim.asked.append(Asked(row.id, route, request))
            return None
        if decision.fault:
            raise RouteFailed(f"route {route} failed: {decision.fault}")
        return _as_kept(decision.choice, route)

    def _router(self, job: AnyRow) -> Router:
        try:
            return routing.find(job.executor_route_strategy, self._routers)
        except ValueError as error:
            raise RouteFailed(str(error)) from error


def _memory(job: AnyRow, claim: Claim) -> Memory | None:
    """Return what the job's route remembers; that of an added route is kept under its name."""
    memory = claim.new_memories.get(job.id) or claim.memories.get(job.id)
    route = job.executor_route_strategy
    if not memory or route in routing.BUILT_IN:
        return memory or None
    kept = memory.get("memory") if memory.get("route") == route else None
    return kept if isinstance(kept, dict) else None


def _as_kept(choice: Choice, route: str) -> Choice:
    if choice.memory is None:
        return choice
    return replace(choice, memory={"route": route, "memory": choice.memory})

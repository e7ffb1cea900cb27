"""Asks a run's route for a destination, and supplies the facts that the route may use.

Runs go to executors that are online, healthy, and have room.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from warren.broker.reasons.codes import Why, Words
from warren.scheduler.dispatch.claim import ClaimFacts
from warren.scheduler.dispatch.workload import Place, Workload
from warren.scheduler.membership.catalogues import Need
from warren.scheduler.membership.registration import AppSettings
from warren.scheduler.membership.roster import Roster
from warren.scheduler.routing import routes
from warren.scheduler.routing.probe_answers import Candidates
from warren.scheduler.routing.probes import Probes, Undecided
from warren.scheduler.routing.routes import Asked, Choice, Decision, Memory, Router, RouteRequest
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.models.job_tables import DEFAULT_ROUTE
from warren.sql.runs.run_rows import PlannedRun, RoutedRun

#: This many runs in flight keep an executor busy for a while, even if they do nothing.
STOCK = 1_000


class Destinations:
    """The executors of all apps, as the dispatcher sees them; used by its thread only."""

    def __init__(self, roster: Roster, settings: AppSettings, workload: Workload) -> None:
        self._roster = roster
        self._settings = settings
        self._workload = workload

    def live(self, app: str) -> dict[str, str]:
        """Return the boot id by address of an app's executors that take triggers."""
        return self._roster.routable(app)

    def has_priorities(self, app_id: int) -> bool:
        """Whether some jobs of an app go before others."""
        return self._settings(app_id).has_priorities

    def room(self, app_id: int, live: dict[str, str]) -> int:
        """Return how many more runs these addresses take in total."""
        return self._workload.room(app_id, live)

    def are_stocked(self, app_id: int, live: dict[str, str]) -> bool:
        """Return whether all of these addresses have enough runs to stay busy for a while."""
        return all(runs >= STOCK for runs in self._workload.in_flight(app_id, live).values())

    def room_at(self, place: Place) -> int:
        """Return how many more runs one address takes."""
        app_id, address = place
        return self._workload.room(app_id, [address])

    def absent_seconds(self, app: str) -> float:
        """Return for how long no executor of an app has taken triggers."""
        return self._roster.absent_seconds(app)

    def facts(self, app_id: int, app: str, live: dict[str, str], now_ms: int) -> ClaimFacts:
        listed, route, _ = self._settings(app_id)
        return ClaimFacts(
            app_id=app_id,
            app=app,
            now_ms=now_ms,
            live=live,
            addresses=tuple(executor for executor in listed if executor in live)
            if listed
            else tuple(live),
            listed=listed,
            away=tuple(executor for executor in listed if executor not in live),
            in_flight=self._workload.in_flight(app_id, live),
            abilities=self._roster.abilities(app),
            route=route or DEFAULT_ROUTE,
            unhealthy=self._roster.unhealthy(app),
        )


class RouteFailed(ValueError):
    """A route does not exist, raised, or chose an address that is not allowed."""

    def __init__(self, why: Words) -> None:
        self.why = why
        super().__init__(str(why))


class RouteResolver:
    """Chooses destinations for one scheduler; `routers` are all known routes."""

    def __init__(self, probes: Probes, routers: Mapping[str, Router]) -> None:
        self._probes = probes
        self._routers = routers
        self._random = random.Random()  # noqa: S311 - spreads load

    def needs_memory(self, job: JobToRun) -> bool:
        """Return whether the job's route keeps a memory; False if there is no such route."""
        router = self._routers.get(job.route)
        return router is not None and router.needs_memory

    def learn_underway(self, app: str, sent: Iterable[RoutedRun]) -> None:
        """Learn which runs schedulers have sent that may not have reached executors yet."""
        self._probes.learn_sent(
            ((app, run.address, run.boot_id), run.job_id, run.id) for run in sent
        )

    def request(
        self,
        row: PlannedRun,
        job: JobToRun,
        facts: ClaimFacts,
        memory: Memory | None,
        *,
        among: Candidates,
        need: Need,
    ) -> RouteRequest:
        """Return the facts on which the job's route may decide.

        `memory` is stored for the job; `among` is where the claim has sent runs so far. Only
        executors that have what the run needs may be chosen.

        Raises:
            RouteFailed: there is no such route.

        """
        router = self._router(job)
        wanted = dict.fromkeys(row.wanted_addresses.split(",")) if row.wanted_addresses else {}
        is_free = not wanted
        meant = facts.addresses if is_free else tuple(facts.live)
        able = facts.able(need, meant)
        request = RouteRequest(
            job_id=job.id,
            run_id=row.id,
            addresses=facts.healthy_or_all(able) if is_free else able,
            memory=_own_memory(job, memory),
            wanted=facts.healthy_or_all(wanted),
            away=facts.away if is_free else (),
            shard_index=row.shard_index,
        )
        if not request.candidates:
            request = replace(request, nobody=_why_none(facts, need, meant, wanted))
        if router.needs_slots:
            request = replace(request, free_slots=_free_slots(facts, among, able))
        if router.probe is None:
            return request
        return self._probes.answered(router, request, among, row.due_at)

    def choose(
        self, row: PlannedRun, job: JobToRun, request: RouteRequest, facts: ClaimFacts
    ) -> Choice | Undecided | Asked:
        """Return the route's choice, or what it waits for.

        Raises:
            RouteFailed: the route has failed.

        """
        route, router = job.route, self._router(job)
        if not router.is_decided(request):
            return Undecided(job.id, router, request, row.due_at)
        if route in routes.BUILT_IN or not request.candidates:
            return routes.choose(route, request, self._random, self._routers)
        decision = facts.decisions.get(row.id)
        if decision is None or decision.request != request:
            return Asked(row.id, route, request)
        if decision.fault:
            raise RouteFailed(Why.ROUTE_FAILED(route=route, fault=decision.fault))
        return _as_kept(decision.choice, route)

    def decide(self, asked: Sequence[Asked]) -> dict[int, Decision]:
        """Let added routes choose; called between two claims, because they are user code."""
        return routes.decide(asked, self._routers, self._random)

    def ask(self, facts: ClaimFacts, undecided: Sequence[Undecided]) -> None:
        """Ask executors for the answers that routes need, and hold those jobs back meanwhile."""
        self._probes.ask(facts.app, facts.live, undecided, facts.now_ms)

    def held_back(self) -> set[int]:
        """Return the jobs whose runs cannot be routed yet."""
        return self._probes.held_back()

    def seconds_left(self) -> float:
        """Return the seconds until the next answer is overdue; infinite when none is awaited."""
        return self._probes.seconds_left()

    def _router(self, job: JobToRun) -> Router:
        try:
            return routes.find(job.route, self._routers)
        except ValueError as error:
            raise RouteFailed(str(error)) from error


def _why_none(
    facts: ClaimFacts, need: Need, meant: Sequence[str], wanted: Collection[str]
) -> Words:
    """Return why no executor is suitable: what the online ones lack, or that the app is offline."""
    online = ", ".join(address for address in meant if not wanted or address in wanted)
    if not online:
        return "" if wanted or facts.listed else Why.APP_OFFLINE(app=facts.app)
    if need.is_script and wanted:
        return Why.LANGUAGE_NOT_WANTED(language=need.name, addresses=online)
    if need.is_script:
        return Why.LANGUAGE_NOWHERE(language=need.name, addresses=online)
    if wanted:
        return Why.HANDLER_NOT_WANTED(name=need.name, addresses=online)
    return Why.HANDLER_NOWHERE(name=need.name, addresses=online)


def _free_slots(facts: ClaimFacts, among: Candidates, addresses: Iterable[str]) -> dict[str, int]:
    """Return how many slots are free, less what was routed since the last heartbeats.

    A negative number counts waiting runs.
    """
    slots, in_flight, taken = facts.abilities.slots, facts.in_flight, among.taken
    return {
        address: slots.get(address, 0) - in_flight.get(address, 0) - taken.get(address, 0)
        for address in addresses
    }


def _own_memory(job: JobToRun, memory: Memory | None) -> Memory | None:
    """Return the memory of the job's route; that of an added route is stored under its name."""
    route = job.route
    if not memory or route in routes.BUILT_IN:
        return memory or None
    kept = memory.get("memory") if memory.get("route") == route else None
    return kept if isinstance(kept, dict) else None


def _as_kept(choice: Choice, route: str) -> Choice:
    if choice.memory is None:
        return choice
    return replace(choice, memory={"route": route, "memory": choice.memory})

"""May a run go now, and where to? Decides about the runs of one claim; it writes nothing.

For each run of a claim, these questions are asked in order:

    its job is gone or was stopped  ->  ends
    too many runs of its job wait   ->  ends, and its due time is skipped
    other runs of its job run       ->  waits, or ends, by the job's block strategy
    a limit is full                 ->  waits
    its route                       ->  waits for answers, finds nobody, or chooses an executor
    the executor is full            ->  waits
    otherwise                       ->  goes

The claimed run of a broadcast becomes one shard for each executor:

    0/0 PLANNED ──> 0/n ROUTED, and 1..n-1 inserted as ROUTED

The number of shards never changes afterwards: a retry of shard i stays i/n.

The number of runs in flight at each address is the database's last count, plus what was routed
since.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from warren.broker.messages import Block, HealthIssue
from warren.broker.reasons import Why, Words
from warren.scheduler.completion.end import End, cancelled, refused, was_stopped
from warren.scheduler.jobs.script_cache import Script
from warren.scheduler.limits import (
    Age,
    ClusterLane,
    FullLimit,
    LimitRoom,
    NeverFits,
    Refuse,
    Wait,
    age_of,
)
from warren.scheduler.membership.catalogues import Abilities, Need
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation
from warren.scheduler.routing import routes
from warren.scheduler.routing.probes import ANSWER_SECONDS, Candidates, Probes, Undecided
from warren.scheduler.routing.routes import (
    Asked,
    Choice,
    Memory,
    Route,
    RouteDecision,
    Router,
    RouteRequest,
)
from warren.scheduler.triggers import RoutedTrigger, routed_trigger
from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.models.job_tables import DEFAULT_ROUTE, FLOW_TYPE
from warren.sql.run_status import BY_SCHEDULE, KIND_WORDS, Kind, RunStatus
from warren.sql.runs import queries, transitions
from warren.sql.runs.run_rows import PlannedRun
from warren.sql.runs.ticks import Shard

#: An address of an app.
Place = tuple[int, str]


#: The most runs that an address may have in flight; the others stay PLANNED.
IN_FLIGHT_LIMIT = 2_000
#: How long a count is trusted, and how long one that says "full": other schedulers see some of the
#: ends.
COUNT_SECONDS = 1.0
FULL_SECONDS = 0.25


class Workload:
    """Counts of runs in flight; `limit` is for one address of one app.

    Used by one thread, except `free`. The count misses runs that end while it is taken, until it is
    taken again. `clock` is monotonic seconds.
    """

    def __init__(
        self,
        database: Database,
        *,
        limit: int = IN_FLIGHT_LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._limit = limit
        self._clock = clock
        self._counts: Counter[tuple[int, str]] = Counter()
        self._counted_at = float("-inf")
        # Bounded, because nothing reads it while no run is due.
        self._freed: deque[Mapping[tuple[int, str], int]] = deque(maxlen=1_000)

    def room(self, app_id: int, addresses: Iterable[str]) -> int:
        """Return how many more runs these addresses take in total."""
        addresses = list(addresses)
        self._count(older_than=COUNT_SECONDS)
        if any(not self.has_room(app_id, address) for address in addresses):
            # An executor finishes thousands a second: a full one soon has room again.
            self._count(older_than=FULL_SECONDS)
        return sum(max(0, self._limit - self._counts[app_id, address]) for address in addresses)

    def in_flight(self, app_id: int, addresses: Iterable[str]) -> dict[str, int]:
        """Return how many runs each of these addresses has, by the last count."""
        return {address: self._counts[app_id, address] for address in addresses}

    def has_room(self, app_id: int, address: str, *, also: int = 0) -> bool:
        """Whether the address takes one more run, besides `also` runs that are not added yet."""
        return self._counts[app_id, address] + also < self._limit

    def add(self, app_id: int, address: str) -> None:
        """Record that a run was routed to an address."""
        self._counts[app_id, address] += 1

    def free(self, ended: Mapping[tuple[int, str], int]) -> None:
        """Record how many runs ended at each address of each app; may be called from any thread."""
        self._freed.append(ended)

    def _count(self, *, older_than: float) -> None:
        if self._clock() - self._counted_at < older_than:
            while self._freed:
                self._counts.subtract(self._freed.popleft())
            return
        self._freed.clear()
        self._counts = Counter()
        for boot, runs in self._database.read(queries.in_flight).items():
            self._counts[boot.app_id, boot.address] += runs
        self._counted_at = self._clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFacts:
    """An app and its executors when the claim began, and the data of the jobs it locked.

    `live` are all boots by address. Runs go to `addresses`, unless a user named others for a run:
    all that are online, or those of the app's own list, which is `listed`, of which `away` are
    offline. `abilities` say which of them have what a run needs. Those in `unhealthy`, with their
    problems, are skipped while another is healthy. `in_flight` is how many runs each has. `route`
    is the default route. `chosen` is what added routes chose that the previous claim asked. `epoch`
    is the database's before the claim.
    """

    app_id: int
    app: str
    now_ms: int
    live: Mapping[str, str]
    addresses: tuple[str, ...]
    listed: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    abilities: Abilities = field(default_factory=lambda: Abilities(None, {}))
    in_flight: Mapping[str, int] = field(default_factory=dict)
    route: str = DEFAULT_ROUTE
    unhealthy: Mapping[str, tuple[HealthIssue, ...]] = field(default_factory=dict)
    chosen: Mapping[int, RouteDecision] = field(default_factory=dict)
    memories: Mapping[int, Memory] = field(default_factory=dict)
    epoch: int = 0
    scripts: Mapping[int, Script | None] = field(default_factory=dict)

    def able(self, need: Need, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses that do not lack what a run needs."""
        lacking = self.abilities.lacking(need)
        if not lacking:
            return tuple(addresses)
        return tuple(address for address in addresses if address not in lacking)

    def healthy_or_all(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses that are live and healthy; all of them if none is."""
        listed = tuple(addresses)
        healthy = tuple(
            executor
            for executor in listed
            if executor in self.live and executor not in self.unhealthy
        )
        return healthy or listed


@dataclass(frozen=True, slots=True)
class Goes:
    """A run that is sent; `shards` are the others of its broadcast, whose ids are still to be set.

    `total` is the number of its shards, if that was decided now. `memory` is what the job's route
    remembers from now on; None = unchanged.
    """

    item: RoutedTrigger
    routed: transitions.Routed
    total: int | None = None
    shards: Sequence[Shard] = ()
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """A run that ends without being sent; `explained` is what its route said.

    `is_crowded_out`: too many runs of its job wait. `is_missed`: no executor that may take it was
    online for too long.
    """

    row: PlannedRun
    end: End
    explained: Explanation | None = None
    is_crowded_out: bool = False
    is_missed: bool = False


@dataclass(frozen=True, slots=True)
class Opens:
    """A run of a flow that is running from now on."""

    run_id: int


@dataclass(frozen=True, slots=True)
class Waits:
    """A run that stays PLANNED, and what its job waits for.

    That is the answers of executors, an added route, a limit, or room at an executor; None = room
    at several, one that is offline, or other runs of the job.
    """

    job_id: int
    on: Undecided | Asked | FullLimit | Place | None = None


#: What a claim decides about a run.
Decision = Goes | Ends | Opens | Waits


def undelivered(
    run_id: int,
    why: Words,
    now_ms: int,
    *,
    least_wait_seconds: float = 0.0,
    may_retry: bool = True,
) -> End:
    """Return the end of an unrouted run; it is void if another scheduler has routed the run."""
    return End(
        run_id=run_id,
        status=RunStatus.UNDELIVERED,
        message=why,
        finished_at=now_ms,
        only_from=RunStatus.PLANNED,
        least_wait_seconds=least_wait_seconds,
        may_retry=may_retry,
    )


def is_unexpanded(run: PlannedRun, job: JobToRun) -> bool:
    """Return whether this claim still has to decide the number of shards.

    A first attempt was never routed, even if its job's route has changed since it was planned. The
    runs of a node of a flow may be shards already.
    """
    if job.route != Route.SHARDING_BROADCAST:
        return False
    return bool(run.shard_total == 0 or (run.attempt == 0 and run.kind != Kind.NODE))


def shard_choices(request: RouteRequest) -> list[Choice]:
    """Return the destination of each shard, by its index."""
    total, route = len(request.candidates), Route.SHARDING_BROADCAST.words
    return [
        Choice(address, Why.SHARD_OF(route=route, index=index, total=total))
        for index, address in enumerate(request.candidates)
    ]


def shard_trigger(zero: RoutedTrigger, shard: Shard) -> RoutedTrigger:
    """Return the trigger of a shard, based on that of shard 0."""
    trigger = msgspec.structs.replace(
        zero.trigger,
        run_id=shard.run_id,
        boot_id=shard.boot_id,
        shard_index=shard.index,
        shard_total=shard.total,
    )
    return RoutedTrigger(app=zero.app, address=shard.address, trigger=trigger)


@dataclass(frozen=True, slots=True)
class _Due:
    """A locked run, its job, and its script, if it has one."""

    row: PlannedRun
    job: JobToRun
    script: Script | None = None

    @property
    def need(self) -> Need:
        """What the executor of this run must have."""
        if self.script is None:
            return Need(self.row.handler or "")
        return Need(self.script.language, is_script=True)


class RunDecisions:
    """The decisions of one claim, run by run: later ones take earlier ones into account.

    Args:
        facts: what to decide on.
        room: the limits that the runs' jobs take.
        routers: all known routes.
        random: for routes; spreads load.

    """

    def __init__(
        self,
        context: NodeContext,
        facts: ClaimFacts,
        *,
        room: LimitRoom,
        roster: Roster,
        workload: Workload,
        probes: Probes,
        routers: Mapping[str, Router],
        random: Random,
    ) -> None:
        self._facts = facts
        self._room = room
        self._node = context.node
        self._limits = context.limits
        self._no_executor_seconds = context.timeouts.no_executor
        self._roster = roster
        self._workload = workload
        self._probes = probes
        self._routers = routers
        self._random = random
        self._memories = dict(facts.memories)
        self._taken = Counter[str]()
        self._given: set[tuple[str, int]] = set()
        self._script_characters = 0
        self._online = ", ".join(facts.live)
        self._away = (Why.LISTED_AND_AWAY(addresses=", ".join(facts.away)),) if facts.away else ()
        self._unhealthy = tuple(
            Why.AILING(address=address, ailments=", ".join(issues).lower())
            for address, issues in sorted(facts.unhealthy.items())
        )
        self._explanations: dict[tuple[object, ...], Explanation] = {}
        self._among = Candidates(facts.app, facts.live, self._taken, self._given)

    def decide(self, row: PlannedRun, job: JobToRun | None) -> Decision | None:
        """Decide about a run; `job` is None if it was deleted. None = the next claim decides."""
        if job is None or was_stopped(row, job):
            why = Why.JOB_DELETED() if job is None else Why.JOB_STOPPED()
            return Ends(row, cancelled(row.id, why, self._facts.now_ms))
        held = (
            self._crowded_out(row, job)
            or self._held_by_others(row, job)
            or self._held_by_limit(row, job)
        )
        if held is not None:
            return held
        if row.script_version is not None:
            return self._route_script(row, job, row.script_version)
        return self._route(_Due(row, job))

    # -- limits -----------------------------------------------------------------------------------

    def _crowded_out(self, row: PlannedRun, job: JobToRun) -> Decision | None:
        """End the run if `max_waiting` runs already wait; otherwise return None."""
        waiting = self._room.waiting.get(job.id)
        if waiting is None:
            return None
        if row.kind in BY_SCHEDULE and waiting.count >= job.max_waiting:
            why = Why.TOO_MANY_WAIT(n=job.max_waiting)
            return Ends(row, cancelled(row.id, why, self._facts.now_ms), is_crowded_out=True)
        waiting.planned += 1  # until it is sent
        return None

    def _held_by_others(self, row: PlannedRun, job: JobToRun) -> Decision | None:
        """Make the run wait or end if the job's other runs block it; otherwise return None."""
        lane = self._room.lanes.get(job.id)
        match None if lane is None else lane.decide(row):
            case Refuse(reason):
                return Ends(row, refused(row.id, reason, self._facts.now_ms))
            case Wait(is_full=False):
                return Waits(job.id)
        return None  # if it is full, so is the job's own limit

    def _held_by_limit(self, row: PlannedRun, job: JobToRun, runs: int = 1) -> Decision | None:
        """Make the run wait or end if a limit has no room for `runs` more; else return None."""
        match self._room.obstacle(job.id, runs):
            case NeverFits(why):
                return self._end(row, why, may_retry=False)
            case FullLimit() as full:
                lane = self._room.lanes.get(job.id)
                is_pressing = job.max_waiting > 0 or (lane is not None and not lane.queues)
                # Its later runs must be decided in time.
                return Waits(job.id, None if is_pressing else full)
        return None

    # -- routes -----------------------------------------------------------------------------------

    def _route_script(self, row: PlannedRun, job: JobToRun, version: int) -> Decision | None:
        """Route the run of a script, unless this claim has reached its limit on scripts."""
        scripts = self._facts.scripts
        if version not in scripts or self._script_characters >= self._limits.script_characters:
            return None
        script = scripts[version]
        if script is None:
            return self._end(row, Why.SCRIPT_GONE())
        decision = self._route(_Due(row, job, script))
        copies = 1 + len(decision.shards) if isinstance(decision, Goes) else 1
        self._script_characters += len(script.source) * copies
        return decision

    def _route(self, due: _Due) -> Decision | None:
        row, job = due.row, due.job
        try:
            router = routes.find(job.route, self._routers)
        except ValueError as error:
            return self._end_unroutable(row, str(error))
        request = self._request(due, router)
        if request.candidates and is_unexpanded(row, job):
            return self._broadcast(due, request)
        choice = self._choose(due, router, request)
        if not isinstance(choice, Choice):
            return choice
        if choice.address is None:
            return self._give_up(due, request, choice)
        if not self._has_room(choice.address):
            return Waits(job.id, (self._facts.app_id, choice.address))
        return self._go(due, choice.address, choice, row.shard_total or 1)

    def _choose(self, due: _Due, router: Router, request: RouteRequest) -> Choice | Decision:
        """Return the address that the route chooses; otherwise that the run waits or ends."""
        row, job = due.row, due.job
        if not router.is_decided(request):
            return Waits(job.id, Undecided(job.id, router, request, row.due_at))
        if job.route in routes.BUILT_IN or not request.candidates:
            return routes.choose(job.route, request, self._random, self._routers)
        chosen = self._facts.chosen.get(row.id)
        if chosen is None or chosen.request != request:
            return Waits(job.id, Asked(row.id, job.route, request))
        if chosen.fault:
            why = Why.ROUTE_FAILED(route=job.route, fault=chosen.fault)
            return self._end_unroutable(row, why)
        return _as_kept(chosen.choice, job.route)

    def _request(self, due: _Due, router: Router) -> RouteRequest:
        """Return the facts on which the job's route may decide."""
        row, job, facts, need = due.row, due.job, self._facts, due.need
        wanted = dict.fromkeys(row.wanted_addresses.split(",")) if row.wanted_addresses else {}
        meant = facts.addresses if not wanted else tuple(facts.live)
        able = facts.able(need, meant)
        request = RouteRequest(
            job_id=job.id,
            run_id=row.id,
            addresses=able if wanted else facts.healthy_or_all(able),
            memory=_own_memory(job, self._memories.get(job.id)),
            wanted=facts.healthy_or_all(wanted),
            away=() if wanted else facts.away,
            shard_index=row.shard_index,
        )
        if not request.candidates:
            request = replace(request, nobody=_why_none(facts, need, meant, wanted))
        if router.needs_slots:
            request = replace(request, free_slots=self._free_slots(able))
        if router.probe is None:
            return request
        return self._probes.answered(router, request, self._among, row.due_at)

    def _free_slots(self, addresses: Iterable[str]) -> dict[str, int]:
        """Return how many slots are free, less what was routed since the last heartbeats.

        A negative number counts waiting runs.
        """
        slots, in_flight, taken = self._facts.abilities.slots, self._facts.in_flight, self._taken
        return {
            address: slots.get(address, 0) - in_flight.get(address, 0) - taken[address]
            for address in addresses
        }

    def _has_room(self, address: str) -> bool:
        return self._workload.has_room(self._facts.app_id, address, also=self._taken[address])

    # -- go ---------------------------------------------------------------------------------------

    def _broadcast(self, due: _Due, request: RouteRequest) -> Decision | None:
        """Split a run into one shard per executor, once each of them has room."""
        row, job, total = due.row, due.job, len(request.candidates)
        if self._taken and self._taken.total() + total > self._limits.shards:
            return None
        if not all(self._has_room(address) for address in request.candidates):
            return Waits(job.id)
        if (held := self._held_by_limit(row, job, total)) is not None:
            return held
        first, *others = shard_choices(request)
        zero = self._go(due, request.candidates[0], first, total)
        shards = []
        for index, choice in enumerate(others, start=1):
            address = request.candidates[index]
            self._take(address, job.id)
            shards.append(
                Shard(
                    zero_id=row.id,
                    run_id=0,
                    index=index,
                    total=total,
                    address=address,
                    boot_id=self._facts.live[address],
                    code_version=self._facts.abilities.code_versions.get(address),
                    message=self._explain(row, choice),
                    holds=self._room.count(job.id),
                )
            )
        return replace(zero, shards=shards)

    def _go(self, due: _Due, address: str, choice: Choice, total: int) -> Goes:
        row, job = due.row, due.job
        if (lane := self._room.lanes.get(job.id)) is not None:
            lane.send(row)
        if (waiting := self._room.waiting.get(job.id)) is not None:
            waiting.planned -= 1
            waiting.send(address)
        if choice.memory is not None:
            self._memories[job.id] = choice.memory
        boot_id, holds = self._facts.live[address], self._room.count(job.id)
        item = routed_trigger(
            row,
            job,
            app=self._facts.app,
            address=address,
            boot_id=boot_id,
            routed_at=self._facts.now_ms,
            script=due.script,
            holds_limits=holds is not None,
            epoch=self._facts.epoch,
        )
        if total != row.shard_total:
            item = replace(item, trigger=msgspec.structs.replace(item.trigger, shard_total=total))
        self._take(address, job.id)
        routed = transitions.Routed(
            run_id=row.id,
            address=address,
            boot_id=boot_id,
            message=self._explain(row, choice),
            code_version=self._facts.abilities.code_versions.get(address),
            holds=holds,
        )
        number = total if total != row.shard_total else None
        return Goes(item, routed, number, memory=choice.memory)

    def _take(self, address: str, job_id: int) -> None:
        """Count a run that is sent."""
        self._taken[address] += 1
        self._given.add((address, job_id))
        self._room.take(job_id)

    def _explain(self, row: PlannedRun, choice: Choice) -> Explanation:
        """Return how a run was routed; runs that are routed alike share one value."""
        words, wanted = choice.words, row.wanted_addresses
        code = None if isinstance(words, str) else words.code
        alike = (row.kind, row.starts, row.retries_left, wanted, code, str(words))
        if alike not in self._explanations:
            self._explanations[alike] = self._new_explanation(row, choice)
        return self._explanations[alike]

    def _new_explanation(self, row: PlannedRun, choice: Choice) -> Explanation:
        wanted = row.wanted_addresses
        named = (Why.WANTED(addresses=wanted),) if wanted else ()
        return explanation(
            Why.ROUTED(
                kind=KIND_WORDS[row.kind],
                attempt=row.starts + 1,
                left=row.retries_left,
                node=self._node,
                addresses=self._online,
                how=(*self._away, *named, *self._unhealthy, choice.words),
            )
        )

    # -- end --------------------------------------------------------------------------------------

    def _give_up(self, due: _Due, request: RouteRequest, choice: Choice) -> Decision:
        """End a run that no executor takes, or set its job aside while that is uncertain.

        An executor's answer is certain; silence or absence only after a while.
        """
        row = due.row
        answers = (request.probes or {}).values()
        if request.candidates and (not answers or any(answer.heard for answer in answers)):
            # An immediate retry would get the same answer.
            end = self._end(row, choice.words, least_wait_seconds=ANSWER_SECONDS)
        elif self._unseen_seconds(due, request) >= self._no_executor_seconds:
            end = replace(self._end(row, choice.words), is_missed=True)
        else:
            return Waits(row.job_id)
        return replace(end, explained=self._explain(row, choice))

    def _unseen_seconds(self, due: _Due, request: RouteRequest) -> float:
        """Return for how many seconds no executor that may take the run has been seen."""
        waited_seconds: float = (self._facts.now_ms - due.row.due_at) / 1000
        if waited_seconds < self._no_executor_seconds:
            return waited_seconds
        if request.candidates:  # they send heartbeats, but do not answer
            away = {address for _, address in self._roster.unreachable(self._facts.app)}
            is_unclear = not away.isdisjoint(request.candidates)
            return 0.0 if is_unclear else min(waited_seconds, self._roster.healthy_seconds)
        meant = request.wanted or self._facts.listed
        absent_seconds = self._roster.absent_seconds(self._facts.app, meant, due.need)
        return min(waited_seconds, absent_seconds)

    def _end_unroutable(self, row: PlannedRun, why: Words) -> Ends:
        return self._end(row, Why.NOT_ROUTABLE(why=why), least_wait_seconds=ANSWER_SECONDS)

    def _end(self, row: PlannedRun, why: Words, **limits: Any) -> Ends:
        return Ends(row, undelivered(row.id, why, self._facts.now_ms, **limits))


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


def _own_memory(job: JobToRun, memory: Memory | None) -> Memory | None:
    """Return the memory of the job's route; that of an added route is stored under its name."""
    if not memory or job.route in routes.BUILT_IN:
        return memory or None
    kept = memory.get("memory") if memory.get("route") == job.route else None
    return kept if isinstance(kept, dict) else None


def _as_kept(choice: Choice, route: str) -> Choice:
    if choice.memory is None:
        return choice
    return replace(choice, memory={"route": route, "memory": choice.memory})


def is_flow(row: PlannedRun, job: JobToRun | None, scripts: Mapping[int, Script | None]) -> bool:
    """Whether a run is that of a flow, and its job was not stopped."""
    if row.script_version is None or job is None or was_stopped(row, job):
        return False
    script = scripts.get(row.script_version)
    return script is not None and script.language == FLOW_TYPE.lower()


def decide_flow(
    job: JobToRun, rows: Sequence[PlannedRun], running: Iterable[Age], now_ms: int
) -> tuple[list[Decision], list[int]]:
    """Decide which runs of a flow open now; also return the running ones that they replace."""
    lane = ClusterLane(
        block=Block(job.block),
        most=max(1, job.concurrency),
        running=set(running),
        claimed={age_of(row) for row in rows},
    )
    covered = lane.covered()
    decisions: list[Decision] = []
    for row in rows:
        match lane.decide(row):
            case None:
                lane.send(row)
                decisions.append(Opens(row.id))
            case Wait():
                decisions.append(Waits(job.id))
            case Refuse():
                why = Why.FLOW_OUTDATED(id=lane.newest[1])
                if lane.block is Block.DISCARD_LATER:
                    why = Why.FLOW_RUNS(id=min(lane.running)[1])
                decisions.append(Ends(row, refused(row.id, why, now_ms)))
    return decisions, covered

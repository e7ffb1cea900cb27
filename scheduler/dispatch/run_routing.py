"""Decides about the runs of one claim, one after the other; it writes nothing.

The claimed run of a broadcast becomes one shard for each executor:

    0/0 PLANNED ──> 0/n ROUTED, and 1..n-1 inserted as ROUTED

The number of shards never changes afterwards: a retry of shard i stays i/n.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from warren.broker.reasons.codes import Why, Words
from warren.scheduler.completion import retry_policy
from warren.scheduler.completion.end import cancelled, refused
from warren.scheduler.dispatch.claim import ClaimFacts, ClaimOutcome, ClaimUsage, undelivered
from warren.scheduler.dispatch.route_resolver import RouteFailed, RouteResolver
from warren.scheduler.dispatch.workload import Workload
from warren.scheduler.jobs.script_cache import Script
from warren.scheduler.limits.room import FullLimit, LimitRoom, NeverFits
from warren.scheduler.limits.room import Refuse as ClusterRefuse
from warren.scheduler.limits.room import Wait as ClusterWait
from warren.scheduler.membership.catalogues import Need
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation
from warren.scheduler.routing.probe_answers import ANSWER_SECONDS, Candidates
from warren.scheduler.routing.probes import Undecided
from warren.scheduler.routing.routes import Asked, Choice, Route, RouteRequest
from warren.scheduler.triggers.messages import RoutedTrigger, routed_trigger
from warren.sql.explanation import Explanation
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.run_status import BY_SCHEDULE, Kind
from warren.sql.runs import transitions
from warren.sql.runs.run_rows import PlannedRun
from warren.sql.runs.ticks import Shard


def is_unexpanded(run: PlannedRun, job: JobToRun) -> bool:
    """Whether this claim still has to decide the number of shards.

    A first attempt was never routed, even if its job's route has changed since it was planned. The
    runs of a node of a flow may be shards already.
    """
    if job.route != Route.SHARDING_BROADCAST:
        return False
    return bool(run.shard_total == 0 or (run.attempt == 0 and run.kind != Kind.NODE))


def choices(request: RouteRequest) -> list[Choice]:
    """Return the destination of each shard, by its index."""
    total = len(request.candidates)
    return [
        Choice(address, Why.SHARD_OF(route=Route.SHARDING_BROADCAST, index=index, total=total))
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


class RunRouting:
    """The decisions of one claim.

    Args:
        facts: what to decide on.
        room: the limits that the runs' jobs take.

    """

    def __init__(
        self,
        context: NodeContext,
        facts: ClaimFacts,
        *,
        room: LimitRoom,
        roster: Roster,
        workload: Workload,
        resolver: RouteResolver,
    ) -> None:
        self.outcome = ClaimOutcome()
        self._facts = facts
        self._room = room
        self._node = context.node
        self._limits = context.limits
        self._no_executor_seconds = context.timeouts.no_executor
        self._roster = roster
        self._workload = workload
        self._resolver = resolver
        self._usage = ClaimUsage()
        #: Shards by the position of their trigger.
        self._without_id: dict[int, Shard] = {}
        self._online = ", ".join(facts.live)
        self._away = (Why.LISTED_AND_AWAY(addresses=", ".join(facts.away)),) if facts.away else ()
        self._unhealthy = tuple(
            Why.AILING(address=address, ailments=", ".join(issues).lower())
            for address, issues in sorted(facts.unhealthy.items())
        )
        self._explanations: dict[tuple[object, ...], Explanation] = {}
        self._among = Candidates(facts.app, facts.live, self._usage.runs, self._usage.jobs)

    def route(self, row: PlannedRun, job: JobToRun | None) -> None:
        """Decide about one run; `job` is None if it was deleted."""
        if job is None or retry_policy.was_stopped(row, job):
            why = Why.JOB_DELETED() if job is None else Why.JOB_STOPPED()
            self.outcome.ends.append(cancelled(row.id, why, self._facts.now_ms))
        elif self._is_crowded_out(row, job):
            self.outcome.ends.append(
                cancelled(row.id, Why.TOO_MANY_WAIT(n=job.max_waiting), self._facts.now_ms)
            )
            self.outcome.crowded.append(row)
        elif not self._may_go(row, job):
            return
        elif row.script_version is not None:
            self._route_script(row, job, row.script_version)
        else:
            self._route(_Due(row, job))

    def cover(self) -> None:
        """Decide which running runs to kill because newer ones replace them."""
        for lane in self._room.lanes.values():
            self.outcome.covered += lane.covered()

    def number_shards(self, take_ids: Callable[[int], list[int]]) -> None:
        """Assign ids to the shards of all broadcasts; all are reserved in one go."""
        if not self._without_id:
            return
        ids = take_ids(len(self._without_id))
        for (position, shard), run_id in zip(self._without_id.items(), ids, strict=True):
            item = self.outcome.triggers[position]
            trigger = msgspec.structs.replace(item.trigger, run_id=run_id)
            self.outcome.triggers[position] = replace(item, trigger=trigger)
            self.outcome.shards.append(replace(shard, run_id=run_id))

    def _is_crowded_out(self, row: PlannedRun, job: JobToRun) -> bool:
        """Return whether `max_waiting` runs already wait."""
        waiting = self._room.waiting.get(job.id)
        if waiting is None:
            return False
        if row.kind in BY_SCHEDULE and waiting.count >= job.max_waiting:
            return True
        waiting.planned += 1  # until it is sent
        return False

    def _may_go(self, row: PlannedRun, job: JobToRun) -> bool:
        """Whether its job's other runs and limits let a run go; if not, decide what happens."""
        lane = self._room.lanes.get(job.id)
        match None if lane is None else lane.decide(row):
            case ClusterRefuse(reason):
                self.outcome.ends.append(refused(row.id, reason, self._facts.now_ms))
                return False
            case ClusterWait(is_full=False):
                self.outcome.full_jobs[job.id] = None
                return False
        if self._has_limits_room(row, job):
            return True
        is_pressing = job.max_waiting > 0 or (lane is not None and not lane.queues)
        if is_pressing and job.id in self.outcome.full_limits:
            # Its later runs must be decided in time.
            del self.outcome.full_limits[job.id]
            self.outcome.full_jobs[job.id] = None
        return False

    def _has_limits_room(self, row: PlannedRun, job: JobToRun, runs: int = 1) -> bool:
        """Whether all limits of the job have room for `runs` more; if not, decide what happens."""
        match self._room.obstacle(job.id, runs):
            case NeverFits(why):
                self._end(row, why, may_retry=False)
            case FullLimit() as full:
                self.outcome.full_limits[job.id] = full
            case None:
                return True
        return False

    def _route_script(self, row: PlannedRun, job: JobToRun, version: int) -> None:
        """Route the run of a script, unless this claim has reached its limit on scripts."""
        scripts, usage = self._facts.scripts, self._usage
        if version not in scripts or usage.script_characters >= self._limits.script_characters:
            return  # it stays PLANNED
        script = scripts[version]
        if script is None:
            self._end(row, Why.SCRIPT_GONE())
            return
        before = len(self.outcome.triggers)
        self._route(_Due(row, job, script))
        copies = max(1, len(self.outcome.triggers) - before)
        usage.script_characters += len(script.source) * copies

    def _route(self, due: _Due) -> None:
        try:
            request = self._request(due)
            if request.candidates and is_unexpanded(due.row, due.job):
                self._broadcast(due, request)
                return
            choice = self._resolver.choose(due.row, due.job, request, self._facts)
        except RouteFailed as error:
            why = Why.NOT_ROUTABLE(why=error.why)
            self._end(due.row, why, least_wait_seconds=ANSWER_SECONDS)
            return
        match choice:
            case Undecided():
                self.outcome.undecided.append(choice)
            case Asked():
                self.outcome.asked.append(choice)
            case Choice(address=None):
                self._give_up(due, request, choice)
            case Choice() if self._has_room(choice.address or ""):
                self._send(due, choice, due.row.shard_total or 1)
            case _:
                self.outcome.full_jobs[due.job.id] = (self._facts.app_id, choice.address or "")

    def _request(self, due: _Due) -> RouteRequest:
        memory = self.outcome.memories.get(due.job.id) or self._facts.memories.get(due.job.id)
        return self._resolver.request(
            due.row, due.job, self._facts, memory, among=self._among, need=due.need
        )

    def _broadcast(self, due: _Due, request: RouteRequest) -> None:
        """Split a run into one shard per executor, once each of them has room."""
        total = len(request.candidates)
        if self.outcome.triggers and len(self.outcome.triggers) + total > self._limits.shards:
            return  # it stays PLANNED for the next claim
        if not all(self._has_room(address) for address in request.candidates):
            self.outcome.full_jobs[due.job.id] = None
            return
        if not self._has_limits_room(due.row, due.job, total):
            return
        first, *others = choices(request)
        zero = self._send(due, first, total)
        for index in range(1, total):
            shard = Shard(
                zero_id=due.row.id,
                run_id=0,
                index=index,
                total=total,
                address=request.candidates[index],
                boot_id=self._facts.live[request.candidates[index]],
                code_version=self._facts.abilities.code_versions.get(request.candidates[index]),
                message=self._explain(due.row, others[index - 1]),
                holds=self._room.count(due.job.id),
            )
            self._without_id[len(self.outcome.triggers)] = shard
            self._add(shard_trigger(zero, shard))

    def _send(self, due: _Due, choice: Choice, total: int) -> RoutedTrigger:
        row, address = due.row, choice.address or ""
        if (lane := self._room.lanes.get(row.job_id)) is not None:
            lane.send(row)
        if (waiting := self._room.waiting.get(row.job_id)) is not None:
            waiting.planned -= 1
            waiting.send(address)
        boot_id = self._facts.live[address]
        item = routed_trigger(
            row,
            due.job,
            app=self._facts.app,
            address=address,
            boot_id=boot_id,
            routed_at=self._facts.now_ms,
            script=due.script,
            holds_limits=self._room.count(due.job.id) is not None,
        )
        if total != row.shard_total:
            self.outcome.totals[row.id] = total
            trigger = msgspec.structs.replace(item.trigger, shard_total=total)
            item = replace(item, trigger=trigger)
        self._add(item)
        how = self._explain(row, choice)
        self.outcome.routed.append(
            transitions.Routed(
                run_id=row.id,
                address=address,
                boot_id=boot_id,
                message=how,
                code_version=self._facts.abilities.code_versions.get(address),
                holds=self._room.count(due.job.id),
            )
        )
        if choice.memory is not None:
            self.outcome.memories[due.job.id] = choice.memory
        return item

    def _add(self, item: RoutedTrigger) -> None:
        self.outcome.triggers.append(item)
        self._usage.add(item)
        self._room.take(item.trigger.job_id)

    def _has_room(self, address: str) -> bool:
        also = self._usage.runs[address]
        return self._workload.has_room(self._facts.app_id, address, also=also)

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
                kind=row.kind,
                attempt=row.starts + 1,
                left=row.retries_left,
                node=self._node,
                addresses=self._online,
                how=(*self._away, *named, *self._unhealthy, choice.words),
            )
        )

    def _give_up(self, due: _Due, request: RouteRequest, choice: Choice) -> None:
        """End a run that no executor takes, or set its job aside while that is uncertain.

        An executor's answer is certain; silence or absence only after a while.
        """
        row = due.row
        answers = (request.probes or {}).values()
        if request.candidates and (not answers or any(answer.heard for answer in answers)):
            least_wait_seconds = ANSWER_SECONDS  # an immediate retry would get the same answer
        elif self._unseen_seconds(due, request) >= self._no_executor_seconds:
            least_wait_seconds = 0.0
            self.outcome.missed.append(choice.words)
        else:
            self.outcome.full_jobs[row.job_id] = None
            return
        self.outcome.explained[row.id] = self._explain(row, choice)
        self._end(row, choice.words, least_wait_seconds=least_wait_seconds)

    def _unseen_seconds(self, due: _Due, request: RouteRequest) -> float:
        """Return for how long no executor that may take a run has been seen."""
        waited_seconds: float = (self._facts.now_ms - due.row.due_at) / 1000
        if waited_seconds < self._no_executor_seconds:
            return waited_seconds
        if request.candidates:  # they send heartbeats, but do not answer
            return min(waited_seconds, self._roster.healthy_seconds)
        meant = request.wanted or self._facts.listed
        absent_seconds = self._roster.absent_seconds(self._facts.app, meant, due.need)
        return min(waited_seconds, absent_seconds)

    def _end(self, row: PlannedRun, why: Words, **limits: Any) -> None:
        self.outcome.ends.append(undelivered(row.id, why, self._facts.now_ms, **limits))

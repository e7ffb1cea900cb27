"""Brings due runs to their executors: claim, route, commit, send.

PLANNED ──> ROUTED with address and boot  |  CANCELLED: its job is gone  |  stays PLANNED
            ├─> UNDELIVERED: no executor takes it
            └─> RUNNING: it is a flow, which needs no executor

A run stays PLANNED while its executor is full or offline, a limit that it takes is full, its route
waits for an answer, its app has just been paused, or nobody could send it in time and it is not
decided yet whether it runs.

A crash before the commit leaves the rows PLANNED; after it they are ROUTED with this scheduler's
name, and the rescuer of any scheduler sends them again with the same ids.

The claim of a flow's run holds the lock of the flow's job, so that two schedulers do not both find
that none of its runs is running.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages.values import NORMAL, Block
from warren.broker.reasons.codes import Why, Words
from warren.broker.turns import CLASSES
from warren.scheduler.alarms import skipped
from warren.scheduler.alarms.events import NO_TARGETS, AlarmTargets
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import End
from warren.scheduler.completion.retry_policy import was_stopped
from warren.scheduler.dispatch.claim import ClaimFacts, ClaimOutcome
from warren.scheduler.dispatch.confirmations import Confirmations
from warren.scheduler.dispatch.priorities import Peeked
from warren.scheduler.dispatch.route_resolver import RouteResolver
from warren.scheduler.dispatch.run_routing import RunRouting
from warren.scheduler.dispatch.workload import Workload
from warren.scheduler.jobs.script_cache import Script, Scripts
from warren.scheduler.limits.locks import LimitLocks
from warren.scheduler.limits.room import LimitRoom
from warren.scheduler.membership.roster import Roster
from warren.scheduler.membership.uptime import due_times
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation
from warren.scheduler.routing.probe_answers import UNDERWAY_SECONDS
from warren.scheduler.routing.probes import Probes
from warren.scheduler.routing.routes import Memory, memory_of_underway, underway
from warren.scheduler.triggers.messages import RoutedTrigger, rank_of
from warren.scheduler.triggers.publisher import TriggerPublisher
from warren.sql.jobs import history, job_rows, route_memory
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.limits import holds
from warren.sql.models.job_tables import FLOW_TYPE
from warren.sql.registry import uptimes
from warren.sql.run_status import LATE_MS, RunStatus
from warren.sql.runs import flow_nodes, queries, ticks, transitions
from warren.sql.runs.run_rows import PlannedRun

#: Orders the runs of a flow, as executors order those of a job: by tick, then by id.
Age: TypeAlias = tuple[int, int]


def is_flow(row: PlannedRun, scripts: Mapping[int, Script | None]) -> bool:
    script = scripts.get(row.script_version) if row.script_version is not None else None
    return script is not None and script.language == FLOW_TYPE.lower()


class FlowOpener:
    """Decides about the runs of flows in one claim.

    Args:
        completion: opens flows, and ends what follows at once.
        outcome: where the decisions go.
        now_ms: the time, in epoch milliseconds.

    """

    def __init__(self, completion: Completion, outcome: ClaimOutcome, now_ms: int) -> None:
        self._completion = completion
        self._outcome = outcome
        self._now_ms = now_ms

    def open(
        self, session: Session, rows: Sequence[PlannedRun], known: Mapping[int, JobToRun]
    ) -> None:
        """Open the flows that may run now; the others wait, or are refused."""
        held = job_rows.try_lock(session, {row.job_id for row in rows})
        running = flow_nodes.running(session, rows[0].app_id, held)
        opened: dict[int, PlannedRun] = {}
        for row in rows:
            if row.job_id not in held:
                continue  # somebody changes the job just now
            job, underway = known[row.job_id], running.setdefault(row.job_id, [])
            if job.block == Block.COVER_EARLY:
                self._drop_older(row, job, underway, opened)
            if len(underway) < max(1, job.concurrency):
                underway.append(_age(row))
                opened[row.id] = row
            else:
                self._block(session, row, job, underway)
        if opened:
            work = self._completion.flows.open(session, sorted(opened))
            tally = self._completion.carry_on(session, work)
            self._outcome.opened += opened
            self._outcome.ended += tally.ended

    def _drop_older(
        self, row: PlannedRun, job: JobToRun, underway: list[Age], opened: dict[int, PlannedRun]
    ) -> None:
        """Make room for a run by refusing older ones that this claim would open."""
        for age in sorted(underway):
            is_older = age < _age(row) and age[1] in opened
            if is_older and len(underway) >= max(1, job.concurrency):
                underway.remove(age)
                self._refuse(opened.pop(age[1]), Why.FLOW_OUTDATED(id=row.id))

    def _block(
        self, session: Session, row: PlannedRun, job: JobToRun, underway: Sequence[Age]
    ) -> None:
        """Decide about a run of a flow that has other runs running."""
        if job.block == Block.DISCARD_LATER:
            self._refuse(row, Why.FLOW_RUNS(id=underway[0][1]))
        elif job.block == Block.COVER_EARLY and _age(row) < max(underway):
            self._refuse(row, Why.FLOW_OUTDATED(id=max(underway)[1]))
        else:
            if job.block == Block.COVER_EARLY:
                covered = sorted(run_id for _, run_id in underway)
                transitions.request_kills(session, covered, now_ms=self._now_ms)
            self._outcome.full_jobs[job.id] = None

    def _refuse(self, row: PlannedRun, why: Words) -> None:
        self._outcome.ends.append(
            End(
                run_id=row.id,
                status=RunStatus.REFUSED,
                message=why,
                finished_at=self._now_ms,
                never_started=True,
            )
        )


def _age(row: PlannedRun) -> Age:
    return row.scheduled_at, row.id


#: How long before they are due runs are claimed: about as long as it takes until 200 can be sent.
AHEAD_MS = 40
UNDERWAY_MS = round(UNDERWAY_SECONDS * 1000)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Claim:
    """Locked runs, their jobs, and the facts for routing."""

    runs: Sequence[PlannedRun]
    jobs: Mapping[int, JobToRun]
    facts: ClaimFacts
    room: LimitRoom


@dataclass(frozen=True, kw_only=True)
class RunSender:
    """Sends the due runs of one scheduler."""

    context: NodeContext
    completion: Completion
    roster: Roster
    workload: Workload
    resolver: RouteResolver
    probes: Probes
    publisher: TriggerPublisher
    confirmations: Confirmations
    scripts: Scripts
    alarm_defaults: AlarmTargets = NO_TARGETS
    limits: LimitLocks = field(default_factory=LimitLocks)

    def send(self, run_ids: Sequence[int], facts: ClaimFacts, peeked: Peeked) -> list[ClaimOutcome]:
        """Send the runs that are still PLANNED and locked by nobody else.

        They were `peeked` at, which says whose turn it is. The facts may be those of a moment from
        now: nothing is sent before it. Added routes are user code, so they choose between a first
        and a second transaction.

        Raises:
            ValueError: one of the runs or jobs holds a value that no trigger can carry.

        """
        outcome = self._send(run_ids, facts, peeked)
        if not outcome.asked:
            return [outcome]
        decisions = self.resolver.decide(outcome.asked)
        facts = replace(facts, decisions=decisions)
        return [outcome, self._send(list(decisions), facts, peeked)]

    def _send(self, run_ids: Sequence[int], facts: ClaimFacts, peeked: Peeked) -> ClaimOutcome:
        """Claim runs, route them, commit, and publish their triggers."""
        waiting: Sequence[Sequence[int]] = ()

        def unit(session: Session) -> ClaimOutcome:
            nonlocal waiting
            claim = self._claim(session, run_ids, facts)
            in_turn: Sequence[PlannedRun] = claim.runs
            if peeked.turns is not None:
                waiting = _by_rank(claim)
                in_turn = _in_turn(claim, peeked.turns.shared(waiting, len(claim.runs)))
            outcome = self._route(session, claim, in_turn)
            self._store(session, outcome, claim)
            return outcome

        outcome = self.context.write_runs(unit, has_planned=_may_have_planned)
        if peeked.turns is not None:
            sent = [item.trigger.run_id for item in outcome.triggers]
            peeked.turns.serve(peeked.waiting or waiting, sent)
        committed_at = self.context.monotonic()
        if outcome.triggers:
            self._await(facts.now_ms)
        self.context.metrics.add(outcome.ended)
        self.context.metrics.skip(Counter(row.app_id for row in outcome.crowded))
        self._publish(outcome.triggers, facts.app_id, committed_at)
        self.resolver.ask(facts, outcome.undecided)
        if missed := outcome.missed:
            log.warning("runs_undelivered", app=facts.app, count=len(missed), reason=str(missed[0]))
        return outcome

    def _await(self, instant_ms: int) -> None:
        early_ms = instant_ms - self.context.now_ms()
        if early_ms > 0:  # more than AHEAD_MS if the clock has been set back
            time.sleep(min(early_ms, AHEAD_MS) / 1000)

    # -- claim ------------------------------------------------------------------------------------

    def _claim(self, session: Session, run_ids: Sequence[int], facts: ClaimFacts) -> _Claim:
        """Lock runs, and read their jobs and everything else that decides where they go."""
        rows = transitions.claim_to_send(
            session, list(run_ids), app_id=facts.app_id, now_ms=self._as_of(facts)
        )
        jobs_to_run = {
            job_id: job if job.route else job._replace(route=facts.route)
            for job_id, job in job_rows.for_runs(session, {row.job_id for row in rows}).items()
        }
        facts = replace(facts, now_ms=self._as_of(facts))
        rows = _in_time(session, rows, facts)
        facts = replace(
            facts,
            memories=self._recall(session, jobs_to_run.values(), facts.app) if rows else {},
            scripts=self.scripts.read(session, [row.script_version for row in rows]),
        )
        room = self.limits.lock(session, jobs_to_run, rows, facts.now_ms)
        return _Claim(rows, jobs_to_run, facts, room)

    def _as_of(self, facts: ClaimFacts) -> int:
        return max(facts.now_ms, self.context.now_ms())

    def _recall(
        self, session: Session, jobs_to_run: Iterable[JobToRun], app: str
    ) -> dict[int, Memory]:
        """Return what the routes of these jobs remember, locked until the transaction ends."""
        wanted = {job.id for job in jobs_to_run if self.resolver.needs_memory(job)}
        memories: dict[int, Memory] = dict(route_memory.lock(session, wanted)) if wanted else {}
        remembered = [run_id for memory in memories.values() for run_id in underway(memory)]
        if remembered:
            since_ms = self.context.now_ms() - UNDERWAY_MS
            sent = queries.underway(session, remembered, since_ms=since_ms)
            self.resolver.learn_underway(app, sent)
            for job_id in {job_id for job_id, memory in memories.items() if underway(memory)}:
                of_job = [run.id for run in sent if run.job_id == job_id]
                memories[job_id] = memory_of_underway(of_job)
        return memories

    # -- route ------------------------------------------------------------------------------------

    def _route(
        self, session: Session, claim: _Claim, in_turn: Sequence[PlannedRun]
    ) -> ClaimOutcome:
        """Decide about each run; only the runs of flows are written yet."""
        routing = RunRouting(
            self.context,
            claim.facts,
            room=claim.room,
            roster=self.roster,
            workload=self.workload,
            resolver=self.resolver,
        )
        flows: list[PlannedRun] = []
        routing.cover()
        for row in in_turn:
            job = claim.jobs.get(row.job_id)
            if job is not None and not was_stopped(row, job) and is_flow(row, claim.facts.scripts):
                flows.append(row)
            else:
                routing.route(row, job)
        if flows:
            opener = FlowOpener(self.completion, routing.outcome, claim.facts.now_ms)
            opener.open(session, flows, claim.jobs)
        routing.number_shards(lambda count: self.context.ids.take(session, count))
        return routing.outcome

    # -- commit -----------------------------------------------------------------------------------

    def _store(self, session: Session, outcome: ClaimOutcome, claim: _Claim) -> None:
        """Write the decisions, with one statement of each kind for all runs."""
        node, now_ms, room = self.context.node, claim.facts.now_ms, claim.room
        if outcome.routed:
            transitions.route(session, outcome.routed, node=node, now_ms=now_ms)
        ticks.number(session, outcome.totals)
        ticks.add(session, outcome.shards, node=node, now_ms=now_ms)
        if room.limits:
            sent = [(item.trigger.job_id, item.trigger.run_id) for item in outcome.triggers]
            holds.take(session, room.holds(sent), room.buckets())
        if outcome.covered:
            transitions.request_kills(session, outcome.covered, now_ms=now_ms)
        route_memory.store(session, outcome.memories)
        transitions.explain(session, outcome.explained)
        self._record_crowded(session, outcome.crowded, claim)
        if outcome.ends:
            outcome.ended += self.completion.end(session, outcome.ends).ended

    def _record_crowded(self, session: Session, rows: Sequence[PlannedRun], claim: _Claim) -> None:
        """Record due times that are skipped because too many runs of their jobs wait."""
        now_ms, skips = claim.facts.now_ms, []
        for row in rows:
            why = explanation(Why.TOO_MANY_WAIT(n=claim.jobs[row.job_id].max_waiting))
            tick = row.scheduled_at
            skips.append(history.skipped(row.job_id, tick, tick, count=1, why=why, now_ms=now_ms))
        if skips:
            history.record_skips(session, skips)
            skipped.add_crowded_alarms(session, skips, self.alarm_defaults, now_ms=now_ms)

    # -- send -------------------------------------------------------------------------------------

    def _publish(self, triggers: Sequence[RoutedTrigger], app_id: int, committed_at: float) -> None:
        """Publish triggers; `committed_at` is the monotonic time of the commit."""
        for item in triggers:
            self.workload.add(app_id, item.address)
        self.probes.note_sent(
            (
                (item.app, item.address, item.trigger.boot_id),
                item.trigger.job_id,
                item.trigger.run_id,
            )
            for item in triggers
        )
        if triggers:
            self.confirmations.add(self.publisher.send(triggers, decided_at=committed_at))


def _may_have_planned(outcome: ClaimOutcome) -> bool:
    return bool(outcome.ends or outcome.opened)


def _by_rank(claim: _Claim) -> Sequence[Sequence[int]]:
    """Return the runs of each class of priority, in the order of their due times."""
    ranks = {job.id: rank_of(job.priority) for job in claim.jobs.values()}
    by_rank: tuple[list[int], ...] = tuple([] for _ in CLASSES)
    for row in claim.runs:
        by_rank[ranks.get(row.job_id, NORMAL)].append(row.id)
    return by_rank


def _in_turn(claim: _Claim, run_ids: Iterable[int]) -> Sequence[PlannedRun]:
    rows = {row.id: row for row in claim.runs}
    return [rows[run_id] for run_id in run_ids]


def _in_time(session: Session, rows: list[PlannedRun], facts: ClaimFacts) -> list[PlannedRun]:
    """Return the runs that no downtime or pause made late; none during a downtime."""
    # Read after the clock: runs routed now precede the end of any downtime not recorded yet.
    sending = uptimes.sending_state(session, facts.app_id, facts.now_ms)
    if facts.now_ms - sending.until_ms > LATE_MS:
        return []
    late = due_times(sending.downtimes)
    return [row for row in rows if not any(span.covers(row) for span in late)] if late else rows

"""One claiming transaction: locks due runs, re-reads their jobs, routes them, writes the result.

    PLANNED ──> ROUTED with address and boot  |  CANCELLED: its job is gone  |  stays PLANNED
            └─> UNDELIVERED: no executor takes it

A run stays PLANNED while its executor is full or offline, its route waits for an answer, its app
has just been paused, or nobody could send it in time and it is not decided yet whether it runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from warren.scheduler.completion.completion import Completion
from warren.scheduler.dispatch import run_routing
from warren.scheduler.dispatch.claim import ClaimFacts, ClaimOutcome
from warren.scheduler.dispatch.route_resolver import RouteResolver
from warren.scheduler.dispatch.run_routing import RunRouting
from warren.scheduler.dispatch.workload import Workload
from warren.scheduler.jobs.script_cache import Scripts
from warren.scheduler.membership.roster import Roster
from warren.scheduler.membership.uptime import due_times
from warren.scheduler.node_context import NodeContext
from warren.scheduler.routing.built_in_routes import memory_of_underway, underway
from warren.scheduler.routing.choice import Memory
from warren.scheduler.routing.probe_answers import UNDERWAY_SECONDS
from warren.sql.jobs import jobs, route_memory
from warren.sql.jobs.jobs import JobToRun
from warren.sql.registry import uptimes
from warren.sql.run_status import LATE_MS
from warren.sql.runs import queries, transitions
from warren.sql.runs.run_rows import PlannedRun

UNDERWAY_MS = round(UNDERWAY_SECONDS * 1000)


class Claimer:
    """Claims runs for one scheduler."""

    def __init__(
        self,
        context: NodeContext,
        *,
        completion: Completion,
        roster: Roster,
        workload: Workload,
        resolver: RouteResolver,
    ) -> None:
        self._context = context
        self._completion = completion
        self._roster = roster
        self._workload = workload
        self._resolver = resolver
        self._scripts = Scripts()

    def claim(self, run_ids: Sequence[int], facts: ClaimFacts) -> ClaimOutcome:
        """Route those of these runs that are still PLANNED and locked by nobody else.

        Raises:
            ValueError: one of the runs or jobs holds a value that no trigger can carry.

        """
        outcome = self._context.write_runs(
            lambda session: self._claim(session, run_ids, facts),
            has_planned=lambda outcome: outcome.ends,
        )
        self._context.metrics.add(outcome.ended)
        return outcome

    def _claim(self, session: Session, run_ids: Sequence[int], facts: ClaimFacts) -> ClaimOutcome:
        rows = transitions.claim_to_send(
            session, list(run_ids), app_id=facts.app_id, now_ms=self._context.now_ms()
        )
        found = {
            job_id: job if job.route else job._replace(route=facts.route)
            for job_id, job in jobs.for_runs(session, {row.job_id for row in rows}).items()
        }
        now_ms = self._context.now_ms()
        # Read after the clock: what is routed at this instant was routed before a downtime could
        # end that is not recorded yet.
        sending = uptimes.sending_state(session, facts.app_id, now_ms)
        if now_ms - sending.until_ms > LATE_MS:
            return ClaimOutcome()
        if late := due_times(sending.downtimes):
            rows = [row for row in rows if not any(span.covers(row) for span in late)]
        facts = replace(
            facts,
            now_ms=now_ms,
            memories=self._recall(session, found.values(), facts.app),
            scripts=self._scripts.read(session, [row.script_version for row in rows]),
        )
        outcome = self._decide(session, rows, found, facts)
        self._write(session, outcome, facts.now_ms)
        return outcome

    def _recall(self, session: Session, found: Iterable[JobToRun], app: str) -> dict[int, Memory]:
        """Return what the routes of these jobs remember, locked until the transaction ends."""
        wanted = {job.id for job in found if self._resolver.needs_memory(job)}
        memories: dict[int, Memory] = dict(route_memory.lock(session, wanted)) if wanted else {}
        remembered = [run_id for one in memories.values() for run_id in underway(one)]
        if remembered:
            since_ms = self._context.now_ms() - UNDERWAY_MS
            sent = queries.underway(session, remembered, since_ms=since_ms)
            self._resolver.learn_underway(app, sent)
            for job_id in {job_id for job_id, one in memories.items() if underway(one)}:
                of_job = [run.id for run in sent if run.job_id == job_id]
                memories[job_id] = memory_of_underway(of_job)
        return memories

    def _decide(
        self,
        session: Session,
        rows: Sequence[PlannedRun],
        found: dict[int, JobToRun],
        facts: ClaimFacts,
    ) -> ClaimOutcome:
        routing = RunRouting(
            self._context,
            facts,
            roster=self._roster,
            workload=self._workload,
            resolver=self._resolver,
            take_ids=lambda count: self._context.ids.take(session, count),
        )
        for row in rows:
            routing.route(row, found.get(row.job_id))
        return routing.outcome

    def _write(self, session: Session, outcome: ClaimOutcome, now_ms: int) -> None:
        node = self._context.node
        if outcome.routed:
            transitions.route(session, outcome.routed, node=node, now_ms=now_ms)
        run_routing.write(session, outcome.totals, outcome.shards, node=node, now_ms=now_ms)
        route_memory.store(session, outcome.memories)
        transitions.explain(session, outcome.explained)
        if outcome.ends:
            outcome.ended = self._completion.end(session, outcome.ends).ended

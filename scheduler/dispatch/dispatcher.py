"""Brings due runs to their executors, app by app.

    peek (no locks) -> claim (SKIP LOCKED) -> decide and route -> commit -> publish

PLANNED ──> ROUTED with address and boot  |  CANCELLED: its job is gone  |  stays PLANNED
            ├─> UNDELIVERED: no executor takes it
            └─> RUNNING: it is a flow, which needs no executor

A run stays PLANNED while its executor is full or offline, a limit that it takes is full, its route
waits for an answer, its app has just been paused, or nobody could send it in time and it is not
decided yet whether it runs.

If nothing is due, the next runs are claimed shortly before their due time, routed as of that time,
and published then.

A crash before the commit leaves the rows PLANNED; after it they are ROUTED with this scheduler's
name, and the rescuer of any scheduler sends them again with the same ids.

The claim of a flow's run holds the lock of the flow's job, so that two schedulers do not both find
that none of its runs is running.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from random import Random
from typing import TypeVar

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages import NORMAL
from warren.broker.reasons import Why
from warren.broker.turns import CLASSES
from warren.scheduler.alarms import skipped
from warren.scheduler.alarms.events import NO_TARGETS, AlarmTargets
from warren.scheduler.completion.completion import Completion, RunEnder
from warren.scheduler.dispatch.decisions import (
    FULL_SECONDS,
    ClaimFacts,
    Decision,
    Ends,
    Goes,
    Opens,
    RunDecisions,
    Waits,
    Workload,
    decide_flow,
    is_flow,
    shard_trigger,
    undelivered,
)
from warren.scheduler.dispatch.peeks import JobsLeftOut, Peeked, Peeks
from warren.scheduler.jobs.script_cache import Scripts
from warren.scheduler.limits import Age, FullLimit, LimitLocks, LimitRoom, count_going, is_limited
from warren.scheduler.membership.registration import AppSettings
from warren.scheduler.membership.roster import Roster
from warren.scheduler.membership.uptime import SendingUptime, due_times
from warren.scheduler.metrics import Ended
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation, fault_of
from warren.scheduler.rounds import bisect
from warren.scheduler.routing import routes
from warren.scheduler.routing.probes import UNDERWAY_SECONDS, Probes, Undecided
from warren.scheduler.routing.routes import Asked, Memory, Router
from warren.scheduler.triggers import Confirmations, RoutedTrigger, TriggerPublisher, rank_of
from warren.sql import limits
from warren.sql.errors import DatabaseUnavailable
from warren.sql.jobs import history, job_rows
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.models.job_tables import DEFAULT_ROUTE
from warren.sql.registry import uptimes
from warren.sql.run_status import LATE_MS
from warren.sql.runs import due_runs, flow_nodes, queries, ticks, transitions
from warren.sql.runs.run_rows import PlannedRun
from warren.sql.runs.ticks import Shard

#: Runs claimed in one transaction at first; doubled each time while there are more. A transaction
#: takes as much time as the 200 runs in it: in smaller ones, most of a burst would leave later.
INITIAL_BATCH = 200
#: How long before they are due runs are claimed: about as long as it takes until 200 can be sent.
AHEAD_MS = 40
#: Waits: when nothing is due, and when other schedulers hold the runs that were found.
IDLE_SECONDS = 0.5
CONTENDED_SECONDS = (0.005, 0.02)
#: This many runs in flight keep an executor busy for a while, even if they do nothing. When a few
#: runs filled executors that are busy anyway, the dispatcher waits, and the next batch is larger:
#: otherwise a long storm took 8 % longer.
STOCK = 1_000
STOCKED_SECONDS = 0.2
UNDERWAY_MS = round(UNDERWAY_SECONDS * 1000)

log = structlog.get_logger()

D = TypeVar("D", Goes, Ends, Opens, Waits)


@dataclass(frozen=True, slots=True)
class _Turn:
    """An app in a round, with its boots by address.

    Runs that are due by `until_ms` may be sent: as many as its executors have `room` for, up to
    the size of a batch.
    """

    app_id: int
    app: str
    live: dict[str, str]
    until_ms: int
    room: int


@dataclass(frozen=True, slots=True)
class _Claim:
    """Locked runs, their jobs, and what to decide on.

    `room` is that of the limits they take. `running` are the runs of flows that are running, by the
    flow, of those that nobody is changing.
    """

    facts: ClaimFacts
    runs: Sequence[PlannedRun]
    jobs: Mapping[int, JobToRun]
    room: LimitRoom
    running: Mapping[int, Sequence[Age]]


@dataclass(frozen=True, slots=True)
class _Committed:
    """A claim and its decisions; `ended` is what metrics count of the runs that ended."""

    claim: _Claim
    decisions: Sequence[Decision]
    triggers: Sequence[RoutedTrigger]
    ended: Sequence[Ended]


class Dispatcher:
    """Sends due runs.

    Args:
        uptime: is told whether this dispatcher can send, and knows which runs are too late to send.
        settings: where the runs of apps may go.
        routers: all known routes.
        alarm_defaults: targets of alarms about skipped due times, for jobs without their own.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        completion: Completion,
        ender: RunEnder,
        roster: Roster,
        settings: AppSettings,
        workload: Workload,
        uptime: SendingUptime,
        probes: Probes,
        routers: Mapping[str, Router],
        publisher: TriggerPublisher,
        confirmations: Confirmations,
        alarm_defaults: AlarmTargets = NO_TARGETS,
    ) -> None:
        self._context = context
        self._completion = completion
        self._ender = ender
        self._roster = roster
        self._settings = settings
        self._workload = workload
        self._uptime = uptime
        self._probes = probes
        self._routers = routers
        self._publisher = publisher
        self._confirmations = confirmations
        self._alarm_defaults = alarm_defaults
        self._random = Random()  # noqa: S311 - spreads load
        self._scripts = Scripts(turns=lambda: context.ids.turns)
        self._locks = LimitLocks()
        self.left_out = JobsLeftOut(
            context, probes, lambda place: workload.room(place[0], [place[1]])
        )
        self.peeks = Peeks(context, self.left_out, uptime, settings)
        self._batches: dict[int, int] = {}
        self._flows_at: dict[int, float] = {}
        self._has_counted = False

    def run_round(self, now_ms: int) -> float:
        """Send what is due and return the seconds until the next due run; 0 means there is more."""
        began_at = self._context.monotonic()
        if not self._publisher.is_open:
            self._uptime.note(able=False)
            return IDLE_SECONDS
        if not self._confirmations.wait_for_room(IDLE_SECONDS):
            return 0
        if not self._has_counted:
            # Another version may have sent runs without recording the limits they hold.
            self._count_going(now_ms)
            self._has_counted = True
        due = self._context.database.read(lambda session: self.peeks.next_due(session, now_ms))
        is_everything_held = self.peeks.pauses.is_everything_held
        self._uptime.note(able=not is_everything_held)
        if is_everything_held:
            return IDLE_SECONDS
        self.left_out.readmit()
        # Waiting for a due time would delay runs that are due already.
        ahead_ms = AHEAD_MS if min(due.values(), default=0) > now_ms else 0
        waits = [
            self._dispatch_app(app_id, due_at)
            for app_id, due_at in sorted(due.items(), key=itemgetter(1))
            if due_at <= now_ms + ahead_ms
        ]
        wait_seconds = min(waits, default=IDLE_SECONDS)
        later = [due_at - ahead_ms for due_at in due.values() if due_at > now_ms + ahead_ms]
        if later:
            until_due = (min(later) - now_ms) / 1000 - (self._context.monotonic() - began_at)
            wait_seconds = min(wait_seconds, max(0.0, until_due))
        return min(wait_seconds, self.left_out.seconds_left())

    def rest(self) -> float:
        """Skip a round in which nothing is due, but record whether runs could be sent."""
        self._uptime.note(able=self._publisher.is_open)
        return IDLE_SECONDS

    def _count_going(self, now_ms: int) -> None:
        database = self._context.database
        going = database.read(
            lambda session: job_rows.for_runs(session, limits.jobs_going(session))
        )
        if limited := [job for job in going.values() if is_limited(job)]:
            database.write(lambda session: count_going(session, limited, now_ms=now_ms))

    # -- peek -------------------------------------------------------------------------------------

    def _dispatch_app(self, app_id: int, due_at: int) -> float:
        """Send one batch for an app, not before `due_at`; return the seconds until the next try."""
        app = self._context.app_names.name_of(app_id)
        if app is None:
            return IDLE_SECONDS
        self._uptime.note(able=True)
        if not self._uptime.is_valid:
            self._uptime.keep(self._context.now_ms)
        live = self._roster.routable(app)
        batch = self._batches.get(app_id, INITIAL_BATCH)
        room = min(batch, self._workload.room(app_id, live)) if live else batch
        turn = _Turn(app_id, app, live, self._until_ms(app, live, due_at), room)
        waited: list[Decision] = []
        peeked = Peeked()
        if room > 0 and turn.until_ms > 0:
            waited = self._send_ready(turn)
            peeked = self.peeks.due(app_id, turn.until_ms, room)
        if not peeked.run_ids and not (live and room > 0):
            early_ms = due_at - self._context.now_ms()
            if early_ms > 0:
                return early_ms / 1000  # flows are opened then, not before
            peeked = self._peek_at_flows(app_id, batch)
        found = len(peeked.run_ids)
        most = self._context.limits.runs
        self._batches[app_id] = min(2 * batch, most) if found == batch else INITIAL_BATCH
        return self._wait_seconds(turn, found, self._send(turn, peeked), waited)

    def _wait_seconds(
        self, turn: _Turn, found: int, decisions: list[Decision], waited: list[Decision]
    ) -> float:
        """Return the seconds until the next try, after a peek that found this many runs.

        `waited` was decided about runs that had waited for limits.
        """
        reasons = [wait.on for wait in of_kind(Waits, [*decisions, *waited])]
        # Jobs that just found a limit full are left out now, so the next peek finds others.
        has_found = any(isinstance(wait.on, FullLimit) for wait in of_kind(Waits, decisions))
        is_undecided = any(isinstance(reason, Undecided) for reason in reasons)
        if has_found or is_undecided or (waited and self.left_out.ready(turn.app_id)):
            return 0
        if any(isinstance(decision, Goes | Ends | Opens) for decision in decisions):
            is_full = found == turn.room < INITIAL_BATCH
            return STOCKED_SECONDS if is_full and self._are_stocked(turn) else 0
        if any(reason is None or isinstance(reason, tuple) for reason in reasons):
            return FULL_SECONDS
        return self._random.uniform(*CONTENDED_SECONDS) if found else self._idle_seconds(turn)

    def _until_ms(self, app: str, live: Mapping[str, str], due_at: int) -> int:
        """Return the latest due time of the runs to claim; 0 = none are.

        While no executor is online, only runs that have waited too long are claimed, to be given
        up.
        """
        if live:
            return max(self._context.now_ms(), due_at)
        no_executor_seconds = self._context.timeouts.no_executor
        if self._roster.absent_seconds(app) < no_executor_seconds:
            return 0
        return self._context.now_ms() - int(no_executor_seconds * 1000)

    def _peek_at_flows(self, app_id: int, limit: int) -> Peeked:
        """Return an app's due flows, from time to time, while its executors take nothing."""
        now = self._context.monotonic()
        if now - self._flows_at.get(app_id, 0) < IDLE_SECONDS:
            return Peeked()
        self._flows_at[app_id] = now
        return self.peeks.flows(app_id, limit)

    def _are_stocked(self, turn: _Turn) -> bool:
        """Return whether all executors have enough runs to stay busy for a while."""
        in_flight = self._workload.in_flight(turn.app_id, turn.live)
        return all(runs >= STOCK for runs in in_flight.values())

    def _idle_seconds(self, turn: _Turn) -> float:
        """Return the seconds until the next try after a peek that found nothing."""
        if not turn.live:
            return IDLE_SECONDS
        if turn.room <= 0 or self.left_out.not_for_limits():
            return FULL_SECONDS
        if self.left_out.for_limits:
            return self.peeks.seconds_until_next(turn.app_id, turn.until_ms, IDLE_SECONDS)
        return self._random.uniform(*CONTENDED_SECONDS)

    def _send_ready(self, turn: _Turn) -> list[Decision]:
        """Send runs that waited for limits which now have room; return what was decided."""
        decisions: list[Decision] = []
        room = turn.room
        for ready in self.left_out.ready(turn.app_id):
            most = min(room, ready.runs)
            if most <= 0:
                break
            peeked = self.peeks.due(turn.app_id, turn.until_ms, most, of_jobs=ready.job_ids)
            if len(peeked.run_ids) < most:
                self.left_out.release(ready.job_ids)  # no more of them wait than these
            decided = self._send(turn, peeked)
            count = sum(1 + len(goes.shards) for goes in of_kind(Goes, decided))
            self.left_out.take(ready.limit_id, count)
            room -= count
            decisions += decided
        return decisions

    def _send(self, turn: _Turn, peeked: Peeked) -> list[Decision]:
        """Claim and send runs; a run that makes a claim fail ends, or its job is left out."""
        decisions: list[Decision] = []

        def send(run_ids: Sequence[int]) -> None:
            facts = self._facts(turn)
            decided = self._claim_and_send(run_ids, facts, peeked, turn.room)
            decisions.extend(decided)
            # Added routes are user code, so they choose between a first and a second transaction.
            if asked := [
                on for wait in of_kind(Waits, decided) if isinstance(on := wait.on, Asked)
            ]:
                chosen = routes.decide(asked, self._routers, self._random)
                facts = replace(facts, chosen=chosen)
                decisions.extend(self._claim_and_send(list(chosen), facts, peeked, turn.room))

        bisect(peeked.run_ids, send, self._put_aside)
        return decisions

    def _put_aside(self, run_id: int, error: Exception) -> None:
        """End a run that cannot be routed, so that it does not block the others."""
        words = fault_of(error)
        job_id = self._context.database.read(lambda session: due_runs.job_of(session, run_id))
        log.error("run_not_routable", run_id=run_id, job_id=job_id, error=words)
        end = undelivered(run_id, Why.NOT_ROUTABLE(why=words), self._context.now_ms())
        try:
            self._ender.end([end])
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("run_not_ended", run_id=run_id, job_id=job_id)
            if job_id is not None:
                self.left_out.put_broken(job_id)

    def _facts(self, turn: _Turn) -> ClaimFacts:
        """Return what is known now of an app, or at the due time that is waited for."""
        listed, route, _ = self._settings(turn.app_id)
        live = turn.live
        return ClaimFacts(
            app_id=turn.app_id,
            app=turn.app,
            now_ms=max(self._context.now_ms(), turn.until_ms),
            live=live,
            addresses=tuple(executor for executor in listed if executor in live)
            if listed
            else tuple(live),
            listed=listed,
            away=tuple(executor for executor in listed if executor not in live),
            in_flight=self._workload.in_flight(turn.app_id, live),
            abilities=self._roster.abilities(turn.app),
            route=route or DEFAULT_ROUTE,
            unhealthy=self._roster.hindered(turn.app),
            epoch=self._context.database.epoch,
        )

    # -- claim ------------------------------------------------------------------------------------

    def _claim_and_send(
        self, run_ids: Sequence[int], facts: ClaimFacts, peeked: Peeked, peek_limit: int
    ) -> Sequence[Decision]:
        """Claim the runs that are still PLANNED, decide, commit, and publish triggers.

        The facts may be those of a moment from now: nothing is sent before it.

        Raises:
            ValueError: one of the runs or jobs holds a value that no trigger can carry.

        """

        def unit(session: Session) -> _Committed:
            claim = self._claim(session, run_ids, facts)
            decisions, covered = self._decide(claim, peeked)
            return self._commit(session, claim, decisions, covered)

        committed = self._context.write_runs(unit, has_planned=_may_have_planned)
        committed_at = self._context.monotonic()
        if peeked.turns is not None:
            sent = [item.trigger.run_id for item in committed.triggers]
            peeked.turns.serve(peeked.waiting or _by_rank(committed.claim), sent)
        if committed.triggers:
            self._await(facts.now_ms)
        self._publish(committed, committed_at)
        waits = of_kind(Waits, committed.decisions)
        undecided = [on for wait in waits if isinstance(on := wait.on, Undecided)]
        self._probes.ask(facts.app, facts.live, undecided, facts.now_ms)
        self.left_out.put(facts.app_id, waits, peek_limit=peek_limit)
        return committed.decisions

    def _claim(self, session: Session, run_ids: Sequence[int], facts: ClaimFacts) -> _Claim:
        """Lock runs, and read their jobs and everything else that decides where they go."""
        rows = transitions.claim_to_send(
            session, list(run_ids), app_id=facts.app_id, now_ms=self._as_of(facts)
        )
        jobs = {
            job_id: job if job.route else job._replace(route=facts.route)
            for job_id, job in job_rows.for_runs(session, {row.job_id for row in rows}).items()
        }
        facts = replace(facts, now_ms=self._as_of(facts))
        rows = _in_time(session, rows, facts)
        facts = replace(
            facts,
            memories=self._recall(session, jobs.values(), facts.app) if rows else {},
            scripts=self._scripts.read(session, [row.script_version for row in rows]),
        )
        room = self._locks.lock(session, jobs, rows, facts.now_ms)
        flows = {row.job_id for row in rows if is_flow(row, jobs.get(row.job_id), facts.scripts)}
        running: dict[int, list[Age]] = {}
        if flows:
            held = job_rows.try_lock(session, flows)
            underway = flow_nodes.running(session, facts.app_id, held)
            running = {job_id: underway.get(job_id, []) for job_id in held}
        return _Claim(facts, rows, jobs, room, running)

    def _as_of(self, facts: ClaimFacts) -> int:
        return max(facts.now_ms, self._context.now_ms())

    def _recall(self, session: Session, jobs: Iterable[JobToRun], app: str) -> dict[int, Memory]:
        """Return what the routes of these jobs remember, locked until the transaction ends."""
        wanted = {
            job.id
            for job in jobs
            if (router := self._routers.get(job.route)) is not None and router.needs_memory
        }
        memories: dict[int, Memory] = (
            dict(job_rows.lock_route_memories(session, wanted)) if wanted else {}
        )
        remembered = [run_id for memory in memories.values() for run_id in routes.underway(memory)]
        if remembered:
            since_ms = self._context.now_ms() - UNDERWAY_MS
            sent = queries.underway(session, remembered, since_ms=since_ms)
            self._probes.learn_sent(
                ((app, run.address, run.boot_id), run.job_id, run.id) for run in sent
            )
            for job_id in {
                job_id for job_id, memory in memories.items() if routes.underway(memory)
            }:
                of_job = [run.id for run in sent if run.job_id == job_id]
                memories[job_id] = routes.memory_of_underway(of_job)
        return memories

    # -- decide -----------------------------------------------------------------------------------

    def _decide(self, claim: _Claim, peeked: Peeked) -> tuple[list[Decision], list[int]]:
        """Decide about each run; also return the running ones that newer ones replace."""
        runs = RunDecisions(
            self._context,
            claim.facts,
            room=claim.room,
            roster=self._roster,
            workload=self._workload,
            probes=self._probes,
            routers=self._routers,
            random=self._random,
        )
        covered = [run_id for lane in claim.room.lanes.values() for run_id in lane.covered()]
        in_turn = claim.runs
        if peeked.turns is not None:
            rows = {row.id: row for row in claim.runs}
            shared = peeked.turns.shared(_by_rank(claim), len(rows))
            in_turn = [rows[run_id] for run_id in shared]
        decisions: list[Decision] = []
        flows: dict[int, list[PlannedRun]] = defaultdict(list)
        for row in in_turn:
            job = claim.jobs.get(row.job_id)
            if is_flow(row, job, claim.facts.scripts):
                flows[row.job_id].append(row)
            elif (decision := runs.decide(row, job)) is not None:
                decisions.append(decision)
        for job_id, running in claim.running.items():
            job = claim.jobs[job_id]
            decided, replaced = decide_flow(job, flows[job_id], running, claim.facts.now_ms)
            decisions += decided
            covered += replaced
        return decisions, covered

    # -- commit -----------------------------------------------------------------------------------

    def _commit(
        self,
        session: Session,
        claim: _Claim,
        decisions: Sequence[Decision],
        covered: Sequence[int],
    ) -> _Committed:
        """Write the decisions, with one statement of each kind for all runs."""
        node, now_ms, room = self._context.node, claim.facts.now_ms, claim.room
        goes, ends = of_kind(Goes, decisions), of_kind(Ends, decisions)
        ended: list[Ended] = []
        if opened := sorted(flow.run_id for flow in of_kind(Opens, decisions)):
            work = self._completion.flows.open(session, opened)
            ended += self._completion.carry_on(session, work).ended
        triggers, shards = self._triggers(session, goes)
        if goes:
            transitions.route(session, [run.routed for run in goes], node=node, now_ms=now_ms)
        totals = {run.routed.run_id: run.total for run in goes if run.total is not None}
        ticks.number(session, totals)
        ticks.add(session, shards, node=node, now_ms=now_ms)
        if room.limits:
            sent = [(item.trigger.job_id, item.trigger.run_id) for item in triggers]
            limits.take(session, room.holds(sent), room.buckets())
        if covered:
            transitions.request_kills(session, covered, now_ms=now_ms)
        memories = {run.item.trigger.job_id: run.memory for run in goes if run.memory is not None}
        job_rows.store_route_memories(session, memories)
        explained = {run.row.id: run.explained for run in ends if run.explained is not None}
        transitions.explain(session, explained)
        self._record_crowded_out(session, ends, now_ms)
        if ends:
            ended += self._completion.end(session, [run.end for run in ends]).ended
        return _Committed(claim, decisions, triggers, ended)

    def _triggers(
        self, session: Session, goes: Sequence[Goes]
    ) -> tuple[list[RoutedTrigger], list[Shard]]:
        """Return what is sent; the ids of all shards are reserved in one go."""
        count = sum(len(run.shards) for run in goes)
        ids = iter(self._context.ids.take(session, count) if count else ())
        triggers: list[RoutedTrigger] = []
        shards: list[Shard] = []
        for run in goes:
            numbered = [replace(shard, run_id=next(ids)) for shard in run.shards]
            triggers += [run.item, *(shard_trigger(run.item, shard) for shard in numbered)]
            shards += numbered
        return triggers, shards

    def _record_crowded_out(self, session: Session, ends: Sequence[Ends], now_ms: int) -> None:
        """Record due times that are skipped because too many runs of their jobs already wait."""
        skips = []
        for run in ends:
            if run.is_crowded_out:
                tick, why = run.row.scheduled_at, explanation(run.end.message)
                skips.append(
                    history.skipped(run.row.job_id, tick, tick, count=1, why=why, now_ms=now_ms)
                )
        if skips:
            history.record_skips(session, skips)
            skipped.add_crowded_alarms(session, skips, self._alarm_defaults, now_ms=now_ms)

    # -- publish ----------------------------------------------------------------------------------

    def _await(self, instant_ms: int) -> None:
        early_ms = instant_ms - self._context.now_ms()
        if early_ms > 0:  # more than AHEAD_MS if the clock has been set back
            time.sleep(min(early_ms, AHEAD_MS) / 1000)

    def _publish(self, committed: _Committed, committed_at: float) -> None:
        """Publish triggers, and count what ended; `committed_at` is monotonic seconds."""
        facts, triggers = committed.claim.facts, committed.triggers
        ends = of_kind(Ends, committed.decisions)
        self._context.metrics.add(committed.ended)
        self._context.metrics.skip(Counter(run.row.app_id for run in ends if run.is_crowded_out))
        for item in triggers:
            self._workload.add(facts.app_id, item.address)
        self._probes.note_sent(
            (
                (item.app, item.address, item.trigger.boot_id),
                item.trigger.job_id,
                item.trigger.run_id,
            )
            for item in triggers
        )
        if triggers:
            self._confirmations.add(self._publisher.send(triggers, decided_at=committed_at))
        if missed := [run.end.message for run in ends if run.is_missed]:
            log.warning("runs_undelivered", app=facts.app, count=len(missed), reason=str(missed[0]))


def of_kind(kind: type[D], decisions: Iterable[Decision]) -> list[D]:
    return [decision for decision in decisions if isinstance(decision, kind)]


def _may_have_planned(committed: _Committed) -> bool:
    return any(isinstance(decision, Ends | Opens) for decision in committed.decisions)


def _by_rank(claim: _Claim) -> Sequence[Sequence[int]]:
    """Return the runs of each class of priority, in the order of their due times."""
    ranks = {job.id: rank_of(job.priority) for job in claim.jobs.values()}
    by_rank: tuple[list[int], ...] = tuple([] for _ in CLASSES)
    for row in claim.runs:
        by_rank[ranks.get(row.job_id, NORMAL)].append(row.id)
    return by_rank


def _in_time(session: Session, rows: list[PlannedRun], facts: ClaimFacts) -> list[PlannedRun]:
    """Return the runs that no downtime or pause made late; none during a downtime."""
    # Read after the clock: runs routed now precede the end of any downtime not recorded yet.
    sending = uptimes.sending_state(session, facts.app_id, facts.now_ms)
    if facts.now_ms - sending.until_ms > LATE_MS:
        return []
    late = due_times(sending.downtimes)
    return [row for row in rows if not any(span.covers(row) for span in late)] if late else rows

"""Ends runs and plans what follows, in one transaction: `Completion.end` has the steps.

Every final state is entered here, except when a changed schedule cancels planned runs.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from warren.broker.messages import Called
from warren.broker.reasons import Words, from_json
from warren.scheduler.alarms.events import NO_TARGETS, AlarmTargets
from warren.scheduler.completion.calls import CallPlanner, ReportedCall
from warren.scheduler.completion.end import End
from warren.scheduler.completion.flow_runs import FlowRuns, FlowWork, NodeOfFlow, is_flow
from warren.scheduler.completion.follow_ups import FollowUps, store_alarms
from warren.scheduler.completion.retry_policy import (
    NO_FAILURE,
    is_withdrawn,
    late_redelivery,
    next_attempt,
    with_node_retry,
)
from warren.scheduler.completion.transition import (
    Judged,
    SimpleSuccess,
    Won,
    complete_by_row,
    complete_simple_successes,
)
from warren.scheduler.metrics.run_counts import Ended
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds.loop import ROOM_IN_LIMITS
from warren.sql.ids import RunIds
from warren.sql.jobs import job_rows
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.run_status import RunStatus
from warren.sql.runs import calls, planning, reruns, ticks
from warren.sql.runs.run_rows import FailedRun, LockedRun


@dataclass(slots=True, kw_only=True)
class Tally:
    """The results of reported ends, as run ids; `planned` are new attempts and children's runs.

    `ignored` came too late, or a second time. `not_theirs` were reported by an executor to which
    they were not routed. `others` are of other runs that had these ids. `freed` counts those of
    `won` that were in flight, by app id and address.
    `ended` are those of `won` with what metrics count; to be counted after the commit.
    `has_given_back` says whether one of `won` held a limit.
    """

    won: dict[int, RunStatus] = field(default_factory=dict)
    ignored: list[int] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    not_theirs: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)
    planned: list[int] = field(default_factory=list)
    freed: Counter[tuple[int, str]] = field(default_factory=Counter)
    ended: list[Ended] = field(default_factory=list)
    has_given_back: bool = False


class Completion:
    """Ends runs for callbacks, dispatcher, rescuer and commands.

    Args:
        ids: gives the ids of new attempts and of children's runs.
        now_ms: the database's clock.
        alarm_defaults: targets of failure alarms, for jobs without their own.
        chance: gives a number from 0 to 1 for the jitter of each retry.

    """

    def __init__(
        self,
        ids: RunIds,
        now_ms: Callable[[], int],
        alarm_defaults: AlarmTargets = NO_TARGETS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._ids = ids
        self._now_ms = now_ms
        self._alarm_defaults = alarm_defaults
        self._chance = chance
        self._follow_ups = FollowUps(ids, now_ms)
        self.flows = FlowRuns(ids, now_ms, alarm_defaults)
        self.calls = CallPlanner(ids, now_ms, alarm_defaults)

    def end(self, session: Session, ends: Sequence[End]) -> Tally:
        """End runs in the caller's transaction; the first final state wins. Losing is normal."""
        tally = Tally()
        while ends:
            ends = self._end(session, ends, tally)
        return tally

    def _end(self, session: Session, ends: Sequence[End], tally: Tally) -> list[End]:
        """End runs, and add the results to a tally; return the ends that follow at once.

        Those are of runs that have no param, and of flows.
        """
        now_ms = self._now_ms()
        successes, rest = complete_simple_successes(session, ends, now_ms)
        judged = complete_by_row(session, rest, now_ms)
        judged.won = [_without_kill_request(won) for won in judged.won]
        known = _jobs_to_run(session, judged.won)
        failures = _failures_before(session, judged.won)
        unsuccessful = [row for row, end in judged.won if end.status is not RunStatus.SUCCEEDED]
        nodes = self.flows.nodes_of(session, unsuccessful)
        attempts = self._next_attempts(judged.won, known, failures, nodes)
        attempts |= self._late_redeliveries(session, judged.unstarted, now_ms)
        retried = planning.plan(session, list(attempts.values()), self._ids)
        self._keep_nodes(session, judged.won, dict(zip(attempts, retried, strict=True)))
        last = [ended for ended in judged.won if ended.row.id not in attempts]
        missed = [
            ended
            for ended in last
            if not is_withdrawn(ended.row, known.get(ended.row.job_id), ended.end)
        ]
        store_alarms(session, missed, failures, nodes, self._alarm_defaults, now_ms=now_ms)
        # Last, because the row of a new attempt keeps its tick open.
        fired, fired_ids = self._follow_ups.follow(
            session, last, [success.success for success in successes]
        )
        flows = self.flows.follow(session, last)
        _add(tally, successes, judged, [*retried, *fired_ids, *flows.run_ids])
        return [
            *self._faulty(fired, fired_ids),
            *self._faulty(flows.planned, flows.run_ids),
            *flows.ends,
        ]

    def carry_on(self, session: Session, work: FlowWork) -> Tally:
        """End runs that flows planned without a param, and flows that have finished."""
        tally = self.end(session, [*self._faulty(work.planned, work.run_ids), *work.ends])
        tally.planned += work.run_ids
        return tally

    def end_faulty(
        self, session: Session, runs: Sequence[planning.NewRun], run_ids: Sequence[int]
    ) -> list[Ended]:
        """Fail runs that were just planned but have no param, in the same transaction.

        Returns these and what failed with them, to be counted after the commit.
        """
        return self.end(session, self._faulty(runs, run_ids)).ended

    def _faulty(self, runs: Sequence[planning.NewRun], run_ids: Sequence[int]) -> list[End]:
        now_ms = self._now_ms()
        return [
            End(
                run_id=run_id,
                status=RunStatus.FAILED,
                message=from_json(run.fault.why) or run.fault.text,
                finished_at=now_ms,
                never_started=True,
                may_retry=False,
            )
            for run, run_id in zip(runs, run_ids, strict=True)
            if run.fault is not None
        ]

    def _keep_nodes(self, session: Session, won: Sequence[Won], retries: Mapping[int, int]) -> None:
        """Make retries of flows resume at the failed nodes."""
        for row, _ in won:
            if row.id in retries and is_flow(row):
                self.flows.keep_for(session, row, retries[row.id])

    def _next_attempts(
        self,
        won: Sequence[Won],
        known: Mapping[int, JobToRun],
        failures: Collection[int],
        nodes: Mapping[int, NodeOfFlow],
    ) -> dict[int, planning.NewRun]:
        now_ms = self._now_ms()
        attempts: dict[int, planning.NewRun] = {}
        for row, end in won:
            if end.status is RunStatus.SUCCEEDED:
                continue
            job, has_failed = known.get(row.job_id), row.id in failures
            if job is not None and row.id in nodes:
                job = with_node_retry(job, nodes[row.id].retry)
            attempt = next_attempt(
                row, job, end, now_ms=now_ms, chance=self._chance(), has_failed=has_failed
            )
            if attempt is not None:
                attempts[row.id] = attempt
        return attempts

    def _late_redeliveries(
        self, session: Session, unstarted: Sequence[Won], now_ms: int
    ) -> dict[int, planning.NewRun]:
        """Return what repeats LOST runs that never started, unless something newer exists.

        A re-run locks the run that it repeats, so none is planned meanwhile.
        """
        if not unstarted:
            return {}
        later = reruns.later(session, [row.id for row, _ in unstarted])
        jobs = job_rows.for_runs(session, {row.job_id for row, _ in unstarted})
        again = {
            row.id: late_redelivery(row, jobs.get(row.job_id), end, now_ms=now_ms)
            for row, end in unstarted
            if row.id not in later
        }
        wanted = [row for row, _ in unstarted if again.get(row.id) is not None]
        may_go_on = self.flows.reopen(session, wanted)
        return {run_id: run for run_id, run in again.items() if run and run_id in may_go_on}


def _jobs_to_run(session: Session, won: Sequence[Won]) -> dict[int, JobToRun]:
    """Return the jobs of the runs that did not succeed."""
    job_ids = {row.job_id for row, end in won if end.status is not RunStatus.SUCCEEDED}
    return job_rows.for_runs(session, job_ids) if job_ids else {}


def _failures_before(session: Session, won: Sequence[Won]) -> dict[int, FailedRun]:
    """Return the failed attempts that preceded ends which are not failures themselves."""
    unwanted = [row for row, end in won if end.status in NO_FAILURE]
    return ticks.failures_before(session, unwanted) if unwanted else {}


def _without_kill_request(won: Won) -> Won:
    """Treat a flow's timeout as an end that no user requested."""
    if won.end.status is RunStatus.TIMED_OUT and is_flow(won.row):
        return won._replace(row=won.row._replace(kill_requested_at=None))
    return won


def _add(
    tally: Tally, successes: Sequence[SimpleSuccess], judged: Judged, planned: list[int]
) -> None:
    tally.ignored += judged.ignored
    tally.unknown |= judged.unknown
    tally.not_theirs |= judged.not_theirs
    tally.others |= judged.others
    tally.planned += planned
    tally.has_given_back |= any(ended.row.holds for ended in judged.won)
    for row, end in judged.won:
        tally.won[row.id] = end.status
        tally.ended.append(_ended(row, end))
        if row.address is not None:
            tally.freed[row.app_id, row.address] += 1
    for success in successes:
        tally.won[success.end.run_id] = RunStatus.SUCCEEDED
        tally.ended.append(_ended_success(success))
        tally.freed[success.sent_to.app_id, success.sent_to.address] += 1


def _ended(row: LockedRun, end: End) -> Ended:
    began = end.started_at or row.started_at
    return Ended(row.app_id, row.job_id, end.status, row.due_at, began, end.finished_at)


def _ended_success(simple: SimpleSuccess) -> Ended:
    success = simple.success
    return Ended(
        simple.sent_to.app_id,
        success.job_id,
        RunStatus.SUCCEEDED,
        simple.end.due_at,
        success.started_at,
        success.finished_at,
    )


class RunEnder:
    """Ends runs for the roles of one scheduler, each time in a transaction of its own.

    Code that already has a transaction calls `Completion.end` in it. All of `on_ended` are called
    after the commit.
    """

    def __init__(
        self,
        context: NodeContext,
        completion: Completion,
        on_ended: Sequence[Callable[[Tally], None]] = (),
    ) -> None:
        self._context = context
        self._completion = completion
        self._on_ended = on_ended

    def end(
        self,
        ends: Sequence[End],
        *,
        called: Sequence[ReportedCall] = (),
        first: Callable[[Session], None] | None = None,
    ) -> Tally:
        """Call `first`, plan called runs, and end runs, in one transaction."""
        if not ends and not called and first is None:
            return Tally()

        def unit(session: Session) -> Tally:
            if first is not None:
                first(session)
            plans = self._completion.calls.plan(session, called) if called else None
            tally = self._completion.end(session, ends) if ends else Tally()
            if plans is not None:
                run_ids = [run.run_id for run in plans.runs if run.run_id is not None]
                tally.ended += self._completion.end_faulty(session, plans.runs, run_ids)
                tally.planned += run_ids
                tally.unknown |= plans.unknown
                tally.not_theirs |= plans.not_theirs
                tally.others |= plans.others
            return tally

        tally = self._context.write_runs(unit, has_planned=lambda tally: tally.planned)
        self._context.metrics.add(tally.ended)
        if tally.has_given_back:
            self._context.wakes.wake("dispatcher", ROOM_IN_LIMITS)
        for hear in self._on_ended:
            hear(tally)
        return tally

    def refuse(self, call: Called, why: Words) -> None:
        """Note a refused call on the caller's page and by an alarm."""

        def unit(session: Session) -> None:
            caller = calls.callers(session, [call.run_id]).get(call.run_id)
            if caller is not None:
                self._completion.calls.refuse(session, call, caller, why)

        self._context.database.write(unit)

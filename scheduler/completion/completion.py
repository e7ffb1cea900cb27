"""Ends runs and plans what follows, in one transaction: `Completion.end` has the steps.

Every final state is entered here, except when a changed schedule cancels planned runs.

What follows the end of a tick are its job's children, a fixed delay's next tick, webhooks and
alarms, planned in the transaction that ends the tick's last run. A re-run ends its due time again:
each shard is judged by its newest run. Two schedulers that end the last two shards at the same time
would each see the other's still open. So the tick's first run is locked before anything is counted:
the second one then sees what the first one wrote.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import structlog
from sqlalchemy.orm import Session

from warren.broker.log_lines import shown_end
from warren.broker.messages import Called
from warren.broker.reasons import Words
from warren.broker.stored_reasons import from_json
from warren.scheduler.alarms.events import (
    MESSAGE_LENGTH,
    NO_TARGETS,
    TAIL_LENGTH,
    AlarmTargets,
    Failure,
    RunWebhook,
    TickNews,
    to_text,
)
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.completion.calls import CallPlanner, ReportedCall
from warren.scheduler.completion.end import (
    NO_FAILURE,
    End,
    Judged,
    SimpleSuccess,
    TickEnd,
    Won,
    complete_by_row,
    complete_simple_successes,
    is_withdrawn,
    late_redelivery,
    next_attempt,
    tick_end,
    with_node_retry,
)
from warren.scheduler.completion.flow_runs import (
    FlowRuns,
    FlowWork,
    NodeOfFlow,
    flow_alarms,
    is_flow,
    node_message,
    without,
)
from warren.scheduler.jobs.new_run import app_names_for, calendars_for_runs, run_of
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.metrics import Ended
from warren.scheduler.node_context import NodeContext
from warren.scheduler.rounds import ROOM_IN_LIMITS
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.registry import WAITING_KINDS
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import Calendars
from warren.sql import unfolded
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import RUN_END, AlarmStatus, JobRecipients, NewAlarm, RunAlarm
from warren.sql.ids import RunIds
from warren.sql.jobs import due_jobs, job_links, job_rows
from warren.sql.jobs.due_jobs import JobSchedule, JobToPlan
from warren.sql.jobs.job_links import Followed
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.run_status import FAILURES, FINE, Kind, RunStatus
from warren.sql.runs import planned_runs, queries, reruns, ticks, transitions
from warren.sql.runs.run_rows import EndedRun, FailedRun, LockedRun
from warren.sql.runs.ticks import tick_of
from warren.sql.runs.transitions import Success
from warren.sql.unfolded import RunEnd

#: The most unsent messages of one job; further ones are dropped.
MAX_UNSENT = 1_000

log = structlog.get_logger()


def keep(
    session: Session, ends: Sequence[TickEnd], followed: Mapping[int, Followed], *, now_ms: int
) -> None:
    """Store a message for each finished tick whose job has a webhook for this end."""
    heard = [end for end in ends if _webhook(followed[end.tick.job_id]).hears(end.status)]
    if not heard:
        return
    jobs = alarms.job_targets(session, {end.tick.job_id for end in heard})
    runs = queries.ended(session, [end.deciding_id for end in heard])
    full = alarms.jobs_with_unsent(session, jobs, MAX_UNSENT)
    kept = []
    for end in heard:
        job, run = jobs.get(end.tick.job_id), runs.get(end.deciding_id)
        if job is None or run is None:
            continue
        if job.id in full:
            log.warning("run_webhook_left_out", job_id=job.id, run_id=run.id, most=MAX_UNSENT)
            continue
        url = followed[job.id].webhook_url
        kept.append(_webhook_call(end, run, job, url, now_ms))
    alarms.add(session, kept)


def _webhook(job: Followed) -> RunWebhook:
    return RunWebhook(url=job.webhook_url, when=job.webhook_when)


def _webhook_call(
    end: TickEnd, run: EndedRun, job: JobRecipients, url: str, now_ms: int
) -> NewAlarm:
    tick = end.tick
    news = TickNews(
        app=job.app,
        job=job.name,
        run_id=run.id,
        first_run_id=run.id if end.head_id is None else end.head_id,
        kind=run.kind,
        status=end.status,
        is_success=end.succeeded,
        scheduled_at=tick.scheduled_at,
        finished_at=end.finished_at,
        message=(run.message or "")[:MESSAGE_LENGTH],
        address=run.address or "",
        result=run.result or "",
    )
    return NewAlarm(
        # With the run, because a tick ends again after a LOST run that never started.
        subject_key=f"end:{tick.job_id}:{tick.scheduled_at}:{tick.origin_id}:{run.id}",
        channel=RUN_END,
        target=url,
        content=to_text(news),
        created_at=now_ms,
        job_id=job.id,
        app_id=job.app_id,
        run_id=run.id,
        status=AlarmStatus.READY,
    )


def store_alarms(
    session: Session,
    last: Sequence[Won],
    failures: Mapping[int, FailedRun],
    nodes: Mapping[int, NodeOfFlow],
    defaults: AlarmTargets,
    *,
    now_ms: int,
) -> None:
    """Store an alarm for each target of each failed tick, one for all shards of a tick.

    `last` are runs that are not retried; `failures` are the failed attempts before them, `nodes`
    those of flows. A run without targets is marked as such. A run that a user asked to kill raises
    no alarm. Targets that a node shares with its flow get only the flow's alarm, unless the failure
    is handled or the node's job is gone.
    """
    failed = [
        (run, end)
        for run, end in last
        if (end.status in FAILURES or run.id in failures) and run.kill_requested_at is None
    ]
    if not failed:
        return
    of_nodes = {run.id: nodes[run.id] for run, _ in failed if run.id in nodes}
    flow_ids = {node.flow.job_id for node in of_nodes.values()}
    jobs = alarms.job_targets(session, flow_ids | {run.job_id for run, _ in failed})
    kept: list[NewAlarm] = []
    unheard: list[int] = []
    for run, end in failed:
        node = of_nodes.get(run.id)
        flow = None if node is None else jobs.get(node.flow.job_id)
        job = jobs.get(run.job_id) or flow
        if job is None:
            unheard.append(run.id)
            continue
        news = _news(run, end, failures.get(run.id), job)
        targets, told = job_targets(job, defaults), NO_TARGETS
        if flow is not None and node is not None and node.fails_flow:
            told = job_targets(flow, defaults)
            if not node.flow.retries_left:
                of_flow = msgspec.structs.replace(
                    news, message=node_message(node.name, news.message)
                )
                kept += flow_alarms(node.flow, flow, of_flow, defaults, now_ms=now_ms)
        if not targets and not told:
            unheard.append(run.id)
        elif others := without(targets, told):
            kept += alarms_to(
                others,
                news,
                f"tick:{run.job_id}:{run.scheduled_at}:{run.origin_id}",
                now_ms=now_ms,
                app_id=run.app_id,
                job_id=run.job_id,
                run_id=run.id,
            )
    alarms.add(session, kept)
    alarms.mark_runs(session, unheard, RunAlarm.NOBODY_TO_TELL)


def _news(run: LockedRun, end: End, failure: FailedRun | None, job: JobRecipients) -> Failure:
    return Failure(
        app=job.app,
        job=job.name,
        run_id=run.id,
        scheduled_at=run.scheduled_at,
        finished_at=end.finished_at,
        timezone=job.timezone or "",
        status=end.status.value,
        message=_message(end, failure)[:MESSAGE_LENGTH],
        address=run.address or "",
        attempts=run.starts + 1,
        shard=f"{run.shard_index}/{run.shard_total}" if run.shard_total > 1 else "",
        log_tail=shown_end(end.log_tail or (failure and failure.log_tail) or "", TAIL_LENGTH),
    )


def _message(end: End, failure: FailedRun | None) -> str:
    if failure is None:
        return str(end.message)
    before = f"attempt {failure.starts + 1} {failure.status}: {failure.message or ''}"
    return f"{end.message}; {before}"


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """A run that has just ended and is not retried."""

    run: LockedRun
    status: RunStatus
    finished_at: int


class FollowUps:
    """Plans the follow-ups of finished ticks; `ids` are for the children's runs."""

    def __init__(self, ids: RunIds, now_ms: Callable[[], int]) -> None:
        self._ids = ids
        self._now_ms = now_ms

    def follow(
        self, session: Session, last: Sequence[Won], successes: Sequence[Success]
    ) -> tuple[Sequence[planned_runs.NewRun], list[int]]:
        """Plan the follow-ups of the ticks that these runs end; return the runs and their ids.

        The jobs are read after the runs have ended, so that an edit made before it counts. The rows
        of `successes` are read only if something may follow.
        """
        job_ids = {attempt.row.job_id for attempt in last} | {
            attempt.job_id for attempt in successes
        }
        followed = job_links.followed(session, sorted(job_ids), waiting_kinds=WAITING_KINDS)
        if not followed:
            return [], []
        last_attempts = [LastAttempt(row, end.status, end.finished_at) for row, end in last]
        last_attempts += _read(
            session, [attempt for attempt in successes if attempt.job_id in followed]
        )
        ends = _tick_ends(
            session,
            [
                last
                for last in last_attempts
                if last.run.job_id in followed and _leads_on(last, followed)
            ],
        )
        quiet = {tick_of(last.run) for last in last_attempts if last.run.without_children}
        heard = [end for end in ends if end.tick not in quiet]
        fired = self._children_of(session, heard, followed)
        planned = planned_runs.plan(session, fired, self._ids)
        self._set_next_ticks(session, ends, followed)
        keep(session, ends, followed, now_ms=self._now_ms())
        return fired, planned

    def _children_of(
        self, session: Session, ends: Sequence[TickEnd], followed: Mapping[int, Followed]
    ) -> list[planned_runs.NewRun]:
        wanted = [
            (child_id, end)
            for end in ends
            if end.succeeded and end.head_id is not None
            for child_id in followed[end.tick.job_id].children
        ]
        if not wanted:
            return []
        known = due_jobs.to_plan(session, {child_id for child_id, _ in wanted})
        for child_id, end in wanted:
            if child_id not in known:
                log.warning("child_skipped", job_id=end.tick.job_id, child_id=child_id)
        now_ms = self._now_ms()
        # A scheduled run belongs to no trace.
        heads = [end.head_id for _, end in wanted if end.tick.origin_id and end.head_id is not None]
        traces = queries.traceparents(session, heads)
        apps = app_names_for(session, known.values())
        calendars = calendars_for_runs(session, known.values())
        return [
            replace(run, traceparent=traces.get(end.head_id or 0))
            for child_id, end in wanted
            if (child := known.get(child_id))
            for run in [_child_run(session, child, end, now_ms, apps=apps, calendars=calendars)]
        ]

    def _set_next_ticks(
        self, session: Session, ends: Iterable[TickEnd], followed: Mapping[int, Followed]
    ) -> None:
        over = {
            end.tick.job_id: end
            for end in sorted(ends, key=lambda end: end.tick)
            if end.tick.origin_id == 0 and _waits(followed[end.tick.job_id])
        }
        if not over:
            return
        waiting = _with_last_tick_over(session, due_jobs.lock(session, over), over)
        if waiting:
            due_jobs.advance(
                session,
                [{"id": job.id, "next_tick_at": _next_tick(job, over[job.id])} for job in waiting],
            )


def _read(session: Session, successes: Sequence[Success]) -> list[LastAttempt]:
    if not successes:
        return []
    finished_at = {success.run_id: success.finished_at for success in successes}
    rows = transitions.lock(session, finished_at)
    return [LastAttempt(row, RunStatus.SUCCEEDED, finished_at[row.id]) for row in rows]


def _leads_on(last: LastAttempt, followed: Mapping[int, Followed]) -> bool:
    """Return whether the end of this run's tick may have follow-ups."""
    job = followed[last.run.job_id]
    if job.webhook_url or (last.run.origin_id == 0 and _waits(job)):
        return True
    return last.status in FINE and bool(job.children)


def _waits(job: Followed) -> bool:
    return job.schedule_kind in WAITING_KINDS


def _tick_ends(session: Session, last_attempts: Sequence[LastAttempt]) -> list[TickEnd]:
    """Return the ticks of these runs that have ended."""
    alone = [last for last in last_attempts if _is_alone(last.run)]
    others = {tick_of(last.run) for last in last_attempts if not _is_alone(last.run)}
    sharded = {tick_of(last.run) for last in last_attempts if last.run.shard_total > 1}
    if sharded:
        transitions.lock(session, ticks.first_run_ids(session, sharded))
    reruns = {tick_of(last.run) for last in last_attempts if last.run.rerun_of is not None}
    attempts = ticks.attempts(session, others, reruns)
    judged = (tick_end(tick, rows) for tick, rows in attempts.items())
    return [_end_alone(last) for last in alone] + [end for end in judged if end]


def _is_alone(run: LockedRun) -> bool:
    """Whether a run is the only one of its tick, so that no others need to be read."""
    return bool(run.shard_total <= 1 and run.attempt == 0 and run.rerun_of is None)


def _end_alone(last: LastAttempt) -> TickEnd:
    return TickEnd(
        tick=tick_of(last.run),
        head_id=last.run.id,
        deciding_id=last.run.id,
        status=last.status,
        finished_at=last.finished_at,
        run_date=last.run.run_date,
    )


def _child_run(
    session: Session,
    child: JobToPlan,
    parent: TickEnd,
    now_ms: int,
    *,
    apps: Mapping[int, str],
    calendars: Calendars,
) -> planned_runs.NewRun:
    """Return the run of a child for its parent's tick; stopped children run too."""
    needs_zone = child.param_template and not child.timezone
    run = run_of(
        child,
        kind=Kind.PARENT,
        scheduled_at=parent.tick.scheduled_at,
        due_at=now_ms,
        zone=cluster_zone(session, "UTC") if needs_zone else child.timezone or "UTC",
        app=apps.get(child.app_id, ""),
        run_date=parent.run_date,
        calendars=calendars,
    )
    return replace(run, origin_id=parent.head_id, run_date=parent.run_date)


def _with_last_tick_over(
    session: Session, jobs: Sequence[JobSchedule], over: Mapping[int, TickEnd]
) -> list[JobSchedule]:
    """Return the jobs whose finished tick was the last open one of their schedule.

    An earlier tick may still have been open when the job was restarted or edited.
    """
    earlier = [job.id for job in jobs if job.last_tick_at != over[job.id].tick.scheduled_at]
    still_open = ticks.jobs_with_open_runs(session, earlier)
    return [job for job in jobs if job.id not in still_open]


def _next_tick(job: JobSchedule, end: TickEnd) -> int:
    """Return the next tick: the delay after the recorded end, and after the last decided tick.

    A corrupt delay in the database makes the job due at once, so that the planner reports the
    error.
    """
    base = max(job.last_tick_at, end.finished_at)
    try:
        schedule = read_schedule(ScheduleFacts.of(job, "UTC"))
    except ValueError:
        return int(base) + 1
    return schedule.after_completion(base) or int(base) + 1


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
        unfolded.note_ended(
            session, _ended_runs(successes, judged.won), (row.id for row, _ in judged.unstarted)
        )
        judged.won = [_without_kill_request(won) for won in judged.won]
        known = _jobs_to_run(session, judged.won)
        failures = _failures_before(session, judged.won)
        unsuccessful = [row for row, end in judged.won if end.status is not RunStatus.SUCCEEDED]
        nodes = self.flows.nodes_of(session, unsuccessful)
        attempts = self._next_attempts(judged.won, known, failures, nodes)
        attempts |= self._late_redeliveries(session, judged.unstarted, now_ms)
        retried = planned_runs.plan(session, list(attempts.values()), self._ids)
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
        self, session: Session, runs: Sequence[planned_runs.NewRun], run_ids: Sequence[int]
    ) -> list[Ended]:
        """Fail runs that were just planned but have no param, in the same transaction.

        Returns these and what failed with them, to be counted after the commit.
        """
        return self.end(session, self._faulty(runs, run_ids)).ended

    def _faulty(self, runs: Sequence[planned_runs.NewRun], run_ids: Sequence[int]) -> list[End]:
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
    ) -> dict[int, planned_runs.NewRun]:
        now_ms = self._now_ms()
        attempts: dict[int, planned_runs.NewRun] = {}
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
    ) -> dict[int, planned_runs.NewRun]:
        """Return new runs for LOST runs that never started, unless something newer exists.

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


def _ended_runs(successes: Sequence[SimpleSuccess], won: Sequence[Won]) -> list[RunEnd]:
    """Return what the board is told of the runs that have ended."""
    simple = [
        RunEnd(item.success.run_id, item.sent_to.app_id, item.success.due_at, item.end.status)
        for item in successes
    ]
    return simple + [RunEnd(row.id, row.app_id, row.due_at, end.status) for row, end in won]


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
            caller = queries.facts(session, [call.run_id]).get(call.run_id)
            if caller is not None:
                self._completion.calls.refuse(session, call, caller, why)

        self._context.database.write(unit)

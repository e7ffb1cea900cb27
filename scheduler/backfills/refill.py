"""The role that plans the runs of backfills, as many at once as each allows.

One transaction locks a backfill's row, counts its open due times that have ended, plans the next
ones and moves the cursor. So the limit holds with any number of schedulers, and after a crash the
row says what is planned: the runs are rows of the same transaction.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.scheduler.backfills import kept_schedule
from warren.scheduler.backfills.kept_schedule import (
    SELECTED,
    DueTimes,
    DueTimeState,
    KeptSchedule,
    ranks_from_text,
    ranks_to_text,
    spans_from_json,
)
from warren.scheduler.completion.completion import Completion, Tally
from warren.scheduler.jobs.new_run import app_names_for, calendars_for_runs, run_of
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.metrics import Ended
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import Problem, explanation, fault_of
from warren.scheduler.schedules.reading import calendars_for, read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import Calendars
from warren.sql.errors import DatabaseUnavailable
from warren.sql.explanation import Explanation
from warren.sql.jobs import due_jobs, history, job_rows
from warren.sql.jobs.due_jobs import JobToPlan
from warren.sql.models import Backfill
from warren.sql.models.job_tables import BackfillState, Selection
from warren.sql.run_status import Kind
from warren.sql.runs import backfills, planned_runs
from warren.sql.runs.planned_runs import NewRun

#: The most due times that one transaction looks at, whether it runs them or leaves them out.
MAX_LOOKED_AT = 200
WAIT_SECONDS = 0.5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Refilled:
    """How many runs a transaction has planned, and if more may be planned at once.

    `ended` are those that have failed, as they have no param.
    """

    planned: int = 0
    has_more: bool = False
    ended: Sequence[Ended] = ()


class Refill:
    """Plans the next runs of each open backfill; any number of schedulers share the work.

    Args:
        context: what the roles share.
        completion: ends runs whose params cannot be made.
        timezone: of jobs that name none, until a scheduler is registered.

    """

    def __init__(self, context: NodeContext, completion: Completion, *, timezone: str) -> None:
        self._context = context
        self._completion = completion
        self._timezone = timezone
        self._job_ids: frozenset[int] = frozenset()

    def hear(self, tally: Tally) -> None:
        """Wake this role if runs of its jobs have ended."""
        if self._job_ids and not self._job_ids.isdisjoint(run.job_id for run in tally.ended):
            self._context.wakes.wake("backfills")

    def run_round(self, now_ms: int) -> float:
        """Refill each backfill; return the seconds to wait, 0 when there may be more to plan."""
        active = self._context.database.read(backfills.with_work)
        self._job_ids = frozenset(active.values())
        refilled = [self._refill_safely(*backfill, now_ms) for backfill in active.items()]
        return 0 if any(done.has_more for done in refilled) else WAIT_SECONDS

    def _refill_safely(self, backfill_id: int, job_id: int, now_ms: int) -> Refilled:
        """Refill a backfill; a faulty one is paused with the reason, and delays no other."""
        try:
            refilled = self._context.write_runs(
                lambda session: self._refill(session, backfill_id, job_id, now_ms),
                has_planned=lambda refilled: refilled.planned,
            )
        except DatabaseUnavailable:
            raise
        except Exception as error:
            log.exception("backfill_failed", backfill_id=backfill_id, job_id=job_id)
            why = Why.NOT_PLANNABLE(fault=fault_of(error))
            self._context.database.write(lambda session: _pause(session, backfill_id, why))
            return Refilled()
        self._context.metrics.add(refilled.ended)
        return refilled

    def _refill(self, session: Session, backfill_id: int, job_id: int, now_ms: int) -> Refilled:
        # So that no other backfill or re-run takes the same due times; locked before the backfill's
        # row, as when a job is deleted.
        job_rows.lock_rows(session, [job_id])
        backfill = backfills.claim(session, backfill_id)
        if backfill is None:
            return Refilled()
        job = due_jobs.to_plan(session, [job_id]).get(job_id)
        if job is None and backfill.state != BackfillState.CANCELLED:
            end(backfill, BackfillState.CANCELLED, Why.JOB_DELETED())
        work = _Work(session, backfill, now_ms)
        work.settle(session)
        refilled = Refilled()
        if job is not None and backfill.state == BackfillState.OPEN:
            refilled = self._plan(session, work, job)
        self._end_if_over(session, backfill, now_ms)
        return refilled

    def _plan(self, session: Session, work: "_Work", job: JobToPlan) -> Refilled:
        backfill = work.backfill
        open_ticks: list[int] = json.loads(backfill.open_ticks)
        room = backfill.at_once - len(open_ticks)
        if room <= 0 or backfill.decided >= backfill.ticks:
            return Refilled()
        looked_at = work.next_ticks()
        if not looked_at:  # the rules of its time zone may have changed
            raise ValueError(f"its schedule has fewer due times than {backfill.ticks}")
        wanted = work.wanted(session, looked_at)
        left_out = ranks_from_text(backfill.left_out)
        chosen: list[int] = []
        for tick in looked_at:
            if len(chosen) == room:
                break
            if tick in wanted:
                chosen.append(tick)
            elif backfill.decided not in left_out:
                left_out.append(backfill.decided)
            backfill.decided += 1
            backfill.cursor_at = tick
        backfill.left_out = ranks_to_text(sorted(left_out))
        backfill.open_ticks = json.dumps(open_ticks + chosen)
        backfill.moved_at = work.now_ms
        ended: Sequence[Ended] = ()
        if chosen:
            apps = app_names_for(session, [job])
            calendars = calendars_for_runs(session, [job])
            run_ids = self._context.ids.take(session, len(chosen))
            runs = work.runs(
                job, chosen, run_ids, app=apps.get(job.app_id, ""), calendars=calendars
            )
            planned_runs.plan_asked(session, runs, self._context.ids)
            ended = self._completion.end_faulty(session, runs, run_ids)
        return Refilled(len(chosen), has_more=len(chosen) < room, ended=ended)

    def _end_if_over(self, session: Session, backfill: Backfill, now_ms: int) -> None:
        if backfill.open_ticks != "[]":
            return
        if backfill.state == BackfillState.OPEN and backfill.decided >= backfill.ticks:
            end(backfill, BackfillState.DONE)
            log.info("backfill_ended", backfill_id=backfill.id, failed=backfill.failed)
        if backfill.state in (BackfillState.DONE, BackfillState.CANCELLED):
            backfill.ended_at = now_ms
            zone = cluster_zone(session, self._timezone)
            resume_schedule(session, backfill, zone=zone, by="scheduler", now_ms=now_ms)


def end(backfill: Backfill, state: BackfillState, why: Reason | None = None) -> None:
    """Move a locked backfill to a state in which it plans nothing, with the reason."""
    reason = None if why is None else explanation(why)
    backfill.state = state
    backfill.state_reason = reason and reason.text[:512]
    backfill.state_why = reason and reason.why


def _pause(session: Session, backfill_id: int, why: Reason) -> None:
    backfill = backfills.lock(session, backfill_id)
    if backfill is not None and backfill.state == BackfillState.OPEN:
        end(backfill, BackfillState.PAUSED, why)


@dataclass(frozen=True)
class _Work:
    """A locked backfill."""

    session: Session
    backfill: Backfill
    now_ms: int

    @cached_property
    def kept(self) -> KeptSchedule:
        """The schedule that it keeps."""
        return KeptSchedule.load(self.session, self.backfill.schedule)

    def settle(self, session: Session) -> None:
        """Count the open due times whose runs have all ended."""
        backfill = self.backfill
        open_ticks: list[int] = json.loads(backfill.open_ticks)
        states = kept_schedule.states(session, backfill.job_id, open_ticks, backfill_id=backfill.id)
        over = [tick for tick in open_ticks if states[tick] is not DueTimeState.OPEN]
        if not over:
            return
        backfill.open_ticks = json.dumps([tick for tick in open_ticks if tick not in over])
        failed = [tick for tick in over if states[tick] is DueTimeState.FAILED]
        succeeded = sum(states[tick] is DueTimeState.SUCCEEDED for tick in over)
        backfill.failed += len(failed)
        backfill.succeeded += succeeded
        backfill.skipped += len(over) - len(failed) - succeeded
        backfill.moved_at = self.now_ms
        if failed and backfill.stop_on_failure and backfill.state == BackfillState.OPEN:
            run_date = self.kept.shown_date(failed[0]).isoformat()
            end(backfill, BackfillState.PAUSED, Why.BACKFILL_FAILURE(date=run_date))
            log.warning("backfill_stopped", backfill_id=backfill.id, run_date=run_date)

    def next_ticks(self) -> list[int]:
        """Return the due times to look at next."""
        backfill = self.backfill
        spans = spans_from_json(backfill.spans)
        due = DueTimes(self.kept, spans, newest_first=bool(backfill.newest_first))
        left = backfill.ticks - backfill.decided
        return due.after(backfill.cursor_at, min(left, MAX_LOOKED_AT))

    def wanted(self, session: Session, ticks: Sequence[int]) -> set[int]:
        """Return which of the next due times are to run: those of its selection.

        Version 0.1.0 decided when a backfill of dates was created which ones to leave out.
        """
        backfill = self.backfill
        selected = SELECTED[Selection(backfill.selection)]
        left_out = set(ranks_from_text(backfill.left_out))
        states = kept_schedule.states_kept(session, backfill.job_id, self.kept, ticks)
        ranked = enumerate(ticks, backfill.decided)
        return {tick for rank, tick in ranked if rank not in left_out and states[tick] in selected}

    def runs(
        self,
        job: JobToPlan,
        ticks: Sequence[int],
        run_ids: Sequence[int],
        *,
        app: str,
        calendars: Calendars,
    ) -> list[NewRun]:
        """Return the runs of due times, with these ids."""
        backfill, kept = self.backfill, self.kept
        if backfill.param is not None:
            job = job._replace(param=backfill.param, param_template=None)
        return [
            replace(
                run_of(
                    job,
                    kind=Kind.BACKFILL,
                    scheduled_at=tick,
                    due_at=self.now_ms,
                    zone=kept.timezone,
                    app=app,
                    calendars=calendars,
                    run_date=kept.known_date(tick),
                ),
                run_id=run_id,
                origin_id=backfill.id,
                backfill_id=backfill.id,
                without_children=bool(backfill.without_children),
            )
            for tick, run_id in zip(ticks, run_ids, strict=True)
        ]


def resting_reason(backfill_id: int) -> Explanation:
    """Return why a job is stopped while a backfill runs instead of its schedule."""
    return explanation(Why.BACKFILLED_INSTEAD(id=backfill_id))


def resume_schedule(
    session: Session, backfill: Backfill, *, zone: str, by: str, now_ms: int
) -> bool:
    """Start the schedule that rests for a backfill; return whether it did rest.

    A user may have started the job since, or stopped it. A schedule that has no due
    time left stays stopped.
    """
    job = job_rows.lock_if_any(session, backfill.job_id) if backfill.instead else None
    if job is None or job.is_enabled == 1 or job.stop_why != resting_reason(backfill.id).why:
        return False
    try:
        schedule = read_schedule(
            ScheduleFacts.of(job, job.timezone or zone), calendars_for(session, [job])
        )
        watermark, tick = schedule.start(max(job.last_tick_at, now_ms))
    except Problem:
        tick = None
    if tick is None:
        over = explanation(Why.NO_FURTHER_TIME())
        job.stop_reason, job.stop_why = over.text, over.why
        return False
    job.is_enabled, job.stop_reason, job.stop_why = 1, None, None
    job.last_tick_at, job.next_tick_at = watermark, tick
    history.record_change(
        session, job, timezone=job.timezone or zone, by=by, now_ms=now_ms, anchor_ms=tick
    )
    return True

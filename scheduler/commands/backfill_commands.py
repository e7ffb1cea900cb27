"""Commands on backfills: create, preview, pause, resume and cancel.

They only write rows; the schedulers' role plans the runs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.resources.backfills import PreviewedDueTime
from warren.resources.instant import Instant
from warren.scheduler.actor import Right
from warren.scheduler.backfills import refill
from warren.scheduler.backfills.draft import BackfillRequest, Draft, draft
from warren.scheduler.backfills.kept_schedule import SELECTED, Span
from warren.scheduler.backfills.refill import end
from warren.scheduler.commands.command_context import Action, CommandContext, claimed_id
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import cancelled
from warren.scheduler.jobs.param_schema import check_param
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Code, Problem, Refused, found, refusal
from warren.sql import metrics
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.errors import RunIdTaken
from warren.sql.ids import RunIds, again_if_taken, take_block
from warren.sql.jobs.history import skipped_spans
from warren.sql.models import App, Backfill, Job
from warren.sql.models.job_tables import BackfillState
from warren.sql.run_status import RunStatus
from warren.sql.runs import backfills, transitions

_GOING = (BackfillState.OPEN, BackfillState.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A backfill that was made, or the earlier one with its key, if not `is_new`."""

    id: int
    is_new: bool
    ticks: int
    notices: Sequence[Reason] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a backfill would do now."""

    ticks: Sequence[PreviewedDueTime]
    notices: Sequence[Reason]


class BackfillCommands:
    """Acts on backfills on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._schedules = ScheduleChanges(context)
        ids = context.run_ids or RunIds(context.database)
        self._completion = Completion(ids, context.now_ms)

    @again_if_taken
    def make(
        self,
        job_id: int,
        request: BackfillRequest,
        *,
        skips: Sequence[int] = (),
        once: IdempotentRequest | None = None,
    ) -> Made:
        """Make a backfill of a job; with `skips`, of the due times in these records of it.

        If its key, or the same `once` within a day, was used before, the earlier one is returned.

        Raises:
            Refused: there is no such job, or the request is not valid: see `draft`.

        """
        self._context.actor.demand(Right.OPERATE)
        # Reserved before the transaction, so that a retry after a lost answer makes no second one;
        # of the sequence itself, so that its runs are newer than all others of their due times.
        backfill_id = self._context.database.write(partial(take_block, size=1))
        # Before the transaction: repeated, it finds its own row, and not another one of that id.
        now_ms = self._context.now_ms()

        def unit(session: Session) -> Made:
            job = self._context.job(session, job_id, lock=True)
            known = session.get(Backfill, claimed_id(session, once, backfill_id, now_ms))
            is_same = known and (known.job_id, known.made_at) == (job_id, now_ms)
            if known is not None and known.id == backfill_id and not is_same:
                raise RunIdTaken(f"another backfill has the id {backfill_id}", backfill_id)
            if known is None and request.key is not None:
                known = backfills.by_key(session, job_id, request.key)
            if known is not None:
                return Made(id=known.id, is_new=known.id == backfill_id, ticks=known.ticks)
            wanted = self._draft(session, job, request, skips, now_ms)
            row = wanted.row(backfill_id, by=self._context.actor.who, now_ms=now_ms)
            session.add(row)
            if request.instead and self._schedules.stop(session, job, now_ms):
                reason = refill.resting_reason(backfill_id)
                job.stop_reason, job.stop_why = reason.text, reason.why
            self._note(session, Action.BACKFILL_MAKE, row, job, now_ms, after=_record(wanted))
            return Made(id=backfill_id, is_new=True, ticks=row.ticks, notices=wanted.notices())

        return self._context.write(Right.OPERATE, unit)

    def preview(
        self, job_id: int, request: BackfillRequest, *, skips: Sequence[int] = ()
    ) -> Preview:
        """Return what a backfill would do now, without making it.

        Raises:
            Refused: as for `make`.

        """
        self._context.actor.demand(Right.OPERATE)

        def read(session: Session) -> Preview:
            job = self._context.job(session, job_id)
            wanted = self._draft(session, job, request, skips, self._context.now_ms())
            states, selected = wanted.states(session), SELECTED[request.selection]
            ticks = [
                PreviewedDueTime(
                    scheduled_at=Instant.of(tick),
                    run_date=wanted.kept.shown_date(tick),
                    state=states[tick],
                    runs=states[tick] in selected,
                )
                for tick in wanted.ticks
            ]
            return Preview(ticks=ticks, notices=wanted.notices())

        return self._context.database.read(read)

    def _draft(
        self,
        session: Session,
        job: Job,
        request: BackfillRequest,
        skips: Sequence[int],
        now_ms: int,
    ) -> Draft:
        if skips:
            spans = [Span(first - 1, last) for first, last in skipped_spans(session, job.id, skips)]
            if len(spans) != len(set(skips)):
                got = ", ".join(map(str, skips))
                raise Problem(Code.BACKFILL_SKIPS, "skips", job=job.name, got=got)
            request = replace(request, spans=spans, from_date=None, to_date=None)
        param, zone = request.param, cluster_zone(session, self._context.timezone)
        wrong = (
            []
            if param is None
            else [*found(lambda: self._check_param(session, job, param, now_ms))]
        )
        try:
            made = draft(session, job, request, zone=zone, now_ms=now_ms)
        except Refused as refused:
            raise refusal([*refused.problems, *wrong]) from refused
        if wrong:
            raise refusal(wrong)
        return made

    def _check_param(self, session: Session, job: Job, param: str | None, now_ms: int) -> None:
        if param is None:
            return
        check_param(param)
        if job.handler and job.script_version is None:
            app = session.get_one(App, job.app_id).name
            typed = TypedParams.read(session, [app], now_ms).of(app, job.handler)
            if problems := typed.problems(param):
                raise Refused(problems)

    def pause(self, backfill_id: int) -> None:
        """Pause a backfill: it plans no more runs until it is resumed; open ones continue.

        Raises:
            Problem: there is no such backfill, or it has ended.

        """

        def unit(session: Session) -> None:
            backfill, job = self._going(session, backfill_id)
            if backfill.state == BackfillState.PAUSED:
                return
            end(
                backfill,
                BackfillState.PAUSED,
                Why.BACKFILL_PAUSED_BY(who=self._context.actor.who),
            )
            self._note(session, Action.BACKFILL_PAUSE, backfill, job, self._context.now_ms())

        self._context.write(Right.OPERATE, unit)

    def resume(self, backfill_id: int) -> None:
        """Resume a paused backfill, even one that paused because of a failure.

        Raises:
            Problem: there is no such backfill, or it is not paused.

        """

        def unit(session: Session) -> None:
            backfill, job = self._locked(session, backfill_id)
            if backfill.state == BackfillState.OPEN:
                return
            if backfill.state != BackfillState.PAUSED:
                raise Problem(Code.BACKFILL_OVER, id=backfill_id, state=backfill.state)
            backfill.state = BackfillState.OPEN
            backfill.state_reason = backfill.state_why = None
            self._note(session, Action.BACKFILL_RESUME, backfill, job, self._context.now_ms())

        self._context.write(Right.OPERATE, unit)

    def cancel(self, backfill_id: int, *, kill: bool = False) -> int:
        """Cancel a backfill; with `kill`, end its open runs; return how many.

        It plans no more runs. A cancelled backfill may still have runs to kill.

        Raises:
            Problem: there is no such backfill, or all its runs are done.

        """

        def unit(session: Session) -> int:
            backfill, job = self._locked(session, backfill_id)
            now_ms = self._context.now_ms()
            if backfill.state == BackfillState.DONE:
                raise Problem(Code.BACKFILL_OVER, id=backfill_id, state=backfill.state)
            if backfill.state != BackfillState.CANCELLED:
                why = Why.BACKFILL_CANCELLED_BY(who=self._context.actor.who)
                end(backfill, BackfillState.CANCELLED, why)
            killed = self._kill(session, backfill, now_ms) if kill else 0
            after = {"killed": killed} if kill else None
            self._note(session, Action.BACKFILL_CANCEL, backfill, job, now_ms, after=after)
            return killed

        return self._context.write(Right.OPERATE, unit)

    def _kill(self, session: Session, backfill: Backfill, now_ms: int) -> int:
        runs = transitions.lock(session, backfills.open_runs(session, backfill))
        planned = [run for run in runs if run.status == RunStatus.PLANNED]
        why = Why.CANCELLED_BY(who=self._context.actor.who)
        ends = [cancelled(run.id, why, now_ms) for run in planned]
        ended = self._completion.end(session, ends).ended if ends else []
        metrics.add_cancelled(session, Counter(run.app_id for run in ended))
        sent = [run for run in runs if run.status != RunStatus.PLANNED]
        for run in sent:
            transitions.request_kill(session, run.id, now_ms=now_ms)
        return len(ended) + len(sent)

    def _locked(self, session: Session, backfill_id: int) -> tuple[Backfill, Job]:
        backfill = backfills.lock(session, backfill_id)
        job = session.get(Job, backfill.job_id) if backfill is not None else None
        if backfill is None or job is None or not self._context.actor.knows_job(job.app_id, job.id):
            raise Problem(Code.NO_BACKFILL, id=backfill_id)
        return backfill, job

    def _going(self, session: Session, backfill_id: int) -> tuple[Backfill, Job]:
        backfill, job = self._locked(session, backfill_id)
        if backfill.state not in _GOING:
            raise Problem(Code.BACKFILL_OVER, id=backfill_id, state=backfill.state)
        return backfill, job

    def _note(
        self,
        session: Session,
        action: Action,
        backfill: Backfill,
        job: Job,
        now_ms: int,
        *,
        after: dict[str, Any] | None = None,
    ) -> None:
        name = f"{session.get_one(App, job.app_id).name}/{job.name}"
        self._context.note(session, action, name, backfill.id, now_ms, after=after)


def _record(wanted: Draft) -> dict[str, Any]:
    """Return what the audit log says of a new backfill."""
    request = wanted.request
    record: dict[str, Any] = {"due_times": len(wanted.ticks)}
    if request.from_date is not None and request.to_date is not None:
        record |= {"from": request.from_date.isoformat(), "to": request.to_date.isoformat()}
    usual = BackfillRequest()
    for name in ("at_once", "newest_first", "selection", "stop_on_failure", "children", "instead"):
        if (value := getattr(request, name)) != getattr(usual, name):
            record[name] = value
    if request.param is not None:
        record["param"] = request.param
    return record

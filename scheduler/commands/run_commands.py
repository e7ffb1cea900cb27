"""Commands on runs: trigger, move, cancel, run again, kill and clear.

They only write rows; triggers and kills reach the broker through the scheduler's roles.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.resources.runs import KillOutcome
from warren.scheduler.actor import Right
from warren.scheduler.commands import reruns, triggers
from warren.scheduler.commands.command_context import Action, CommandContext, claimed_id
from warren.scheduler.commands.reruns import RerunOptions
from warren.scheduler.commands.triggers import AS_IT_IS, NOW, Trigger, Triggered, When
from warren.scheduler.completion import run_spans
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import cancelled
from warren.scheduler.jobs.new_run import calendars_for_runs, date_of
from warren.scheduler.membership.self_health import cluster_zone, zone_in
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.working_days import UnknownDay
from warren.sql import metrics
from warren.sql.accounts import audit_log
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.ids import RunIds, again_if_taken, take_block
from warren.sql.instants import iso
from warren.sql.jobs import job_rows
from warren.sql.jobs.job_rows import JobToTrigger
from warren.sql.models import Job
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.runs import planned_runs, transitions
from warren.sql.runs.planned_runs import NewRun
from warren.sql.runs.reruns import due_time_of
from warren.sql.runs.run_rows import LockedRun

_AS_THEY_WERE = RerunOptions()


class RunCommands:
    """Acts on runs on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ids = context.run_ids or RunIds(context.database)
        self._completion = Completion(self._ids, context.now_ms)

    def trigger(
        self,
        job_id: int,
        *,
        param: str | None = None,
        addresses: Sequence[str] = (),
        when: When = NOW,
        run_date: date | None = None,
    ) -> int:
        """Plan a run of a job; return its id. See `Trigger` for the arguments.

        Raises:
            Refused: as for `trigger_all`.

        """
        trigger = Trigger(param=param, addresses=addresses, when=when, run_date=run_date)
        return self.trigger_once(job_id, trigger).run_id

    @again_if_taken
    def trigger_once(
        self,
        job: int | tuple[str, str],
        trigger: Trigger = AS_IT_IS,
        *,
        once: IdempotentRequest | None = None,
        traceparent: str | None = None,
    ) -> Triggered:
        """Plan a run like `trigger`.

        If the same `once` was used within a day, nothing is planned, and the id is that of the
        earlier run. `traceparent` is the caller's span; an invalid one is ignored.

        Raises:
            Refused: as for `trigger_all`.

        """
        # Reserved before the transaction, so that a retry after a lost answer plans nothing twice.
        run_id = self._ids.take_one()
        return self._trigger(job, [trigger], run_id, once=once, traceparent=traceparent)

    @again_if_taken
    def trigger_all(
        self,
        job: int | tuple[str, str],
        triggers: Sequence[Trigger],
        *,
        once: IdempotentRequest | None = None,
        traceparent: str | None = None,
    ) -> Triggered:
        """Plan runs of a job, all or none.

        `once` is for all of them together; see `trigger_once`.

        Raises:
            Refused: there is no such job, a parameter is too long or does not fit the params of its
                handler, an address is neither registered nor listed for the job's app, a time is
                past or over ten years ahead, or the key was used for a different request. The
                fields are like `runs/0/at`.

        """
        first = self._context.database.write(partial(take_block, size=len(triggers)))
        return self._trigger(job, triggers, first, once=once, traceparent=traceparent, place="runs")

    def _trigger(
        self,
        wanted: int | tuple[str, str],
        asked: Sequence[Trigger],
        first_id: int,
        *,
        once: IdempotentRequest | None,
        traceparent: str | None,
        place: str = "",
    ) -> Triggered:
        """Plan runs, the first with `first_id`, unless an earlier request has."""
        self._context.actor.demand(Right.OPERATE)
        context = run_spans.parsed(traceparent)
        # Before the transaction: repeated, it finds the same runs, and not others of their ids.
        now_ms = self._context.now_ms()

        def unit(session: Session) -> Triggered:
            job = self._job(session, wanted)
            if job.max_waiting:
                # So that triggers at the same time count each other's runs.
                job_rows.lock_rows(session, [job.id])
            schemas = triggers.schemas_for(session, job, now_ms)
            unchecked = triggers.unchecked(job, asked, schemas)
            if (known := claimed_id(session, once, first_id, now_ms)) != first_id:
                return Triggered(known, False, unchecked)
            triggers.check_waiting(session, job, asked, now_ms)
            due = triggers.check(asked, schemas, now_ms, place=place)
            triggers.check_addresses(session, job, asked, place)
            trace = context.header if context else None
            runs = triggers.runs_of(
                job,
                asked,
                due,
                first_id=first_id,
                traceparent=trace,
                zone=self._zone_of(session, job),
                calendars=calendars_for_runs(session, [job]),
            )
            triggers.check_own_params(asked, runs, schemas, place)
            planned_runs.plan(session, runs, self._ids)
            self._note_trigger(session, job, runs, now_ms)
            return Triggered(first_id, True, unchecked)

        return self._context.write(Right.OPERATE, unit)

    def _note_trigger(
        self, session: Session, job: JobToTrigger, runs: Sequence[NewRun], now_ms: int
    ) -> None:
        first = runs[0]
        after: dict[str, Any] = {"run": first.run_id}
        if len(runs) > 1:
            after["runs"] = len(runs)
        else:
            after |= {"param": first.param, "addresses": first.wanted_addresses or ""}
        if first.due_at > now_ms:
            after["at"] = iso(first.due_at)
        entry = self._context.audit_log.values(
            Action.JOB_TRIGGER,
            f"{job.app}/{job.name}",
            object_id=job.id,
            now_ms=now_ms,
            after=after,
        )
        audit_log.add_many(session, [entry])

    def _zone_of(self, session: Session, job: JobToTrigger | Job) -> str:
        if job.timezone:
            return job.timezone
        if isinstance(job, JobToTrigger):  # read with the job, as it is asked for often
            return zone_in(job.scheduler_load) or self._context.timezone
        return cluster_zone(session, self._context.timezone)

    def move(self, run_id: int, when: When) -> int:
        """Move a planned, triggered run to another due time; return it.

        Raises:
            Problem: there is no such run, it is not planned any more, it was not triggered, or the
                time is past or over ten years ahead.

        """

        def unit(session: Session) -> int:
            run = self._triggered(session, run_id)
            now_ms = self._context.now_ms()
            due_ms = when.due_ms(now_ms, past=Code.MOVE_PAST)
            if run.status != RunStatus.PLANNED:
                raise Problem(Code.RUN_OVER, id=run_id, status=run.status)
            day = self._moved_date(session, run, due_ms)
            planned_runs.move(session, run_id, due_ms=due_ms, run_date=day)
            before, after = {"at": iso(run.due_at)}, {"at": iso(due_ms), "job": run.job_id}
            self._context.note(
                session, Action.RUN_MOVE, str(run_id), run_id, now_ms, before=before, after=after
            )
            return due_ms

        return self._context.write(Right.OPERATE, unit)

    def _moved_date(self, session: Session, run: LockedRun, due_ms: int) -> date | None:
        """Return the date of a run that is moved: it keeps one that was given with its trigger."""
        job = session.get(Job, run.job_id)
        if job is None:
            return run.run_date
        zone = self._zone_of(session, job)
        calendars = calendars_for_runs(session, [job])
        try:
            is_given = run.run_date != date_of(job, run.scheduled_at, zone, calendars)
            return run.run_date if is_given else date_of(job, due_ms, zone, calendars)
        except UnknownDay as error:
            name = job.run_date_calendar
            raise Problem(
                Code.RUN_DATE_UNKNOWN, "run_date", calendar=name, why=str(error)
            ) from None

    def cancel(self, run_id: int) -> None:
        """Cancel a planned, triggered run; cancelling it again changes nothing.

        Raises:
            Problem: there is no such run, it is not planned any more, or it was not triggered.

        """

        def unit(session: Session) -> None:
            run = self._triggered(session, run_id)
            if run.status == RunStatus.CANCELLED:
                return
            if run.status != RunStatus.PLANNED:
                raise Problem(Code.RUN_OVER, id=run_id, status=run.status)
            self._cancel(session, run, self._context.now_ms())

        self._context.write(Right.OPERATE, unit)

    def _triggered(self, session: Session, run_id: int) -> LockedRun:
        """Lock and return a triggered run; retries are refused."""
        run = self._locked(session, run_id)
        if run.origin_id != run.id or run.attempt:
            raise Problem(Code.RUN_NOT_TRIGGERED, id=run_id)
        return run

    def _locked(self, session: Session, run_id: int) -> LockedRun:
        run = next(iter(transitions.lock(session, [run_id])), None)
        if run is None or not self._context.actor.knows_job(run.app_id, run.job_id):
            raise Problem(Code.NO_RUN, id=run_id)
        return run

    def _cancel(self, session: Session, run: LockedRun, now_ms: int) -> None:
        """Cancel a locked run that is planned."""
        before = {"status": run.status, "job": run.job_id}
        self._context.note(session, Action.RUN_KILL, str(run.id), run.id, now_ms, before=before)
        why = Why.CANCELLED_BY(who=self._context.actor.who)
        ended = self._completion.end(session, [cancelled(run.id, why, now_ms)]).ended
        metrics.add_cancelled(session, Counter(run.app_id for run in ended))

    def _job(self, session: Session, wanted: int | tuple[str, str]) -> JobToTrigger:
        job = job_rows.to_trigger(session, wanted)
        if job is not None and self._context.actor.knows_job(job.app_id, job.id):
            return job
        if isinstance(wanted, int):
            raise Problem(Code.NO_JOB, id=wanted)
        app, name = wanted
        raise NotFound(LookupFailure.NO_JOB_IN_APP, app=app[:100], name=name[:100])

    @again_if_taken
    def rerun(
        self,
        run_ids: Sequence[int],
        options: RerunOptions = _AS_THEY_WERE,
        *,
        once: IdempotentRequest | None = None,
    ) -> tuple[list[int], bool]:
        """Repeat runs, each for its due time; return the new ones, and if this call planned them.

        All of them are repeated or none. Of the attempts of one shard of a due time, the newest is.
        If the same `once` was used within a day, only the first of the earlier runs is returned.

        Raises:
            Problem: there are none, or there is no such run, it or a later one for its due time is
                open, its job or its version of the script is gone, it is not said whether children
                that have already run for its due time run again, or the key was used for a
                different request; a run has no param and none can be made; or the part of a flow
                to repeat does not exist.

        """
        self._context.actor.demand(Right.OPERATE)
        # Reserved before the transaction, so that a retry after a lost answer plans nothing twice;
        # of the sequence itself, so that these ids are higher than those of all that is repeated.
        first = self._context.database.write(partial(take_block, size=max(1, len(run_ids))))

        def unit(session: Session) -> list[int]:
            now_ms = self._context.now_ms()
            if (known := claimed_id(session, once, first, now_ms)) != first:
                return [known]
            if not run_ids:
                raise Problem(Code.RERUN_NOTHING)
            runs, facts = self._repeatable(session, run_ids, options)
            zone = cluster_zone(session, self._context.timezone)
            planned = [
                reruns.repeat(
                    session,
                    run,
                    facts,
                    run_id=first + index,
                    now_ms=now_ms,
                    zone=zone,
                    current=options.current,
                )
                for index, run in enumerate(runs)
            ]
            quiet = set(map(due_time_of, runs)) if options.children is False else ()
            for run, new in zip(runs, planned, strict=True):
                reruns.keep_nodes(session, self._completion.flows, run, new, options)
            planned_runs.plan_asked(
                session, reruns.with_origins(session, planned, quiet), self._ids
            )
            new_ids = list(range(first, first + len(runs)))
            after: dict[str, Any] = {"runs": [run.id for run in runs], "planned": new_ids}
            after |= dict(sorted(asdict(options).items() - asdict(_AS_THEY_WERE).items()))
            name = f"{len(runs)} runs" if len(runs) > 1 else f"{runs[0].id}"
            self._context.note(session, Action.RUN_AGAIN, name, 0, now_ms, after=after)
            return new_ids

        planned = self._context.write(Right.OPERATE, unit)
        return planned, planned[0] == first

    def _repeatable(
        self, session: Session, run_ids: Sequence[int], options: RerunOptions
    ) -> tuple[list[LockedRun], reruns.Known]:
        """Lock runs and return those to repeat, the earliest due time first, and what is known."""
        rows = {run.id: run for run in reruns.lock(session, run_ids)}
        for run_id in run_ids:
            run = rows.get(run_id)
            if run is None or not self._context.actor.knows_job(run.app_id, run.job_id):
                raise Problem(Code.NO_RUN, id=run_id)
        wanted = reruns.of_newest_times(rows.values()) if options.newest else rows.values()
        runs = list(reruns.newest_chosen(session, wanted).values())
        known = reruns.Known.read(session, runs)
        for run in runs:
            reruns.check(run, known, options)
        if options.children is None:
            reruns.check_children(session, runs)
        return runs, known

    def kill(self, run_id: int) -> KillOutcome:
        """Cancel a planned run, or request the kill of one in flight; return which.

        Raises:
            Problem: there is no such run, or it has already ended.

        """

        def unit(session: Session) -> KillOutcome:
            run = self._locked(session, run_id)
            status = RunStatus(run.status)
            if status not in OPEN:
                raise Problem(Code.RUN_OVER, id=run_id, status=status.value)
            now_ms = self._context.now_ms()
            if status is RunStatus.PLANNED:
                self._cancel(session, run, now_ms)
                return KillOutcome.CANCELLED
            before = {"status": status.value, "job": run.job_id}
            self._context.note(session, Action.RUN_KILL, str(run_id), run_id, now_ms, before=before)
            transitions.request_kill(session, run_id, now_ms=now_ms)
            return KillOutcome.REQUESTED

        return self._context.write(Right.OPERATE, unit)

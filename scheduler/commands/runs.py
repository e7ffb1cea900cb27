"""Commands on runs: trigger, run again, kill and clear.

They only write rows; triggers and kills reach the broker through the scheduler's roles.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from enum import Enum
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from warren.broker import trace_context
from warren.broker.reasons.codes import Why
from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.bulk import reruns
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import cancelled
from warren.scheduler.jobs.new_run import run_of
from warren.scheduler.jobs.param import check_param
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Code, Problem
from warren.scheduler.retention.clearing import Clearing, clear_all
from warren.scheduler.retention.clearing_criteria import CalendarDays, ClearingCriteria
from warren.sql.accounts import idempotency
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.ids import RunIds, take_block
from warren.sql.instants import DAY_MS
from warren.sql.jobs import jobs
from warren.sql.jobs.jobs import JobToTrigger
from warren.sql.metrics import counts
from warren.sql.models import App, Job
from warren.sql.registry import apps, presence
from warren.sql.run_status import OPEN, Kind, RunStatus
from warren.sql.runs import planning, transitions
from warren.sql.runs.reruns import due_time_of
from warren.sql.runs.run_rows import LockedRun

#: How long an idempotency key is remembered.
KEY_MS = DAY_MS
_AS_THEY_WERE = RerunOptions()


class KillOutcome(Enum):
    """What a kill has done; the values are for people and programs alike."""

    CANCELLED = "cancelled before it was sent"
    REQUESTED = "kill requested"


class RunCommands:
    """Acts on runs on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ids = context.run_ids or RunIds(context.database)
        self._completion = Completion(self._ids, context.now_ms)

    def trigger(
        self, job_id: int, *, param: str | None = None, addresses: Sequence[str] = ()
    ) -> int:
        """Plan a run of a job now; return its id.

        Args:
            job_id: the job.
            param: the run's parameter; None = the job's own.
            addresses: the executors to choose from; empty = any of the app's.

        Raises:
            Problem: there is no such job, the parameter is too long, or an address is neither
                registered nor listed for the job's app.

        """
        return self.trigger_once(job_id, param=param, addresses=addresses)[0]

    def trigger_once(
        self,
        job_id: int,
        *,
        param: str | None = None,
        addresses: Sequence[str] = (),
        kind: Kind = Kind.MANUAL,
        once: IdempotentRequest | None = None,
        traceparent: str | None = None,
    ) -> tuple[int, bool]:
        """Plan a run like `trigger`; return its id, and whether this call planned it.

        If the same `once` was used within a day, nothing is planned, and the id is that of the
        earlier run. `traceparent` is the caller's span; an invalid one is ignored.

        Raises:
            Problem: as for `trigger`, or the key was used for a different request.

        """
        self._context.actor.demand(Right.OPERATE)
        check_param(param or "")
        context = trace_context.parsed(traceparent)
        # Reserved before the transaction, so that a retry after a lost answer plans nothing twice.
        run_id = self._ids.one()

        def unit(session: Session) -> int:
            job = self._job(session, job_id)
            now_ms = self._context.now_ms()
            if once is not None and (known := _claimed(session, once, run_id, now_ms)) != run_id:
                return known
            for address in addresses:
                _check_address(session, job, address)
            usual = run_of(job, kind=kind, scheduled_at=now_ms, due_at=now_ms)
            run = replace(
                usual,
                param=usual.param if param is None else param,
                origin_id=None,
                wanted_addresses=",".join(addresses) or None,
                run_id=run_id,
                traceparent=context.header if context else None,
            )
            planning.plan(session, [run], self._ids)
            after = {"run": run_id, "param": run.param, "addresses": run.wanted_addresses or ""}
            name = f"{job.app}/{job.name}"
            self._context.note(session, Action.JOB_TRIGGER, name, job.id, now_ms, after=after)
            return run_id

        planned = self._context.write(Right.OPERATE, unit)
        return planned, planned == run_id

    def _job(self, session: Session, job_id: int) -> JobToTrigger:
        job = jobs.to_trigger(session, job_id)
        if job is None or not self._context.actor.knows_job(job.app_id, job.id):
            raise Problem(Code.NO_JOB, id=job_id)
        return job

    def rerun(
        self,
        run_ids: Sequence[int],
        options: RerunOptions = _AS_THEY_WERE,
        *,
        once: IdempotentRequest | None = None,
    ) -> tuple[list[int], bool]:
        """Run runs again, each for its due time; return the new runs, and whether they are new.

        All of them run again or none. Of the attempts of one shard of a due time, the newest does.
        If the same `once` was used within a day, only the first of the earlier runs is returned.

        Raises:
            Problem: there is no such run, it or a later one for its due time is open, its job or
                its version of the script is gone, it is not said whether children that have
                already run for its due time run again, or the key was used for a different request.

        """
        self._context.actor.demand(Right.OPERATE)
        # Reserved before the transaction, so that a retry after a lost answer plans nothing twice;
        # of the sequence itself, so that these ids are higher than those of all that is repeated.
        first = self._context.database.write(partial(take_block, size=len(run_ids)))

        def unit(session: Session) -> list[int]:
            now_ms = self._context.now_ms()
            if once is not None and (known := _claimed(session, once, first, now_ms)) != first:
                return [known]
            runs = self._repeatable(session, run_ids, options)
            planned = [
                reruns.repeat(
                    run,
                    session.get_one(Job, run.job_id),
                    run_id=first + index,
                    now_ms=now_ms,
                    current=options.current,
                )
                for index, run in enumerate(runs)
            ]
            quiet = set(map(due_time_of, runs)) if options.children is False else ()
            planning.plan_asked(session, reruns.with_origins(planned, quiet), self._ids)
            new_ids = list(range(first, first + len(runs)))
            after: dict[str, Any] = {"runs": [run.id for run in runs], "planned": new_ids}
            if options.current:
                after["current"] = True
            if options.children is not None:
                after["children"] = options.children
            name = f"{len(runs)} runs" if len(runs) > 1 else f"{runs[0].id}"
            self._context.note(session, Action.RUN_AGAIN, name, 0, now_ms, after=after)
            return new_ids

        planned = self._context.write(Right.OPERATE, unit)
        return planned, planned[0] == first

    def _repeatable(
        self, session: Session, run_ids: Sequence[int], options: RerunOptions
    ) -> list[LockedRun]:
        """Lock runs and return those to repeat, the earliest due time first."""
        rows = {run.id: run for run in reruns.lock(session, run_ids)}
        for run_id in run_ids:
            run = rows.get(run_id)
            if run is None or not self._context.actor.knows_job(run.app_id, run.job_id):
                raise Problem(Code.NO_RUN, id=run_id)
        runs = list(reruns.newest_chosen(rows.values()).values())
        known = reruns.Known.read(session, runs)
        for run in runs:
            reruns.check(run, known, options)
        if options.children is None:
            reruns.check_children(session, runs)
        return runs

    def kill(self, run_id: int) -> KillOutcome:
        """Cancel a planned run, or request the kill of one in flight; return which.

        Raises:
            Problem: there is no such run, or it has already ended.

        """

        def unit(session: Session) -> KillOutcome:
            run = next(iter(transitions.lock(session, [run_id])), None)
            if run is None or not self._context.actor.knows_job(run.app_id, run.job_id):
                raise Problem(Code.NO_RUN, id=run_id)
            status = RunStatus(run.status)
            if status not in OPEN:
                raise Problem(Code.RUN_OVER, id=run_id, status=status.value)
            now_ms = self._context.now_ms()
            before = {"status": status.value, "job": run.job_id}
            self._context.note(session, Action.RUN_KILL, str(run_id), run_id, now_ms, before=before)
            if status is not RunStatus.PLANNED:
                transitions.request_kill(session, run_id, now_ms=now_ms)
                return KillOutcome.REQUESTED
            why = Why.CANCELLED_BY(who=self._context.actor.who)
            ended = self._completion.end(session, [cancelled(run_id, why, now_ms)]).ended
            counts.add_cancelled(session, Counter(one.app_id for one in ended))
            return KillOutcome.CANCELLED

        return self._context.write(Right.OPERATE, unit)

    def clear(
        self,
        criteria: ClearingCriteria,
        *,
        dry_run: bool = False,
        on_progress: Callable[[int], None] = lambda _count: None,
    ) -> int:
        """Delete final runs in small steps; return how many.

        `on_progress` is called after each step with the count so far. With `dry_run`, runs are
        only counted. Runs that come due later stay, so that it ends however busy the cluster is.

        Raises:
            Problem: the criteria name an app or job that does not exist for the actor.

        """
        self._context.write(
            Right.OPERATE, lambda session: self._note_clearing(session, criteria, dry_run=dry_run)
        )
        database, setting = self._context.database, self._context.timezone
        # Cleared runs are added to the days that the schedulers have counted.
        days = CalendarDays(database.read(lambda session: cluster_zone(session, setting)))
        now_ms = self._context.now_ms()
        if criteria.before_ms is None and not criteria.keep:
            # Due times are stored in whole seconds.
            criteria = replace(criteria, keep=None, before_ms=now_ms + 1_000)
        clearing = Clearing(
            database, criteria, by=self._context.actor.who, days=days, dry_run=dry_run
        )
        return clear_all(clearing, now_ms, on_progress=on_progress)

    def _note_clearing(
        self, session: Session, criteria: ClearingCriteria, *, dry_run: bool
    ) -> None:
        app_id = criteria.app_id
        if criteria.job_id is not None:
            job = session.get(Job, criteria.job_id)
            app_id = job.app_id if job else None
        if not self._context.actor.knows(app_id):
            raise Problem(Code.NOTHING_TO_CLEAR)
        if not dry_run:
            wanted = {name: value for name, value in asdict(criteria).items() if value is not None}
            now_ms = self._context.now_ms()
            self._context.note(session, Action.RUN_CLEAR, "runs", 0, now_ms, after=wanted)


def _claimed(session: Session, once: IdempotentRequest, run_id: int, now_ms: int) -> int:
    """Return the run id of a key: `run_id`, or that of an earlier request."""
    noted = idempotency.claim(session, once, run_id=run_id, now_ms=now_ms, kept_ms=KEY_MS)
    if noted.body_hash != once.body_hash:
        raise Problem(Code.KEY_REUSED)
    return noted.run_id


def _check_address(session: Session, job: JobToTrigger, address: str) -> None:
    if presence.holder(session, presence.EXECUTOR, job.app, address) is not None:
        return
    if address not in apps.split(session.get_one(App, job.app_id).address_list):
        raise Problem(Code.WANTED_ADDRESS, "addresses", app=job.app, got=address)

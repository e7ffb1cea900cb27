"""Runs many runs again, or kills them: some at a time, each part a transaction of its own.

A part that was committed stays, whatever becomes of the rest; each leaves an entry in the audit
log. What is sent a second time with the same key plans nothing a second time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from sqlalchemy.orm import Session

from broker.reasons.codes import Why
from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.bulk.outcomes import Counts, Outcome, Part
from scheduler.commands.command_context import CommandContext
from scheduler.completion.completion import Completion
from scheduler.completion.retry_policy import End
from scheduler.routing.routes import planned_shards
from sql.accounts import idempotency
from sql.accounts.idempotency import FormKey
from sql.batch import chunks
from sql.ids import RunIds, take_block
from sql.jobs import jobs
from sql.models import Job, Run
from sql.rows import fetch, query
from sql.run_status import OPEN, Kind, RunStatus
from sql.runs import transitions
from sql.runs.ticks import Tick, tick_of

#: Runs of one transaction. A kill locks the rows that it is about, so it takes fewer.
AGAIN_AT_ONCE, KILLED_AT_ONCE = 500, 100


class _PastRun(NamedTuple):
    id: int
    app_id: int
    job_id: int
    status: str
    param: str | None
    scheduled_at: int
    origin_id: int


class BulkRunCommands:
    """Acts on many runs for one person or program."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ids = context.run_ids or RunIds(context.database)
        self._completion = Completion(self._ids, context.now_ms)

    def again(self, run_ids: Sequence[int], once: FormKey) -> Iterator[Part]:
        """Plan the jobs of runs again, each with the run's param; give the counts of each part.

        All attempts and shards of a tick make one run, as a trigger by hand does.
        """
        for part in chunks(run_ids, AGAIN_AT_ONCE):
            # Taken before, so that a commit whose answer was lost is recognized.
            first = self._context.database.write(partial(take_block, size=len(part)))
            yield self._part(partial(self._again, run_ids=part, first=first, once=once))

    def kill(self, run_ids: Sequence[int]) -> Iterator[Part]:
        """Stop runs wherever they are; give the counts of each part."""
        for part in chunks(run_ids, KILLED_AT_ONCE):
            yield self._part(partial(self._kill, run_ids=part))

    def _part(self, unit: Callable[[Session], Counts]) -> Part:
        return Part(self._context.write(Right.OPERATE, unit))

    def _again(self, session: Session, run_ids: Sequence[int], first: int, once: FormKey) -> Counts:
        found = [
            run
            for run in fetch(session, _PastRun, query(_PastRun, Run).where(Run.id.in_(run_ids)))
            if self._context.actor.knows_job(run.app_id, run.job_id)
        ]
        known = jobs.by_ids(session, {run.job_id for run in found})
        counts = Counter({Outcome.UNKNOWN: len(run_ids) - len(found)})
        wanted: dict[Tick, _PastRun] = {}
        for run in found:
            if run.status in OPEN:
                counts[Outcome.OPEN] += 1
            elif run.job_id not in known:
                counts[Outcome.JOB_GONE] += 1
            elif wanted.setdefault(tick_of(run), run) is not run:
                counts[Outcome.REPEATED] += 1
        now_ms = self._context.now_ms()
        offered = {tick: first + place for place, tick in enumerate(wanted)}
        mine = _claimed(session, once, offered, now_ms)
        planned = [
            _run_again(wanted[tick], known[tick.job_id], offered[tick], now_ms) for tick in mine
        ]
        transitions.plan(session, planned, self._ids)
        counts += Counter({Outcome.DONE: len(mine), Outcome.REPEATED: len(offered) - len(mine)})
        told = {
            "runs": [wanted[tick].id for tick in mine],
            "planned": [offered[tick] for tick in mine],
        }
        self._note(session, Action.RUN_AGAIN, len(mine), now_ms, told)
        return counts

    def _kill(self, session: Session, run_ids: Sequence[int]) -> Counts:
        found = [
            run
            for run in transitions.lock(session, run_ids)
            if self._context.actor.knows_job(run.app_id, run.job_id)
        ]
        planned = [run.id for run in found if run.status == RunStatus.PLANNED]
        flying = [
            run.id
            for run in found
            if run.status in OPEN - {RunStatus.PLANNED} and run.kill_requested_at is None
        ]
        now_ms = self._context.now_ms()
        transitions.request_kills(session, flying, now_ms=now_ms)
        self._completion.end(session, [self._cancelled(run_id, now_ms) for run_id in planned])
        done = [*planned, *flying]
        self._note(session, Action.RUN_KILL, len(done), now_ms, {"runs": sorted(done)})
        return Counter(
            {
                Outcome.DONE: len(done),
                Outcome.NOTHING: len(found) - len(done),
                Outcome.UNKNOWN: len(run_ids) - len(found),
            }
        )

    def _note(
        self, session: Session, action: Action, count: int, now_ms: int, told: dict[str, list[int]]
    ) -> None:
        if count:
            self._context.note(session, action, f"{count} runs", 0, now_ms, after=told)

    def _cancelled(self, run_id: int, now_ms: int) -> End:
        return End(
            run_id=run_id,
            status=RunStatus.CANCELLED,
            message=Why.CANCELLED_BY(who=self._context.actor.who),
            finished_at=now_ms,
            never_started=True,
        )


def _claimed(session: Session, once: FormKey, offered: dict[Tick, int], now_ms: int) -> list[Tick]:
    """Return the ticks that this form has not planned before."""
    keys = {"/".join(map(str, tick)): run_id for tick, run_id in offered.items()}
    noted = idempotency.claim_many(session, once, keys, now_ms=now_ms)
    return [
        tick
        for (tick, run_id), key in zip(offered.items(), keys, strict=True)
        if noted.get(key) == run_id
    ]


def _run_again(run: _PastRun, job: Job, run_id: int, now_ms: int) -> transitions.NewRun:
    return transitions.NewRun(
        app_id=job.app_id,
        job_id=job.id,
        handler=job.handler or "",
        param=run.param or "",
        kind=Kind.MANUAL,
        scheduled_at=now_ms,
        due_at=now_ms,
        retries_left=job.retries,
        shard_total=planned_shards(job.route),
        origin_id=None,
        script_version=job.script_version,
        run_id=run_id,
    )

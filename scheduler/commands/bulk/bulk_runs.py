"""Runs many runs again, or kills them: in parts, each with its own transaction and audit log entry.

Committed parts stay if a later one fails. A request that is sent again with the same key plans
nothing twice.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.bulk.bulk_outcomes import Counts, Outcome, Part
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import cancelled
from warren.scheduler.jobs.new_run import run_of
from warren.sql.accounts import idempotency
from warren.sql.accounts.idempotency import FormKey
from warren.sql.batch import chunks
from warren.sql.ids import RunIds, take_block
from warren.sql.jobs import jobs
from warren.sql.metrics import counts as run_counts
from warren.sql.models import Job, Run
from warren.sql.rows import fetch, query
from warren.sql.run_status import OPEN, Kind, RunStatus
from warren.sql.runs import planning, transitions
from warren.sql.runs.ticks import Tick, tick_of

#: Runs per transaction; fewer for kills, because they lock the rows.
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
    """Acts on many runs on behalf of one actor. Each method yields the outcomes part by part."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ids = context.run_ids or RunIds(context.database)
        self._completion = Completion(self._ids, context.now_ms)

    def again(self, run_ids: Sequence[int], once: FormKey) -> Iterator[Part]:
        """Plan the jobs of runs again, each with the run's param.

        All attempts and shards of a tick become one run, like a trigger by hand.
        """
        for part in chunks(run_ids, AGAIN_AT_ONCE):
            # Reserved before the transaction, so that a retry after a lost answer is recognized.
            first = self._context.database.write(partial(take_block, size=len(part)))
            yield self._part(partial(self._again, run_ids=part, first=first, once=once))

    def kill(self, run_ids: Sequence[int]) -> Iterator[Part]:
        """Cancel runs that are planned, and request kills of those in flight."""
        for part in chunks(run_ids, KILLED_AT_ONCE):
            yield self._part(partial(self._kill, run_ids=part))

    def _part(self, unit: Callable[[Session], Counts]) -> Part:
        return Part(self._context.write(Right.OPERATE, unit))

    def _again(self, session: Session, run_ids: Sequence[int], first: int, once: FormKey) -> Counts:
        runs = [
            run
            for run in fetch(session, _PastRun, query(_PastRun, Run).where(Run.id.in_(run_ids)))
            if self._context.actor.knows_job(run.app_id, run.job_id)
        ]
        known = jobs.by_ids(session, {run.job_id for run in runs})
        counts = Counter({Outcome.UNKNOWN: len(run_ids) - len(runs)})
        wanted: dict[Tick, _PastRun] = {}
        for run in runs:
            if run.status in OPEN:
                counts[Outcome.OPEN] += 1
            elif run.job_id not in known:
                counts[Outcome.JOB_GONE] += 1
            elif wanted.setdefault(tick_of(run), run) is not run:
                counts[Outcome.REPEATED] += 1
        now_ms = self._context.now_ms()
        new_ids = {tick: first + index for index, tick in enumerate(wanted)}
        ticks = _claimed(session, once, new_ids, now_ms)
        planned = [
            _run_again(wanted[tick], known[tick.job_id], new_ids[tick], now_ms) for tick in ticks
        ]
        planning.plan(session, planned, self._ids)
        counts += Counter({Outcome.DONE: len(ticks), Outcome.REPEATED: len(new_ids) - len(ticks)})
        after = {
            "runs": [wanted[tick].id for tick in ticks],
            "planned": [new_ids[tick] for tick in ticks],
        }
        self._note(session, Action.RUN_AGAIN, len(ticks), now_ms, after)
        return counts

    def _kill(self, session: Session, run_ids: Sequence[int]) -> Counts:
        runs = [
            run
            for run in transitions.lock(session, run_ids)
            if self._context.actor.knows_job(run.app_id, run.job_id)
        ]
        planned = [run.id for run in runs if run.status == RunStatus.PLANNED]
        in_flight = [
            run.id
            for run in runs
            if run.status in OPEN - {RunStatus.PLANNED} and run.kill_requested_at is None
        ]
        now_ms = self._context.now_ms()
        transitions.request_kills(session, in_flight, now_ms=now_ms)
        why = Why.CANCELLED_BY(who=self._context.actor.who)
        ends = [cancelled(run_id, why, now_ms) for run_id in planned]
        ended = self._completion.end(session, ends).ended
        run_counts.add_cancelled(session, Counter(one.app_id for one in ended))
        done = [*planned, *in_flight]
        self._note(session, Action.RUN_KILL, len(done), now_ms, {"runs": sorted(done)})
        return Counter(
            {
                Outcome.DONE: len(done),
                Outcome.NOTHING: len(runs) - len(done),
                Outcome.UNKNOWN: len(run_ids) - len(runs),
            }
        )

    def _note(
        self, session: Session, action: Action, count: int, now_ms: int, after: dict[str, list[int]]
    ) -> None:
        if count:
            self._context.note(session, action, f"{count} runs", 0, now_ms, after=after)


def _claimed(session: Session, once: FormKey, new_ids: dict[Tick, int], now_ms: int) -> list[Tick]:
    """Return the ticks that this form has not planned before."""
    keys = {"/".join(map(str, tick)): run_id for tick, run_id in new_ids.items()}
    noted = idempotency.claim_many(session, once, keys, now_ms=now_ms)
    return [
        tick
        for (tick, run_id), key in zip(new_ids.items(), keys, strict=True)
        if noted.get(key) == run_id
    ]


def _run_again(run: _PastRun, job: Job, run_id: int, now_ms: int) -> planning.NewRun:
    new = run_of(job, kind=Kind.MANUAL, scheduled_at=now_ms, due_at=now_ms)
    return replace(new, param=run.param or "", origin_id=None, run_id=run_id)

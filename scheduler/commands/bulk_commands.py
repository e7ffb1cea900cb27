"""Commands on many jobs or runs at once, and the clearing of old runs.

Committed parts stay if a later one fails. A request that is sent again with the same key plans
nothing twice.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import count, groupby
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.actor import Right
from warren.scheduler.commands import reruns
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_commands import JobCommands
from warren.scheduler.commands.reruns import (
    Counts,
    Outcome,
    Part,
    RerunOptions,
    Shard,
    outcome_of,
)
from warren.scheduler.commands.run_commands import RunCommands
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import cancelled
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Code, Problem, ProblemKind, counted
from warren.scheduler.retention.clearing import CalendarDays, Clearing, ClearingCriteria, clear_all
from warren.sql import metrics as run_counts
from warren.sql.accounts import idempotency
from warren.sql.accounts.idempotency import FormKey, IdempotentRequest
from warren.sql.batch import chunks
from warren.sql.board.due_runs import at as at_times
from warren.sql.ids import RunIds, again_if_taken, take_block
from warren.sql.listings import job_search
from warren.sql.models import Job, Run
from warren.sql.rows import fetch, query
from warren.sql.run_status import FAILURES, OPEN, RunStatus
from warren.sql.runs import planned_runs, transitions
from warren.sql.runs.planned_runs import NewRun
from warren.sql.runs.reruns import DueTime, due_times

#: Runs per transaction; fewer for kills, because they lock the rows.
RERUN_LIMIT, KILL_LIMIT = 500, 100


class _PastRun(NamedTuple):
    """A run, with what decides whether it can run again."""

    id: int
    app_id: int
    job_id: int
    status: str
    scheduled_at: int
    origin_id: int
    shard_index: int
    attempt: int
    script_version: int | None


@dataclass(slots=True)
class JobPreview:
    """What running runs of a job again would do; `name` is APP/NAME, None if the job was deleted.

    `counts` has DONE for what would run, and the reasons for what is left out.
    """

    job_id: int
    name: str | None = None
    counts: Counts = field(default_factory=Counter)


class BulkRunCommands:
    """Acts on many runs on behalf of one actor. Each method yields the outcomes part by part."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ids = context.run_ids or RunIds(context.database)
        self._completion = Completion(self._ids, context.now_ms)

    def preview(self, session: Session, run_ids: Sequence[int]) -> list[JobPreview]:
        """Return by job what `again` would do, in the order of names; unknown runs are left out."""
        jobs_of: dict[int, JobPreview] = {}
        for part in self._parts(session, run_ids):
            runs = self._known_runs(session, part)
            known = reruns.Known.read(session, runs)
            chosen = {run.id for run in reruns.newest_chosen(session, runs).values()}
            for run in runs:
                job_preview = jobs_of.setdefault(run.job_id, JobPreview(run.job_id))
                outcome = outcome_of(run, known) if run.id in chosen else Outcome.REPEATED
                job_preview.counts[outcome] += 1
        for chunk in chunks(jobs_of):
            for job_id, name in job_search.names(session, chunk, None).items():
                jobs_of[job_id].name = name
        return sorted(jobs_of.values(), key=lambda job: (job.name is None, job.name, job.job_id))

    def of_newest_times(self, session: Session, run_ids: Sequence[int]) -> list[int]:
        """Return of the runs of each job those of the newest due time; unknown ones stay."""
        known = self._known_runs(session, run_ids)
        left_out = {run.id for run in known} - {run.id for run in reruns.of_newest_times(known)}
        return [run_id for run_id in run_ids if run_id not in left_out]

    def of_whole_times(self, session: Session, run_ids: Sequence[int]) -> list[int]:
        """Return the newest failed runs of all shards of the due times of runs.

        Shards that have succeeded since are left out, but for the given runs; unknown ones stay.
        """
        times = due_times(session, run_ids)
        failed = [run.id for run in at_times(session, times.values()) if run.status in FAILURES]
        runs = self._known_runs(session, failed)
        known = reruns.Known.read(session, runs)
        chosen = [
            run.id
            for run in reruns.newest_chosen(session, runs).values()
            if run.id in run_ids or outcome_of(run, known) is not Outcome.RECOVERED
        ]
        covered = {DueTime(run.job_id, run.scheduled_at) for run in runs}
        return [*chosen, *(run_id for run_id in run_ids if times.get(run_id) not in covered)]

    def repeatable(
        self, session: Session, run_ids: Sequence[int], options: RerunOptions
    ) -> tuple[list[int], Counts]:
        """Return which of the runs can be repeated, and how many cannot, by reason."""
        runs = self._known_runs(session, run_ids)
        if options.newest:
            runs = reruns.of_newest_times(runs)
        known = reruns.Known.read(session, runs)
        chosen = reruns.newest_chosen(session, runs).values()
        found: list[int] = []
        left_out: Counts = Counter({Outcome.REPEATED: len(runs) - len(chosen)})
        for run in chosen:
            outcome = outcome_of(run, known)
            if outcome is Outcome.DONE or (outcome is Outcome.VERSION_GONE and options.current):
                found.append(run.id)
            else:
                left_out[outcome] += 1
        return found, +left_out

    def again(self, run_ids: Sequence[int], once: FormKey) -> Iterator[Part]:
        """Repeat runs, each for its due time, with its param and its version of the script.

        Of the attempts of one shard of a due time, only the newest is repeated, unless the shard
        has succeeded since. Children that have already run for a due time do not run again.
        """
        parts = self._context.database.read(lambda session: self._parts(session, run_ids))
        for part in parts:
            yield self._repeat(part, once)

    @again_if_taken
    def _repeat(self, run_ids: Sequence[int], once: FormKey) -> Part:
        # Reserved before the transaction, so that a retry after a lost answer is recognized.
        first = self._context.database.write(partial(take_block, size=len(run_ids)))
        unit = partial(self._again, run_ids=run_ids, first=first, once=once)
        return self._context.write(Right.OPERATE, unit)

    def _parts(self, session: Session, run_ids: Sequence[int]) -> list[list[int]]:
        """Return the ids in parts of about RERUN_LIMIT, all of a due time in one of them."""
        times = due_times(session, run_ids)
        nowhere = DueTime(0, 0)
        by_time = sorted(run_ids, key=lambda run_id: (times.get(run_id, nowhere)[::-1], run_id))
        parts: list[list[int]] = [[]]
        for _, group in groupby(by_time, lambda run_id: times.get(run_id, run_id)):
            same_time = list(group)
            if parts[-1] and len(parts[-1]) + len(same_time) > RERUN_LIMIT:
                parts.append([])
            parts[-1] += same_time
        return [part for part in parts if part]

    def _known_runs(self, session: Session, run_ids: Sequence[int]) -> list[_PastRun]:
        return [
            run
            for chunk in chunks(run_ids)
            for run in fetch(session, _PastRun, query(_PastRun, Run).where(Run.id.in_(chunk)))
            if self._context.actor.knows_job(run.app_id, run.job_id)
        ]

    def kill(self, run_ids: Sequence[int]) -> Iterator[Part]:
        """Cancel runs that are planned, and request kills of those in flight."""
        for part in chunks(run_ids, KILL_LIMIT):
            yield Part(self._context.write(Right.OPERATE, partial(self._kill, run_ids=part)))

    def _again(self, session: Session, run_ids: Sequence[int], first: int, once: FormKey) -> Part:
        runs = [
            run
            for run in reruns.lock(session, run_ids)
            if self._context.actor.knows_job(run.app_id, run.job_id)
        ]
        known = reruns.Known.read(session, runs)
        chosen = reruns.newest_chosen(session, runs)
        done = idempotency.items_done(session, once, [_key(shard) for shard in chosen])
        outcomes = {
            shard: Outcome.REPEATED if _key(shard) in done else outcome_of(run, known)
            for shard, run in chosen.items()
        }
        wanted = [shard for shard, outcome in outcomes.items() if outcome is Outcome.DONE]
        now_ms, zone = self._context.now_ms(), cluster_zone(session, self._context.timezone)
        planned: dict[Shard, NewRun] = {}
        problems: list[Problem] = []
        for shard, run_id in zip(wanted, count(first), strict=False):
            try:
                planned[shard] = reruns.repeat(
                    session, chosen[shard], known, run_id=run_id, now_ms=now_ms, zone=zone
                )
            except Problem as problem:
                outcomes[shard] = Outcome.REFUSED
                problems.append(problem)
        new_ids = {shard: new.run_id for shard, new in planned.items() if new.run_id is not None}
        # The rows are locked, so they cannot have been planned since.
        keys = {_key(shard): run_id for shard, run_id in new_ids.items()}
        idempotency.claim_many(session, once, keys, now_ms=now_ms)
        quiet = reruns.children_that_ran(session, [chosen[shard] for shard in planned])
        again = reruns.with_origins(session, list(planned.values()), quiet)
        planned_runs.plan_asked(session, again, self._ids)
        counts: Counts = Counter(outcomes.values())
        counts[Outcome.UNKNOWN] += len(run_ids) - len(runs)
        counts[Outcome.REPEATED] += len(runs) - len(chosen)
        after = {
            "runs": [chosen[shard].id for shard in planned],
            "planned": list(new_ids.values()),
        }
        self._note(session, Action.RUN_AGAIN, len(planned), now_ms, after)
        return Part(counts, tuple(problems))

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
        run_counts.add_cancelled(session, Counter(run.app_id for run in ended))
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
        self, session: Session, action: Action, many: int, now_ms: int, after: dict[str, list[int]]
    ) -> None:
        if many:
            self._context.note(session, action, counted(many, "run"), 0, now_ms, after=after)


def _key(shard: Shard) -> str:
    """Return the key of a shard in a form."""
    parts = [str(part) for part in shard[:3]]
    if shard.node is not None:
        parts.append(sha256(repr(tuple(shard.node)).encode()).hexdigest()[:16])
    return "/".join(parts)


#: Jobs per reported part, and jobs deleted in one transaction.
PART, DELETE_BATCH = 20, 100


class BulkJobCommands:
    """Acts on many jobs on behalf of one actor. Each method yields the outcomes part by part."""

    def __init__(self, context: CommandContext) -> None:
        self._jobs = JobCommands(context)
        self._runs = RunCommands(context)

    def start(self, job_ids: Sequence[int]) -> Iterator[Part]:
        return _each(job_ids, lambda job_id: _switched(self._jobs.start(job_id)))

    def stop(self, job_ids: Sequence[int]) -> Iterator[Part]:
        def act(job_id: int) -> _Done:
            stopped = self._jobs.stop(job_id)
            return _Done(Outcome.DONE, stopped.cancelled) if stopped else _Done(Outcome.NOTHING)

        return _each(job_ids, act)

    def undo_stop(self, job_ids: Sequence[int], stopped: range) -> Iterator[Part]:
        """Start the schedules that this actor stopped within `stopped`, in epoch milliseconds."""
        return _each(
            job_ids, lambda job_id: _switched(self._jobs.undo_stop(job_id, stopped=stopped))
        )

    def trigger(self, job_ids: Sequence[int], form: FormKey) -> Iterator[Part]:
        """Run jobs once, each with its own param; a form sent twice triggers once."""

        def act(job_id: int) -> _Done:
            key = f"{form.key}:job/{job_id}"
            once = IdempotentRequest(user_id=form.user_id, key=key, body_hash="")
            is_new = self._runs.trigger_once(job_id, once=once).is_new
            return _Done(Outcome.DONE if is_new else Outcome.REPEATED)

        return _each(job_ids, act)

    def delete(self, job_ids: Sequence[int]) -> Iterator[Part]:
        """Delete jobs.

        A job that another one has as a child is tried again after that one was deleted.
        """
        pending = list(job_ids)
        while pending:
            refused: list[tuple[int, Problem]] = []
            for part in chunks(pending, DELETE_BATCH):
                deleted, problems = self._delete(part)
                refused += problems
                if deleted:
                    done = Counter({Outcome.DONE: len(deleted)})
                    yield Part(done, cancelled=sum(deleted))
            if len(refused) == len(pending):
                yield _refused([problem for _, problem in refused])
                return
            pending = [job_id for job_id, _ in refused]

    def _delete(self, job_ids: Sequence[int]) -> tuple[list[int], list[tuple[int, Problem]]]:
        """Delete jobs together, or else one by one.

        Returns how many planned runs of each deleted job that cancelled, and the refusals by id.
        """
        try:
            return list(self._jobs.delete(job_ids).values()), []
        except Problem as problem:
            if len(job_ids) == 1:
                return [], [(job_ids[0], problem)]
        deleted: list[int] = []
        refused: list[tuple[int, Problem]] = []
        for job_id in job_ids:
            cancelled, problems = self._delete([job_id])
            deleted += cancelled
            refused += problems
        return deleted, refused


class _Done(NamedTuple):
    """What became of one job, and how many of its planned runs were cancelled."""

    outcome: Outcome
    cancelled: int = 0


def _each(job_ids: Sequence[int], act: Callable[[int], _Done]) -> Iterator[Part]:
    for part in chunks(job_ids, PART):
        counts, problems, cancelled = Counts(), [], 0
        for job_id in part:
            try:
                done = act(job_id)
                counts[done.outcome] += 1
                cancelled += done.cancelled
            except Problem as problem:
                problems.append(problem)
        refused = _refused(problems)
        yield Part(counts + refused.counts, refused.problems, cancelled)


def _refused(problems: Sequence[Problem]) -> Part:
    unknown = sum(problem.code.kind is ProblemKind.UNKNOWN for problem in problems)
    counts = {Outcome.UNKNOWN: unknown, Outcome.REFUSED: len(problems) - unknown}
    known = (problem for problem in problems if problem.code.kind is not ProblemKind.UNKNOWN)
    return Part(Counter(counts), tuple(known))


def _switched(is_changed: bool) -> _Done:
    return _Done(Outcome.DONE if is_changed else Outcome.NOTHING)


class ClearingCommands:
    """Clears runs."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def clear(
        self,
        criteria: ClearingCriteria,
        *,
        dry_run: bool = False,
        on_progress: Callable[[int], None] = lambda _count: None,
    ) -> int:
        """Delete final runs in small steps; return how many.

        `on_progress` is called after each step with the count so far. With `dry_run`, runs are
        only counted. Runs that come due later are kept, so it ends however busy the cluster is.

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
            database,
            criteria,
            by=self._context.actor.who,
            days=days,
            now_ms=now_ms,
            dry_run=dry_run,
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

"""How runs and ticks end, and whether another attempt follows: pure decisions, and the step after.

An executor's final report on a run, or the finding of another role, becomes an `End`: what
completion writes to the run's row. A tick has ended once every shard has, with all its attempts.

The step enters final states: the first final state of a run wins. Most ends report the success of a
run that is the only one of its tick. One guarded UPDATE completes all of an executor's, without
reading their rows. Runs that it does not change, and all other ends, are judged by their rows.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple, Protocol

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages import (
    MESSAGE_LIMIT,
    RESULT_LIMIT,
    Block,
    Finished,
    NotStarted,
    Outcome,
    cut_message,
    run_identity,
)
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import from_json
from warren.scheduler.flows.graph import NodeRetry
from warren.scheduler.jobs.stop_reasons import is_by_person
from warren.scheduler.problems import explanation
from warren.scheduler.schedules.registry import WAITING_KINDS
from warren.sql import limits
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.models.job_tables import Backoff, DeliveryGuarantee
from warren.sql.run_status import ENTERED_FROM, FINAL, FINE, NEVER_STARTED, RunStatus
from warren.sql.runs import queries, transitions
from warren.sql.runs.planned_runs import NewRun
from warren.sql.runs.run_rows import LockedRun, PlannedRun, RoutedRun
from warren.sql.runs.ticks import Tick
from warren.sql.runs.transitions import FinalState, SentTo, Success


class Attempt(Protocol):
    """One attempt of one shard, with the values that decide how its tick ended."""

    @property
    def id(self) -> int: ...
    @property
    def run_date(self) -> date | None: ...
    @property
    def origin_id(self) -> int: ...
    @property
    def shard_index(self) -> int: ...
    @property
    def shard_total(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def finished_at(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TickEnd:
    """A tick of which every shard has ended.

    `head_id` is its first run, of shard 0 and attempt 0 or, of re-runs, the one that is their
    origin; None if that was cleared. `status` is SUCCEEDED if the newest run of every shard did or
    was skipped, and one of them did; otherwise that of the deciding run; LOST if a shard has no run
    any more and the others did. `deciding_id` is the newest run of the first shard that was neither
    a success nor skipped, or else of the first success.
    `finished_at` is when the last run ended.
    """

    tick: Tick
    head_id: int | None
    deciding_id: int
    status: RunStatus
    finished_at: int
    run_date: date | None

    @property
    def succeeded(self) -> bool:
        """Whether it succeeded, so that children follow."""
        return self.status is RunStatus.SUCCEEDED


def tick_end(tick: Tick, runs: Sequence[Attempt]) -> TickEnd | None:
    """Return how a tick ended; None while the newest run of a shard is open.

    Args:
        tick: the tick.
        runs: all its runs by shard, origin and attempt, those of re-runs of its due time included;
        at least one. This includes a coming retry, whose row is written together with the end of
        the attempt before it.

    """
    last = {run.shard_index: run for run in runs}
    if any(run.status not in FINAL for run in last.values()):
        return None
    bad = [run for run in last.values() if run.status not in FINE]
    well = [run for run in last.values() if run.status == RunStatus.SUCCEEDED]
    deciding = (bad or well or [*last.values()])[0]
    shards = max(1, *(run.shard_total for run in runs))
    is_whole = set(last) == set(range(shards))
    first = next((run for run in runs if run.origin_id == tick.origin_id), None)
    return TickEnd(
        tick=tick,
        head_id=first.id if first is not None and _is_head(first) else None,
        deciding_id=deciding.id,
        status=RunStatus(deciding.status) if bad or is_whole else RunStatus.LOST,
        finished_at=max(run.finished_at or 0 for run in runs),
        run_date=runs[0].run_date,
    )


def _is_head(first: Attempt) -> bool:
    """Whether the first remaining run of a tick was its first run ever."""
    return first.attempt == 0 and (first.shard_index == 0 or first.id == first.origin_id)


def why_killed(
    session: Session, run: RoutedRun | LockedRun, job: JobToRun | None, *, now_ms: int
) -> Reason:
    """Return why a run in flight is to be killed: newer runs of its job replace it, or a request.

    `job` is a flow, or its scope is the cluster: executors themselves say so of others.
    """
    if job is not None and job.block == Block.COVER_EARLY:
        newer = queries.due_after(session, run, now_ms=now_ms)
        if len(newer) >= max(1, job.concurrency):
            return Why.COVERED(id=newer[-1])
    return Why.KILL_REQUESTED()


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended: its final status, and whether it provably never reached a process.

    `sent_to`, if given, is the boot that the run must have been sent to: the one that reported the
    end, or in whose queue its trigger was found.
    `only_from` and `routed_at`, if given, are the row's values when this was decided; the run ends
    only if they still hold, as it may have been sent meanwhile.
    `result` is what its handler returned, as JSON.
    `alone_of_job` is the run's job if its executor reports it as the only run of its tick, and
    `due_at` is when it was due, if the executor says so.
    `least_wait_seconds` is the shortest wait before another attempt, whatever the job says.
    `may_retry` and `retry_seconds` are what its handler says about one.
    `identity` is that of the run's trigger, if the executor says so.
    """

    run_id: int
    status: RunStatus
    message: Words
    finished_at: int
    started_at: int | None = None
    log_tail: str | None = None
    result: str = ""
    never_started: bool = False
    sent_to: SentTo | None = None
    only_from: RunStatus | None = None
    routed_at: int | None = None
    alone_of_job: int | None = None
    due_at: int | None = None
    least_wait_seconds: float = 0.0
    may_retry: bool = True
    retry_seconds: float | None = None
    identity: int = 0


class Identified(Protocol):
    """A run with the values that identify it if its id is reused."""

    @property
    def job_id(self) -> int: ...
    @property
    def scheduled_at(self) -> int: ...
    @property
    def due_at(self) -> int: ...
    @property
    def shard_index(self) -> int: ...
    @property
    def starts(self) -> int: ...


def identity_of(run: Identified) -> int:
    """Return the identity that a run's reports must carry."""
    return run_identity(run.job_id, run.scheduled_at, run.due_at, run.shard_index, run.starts)


def is_of(end: End, run: Identified) -> bool:
    """Whether an end belongs to this run, not to another one with its id.

    An executor of 0.1.0 reports at most the job and the due time.
    """
    if end.identity:
        return end.identity == identity_of(run)
    return end.alone_of_job in (None, run.job_id) and end.due_at in (None, run.due_at)


def never_started(
    run_id: int,
    why: Words,
    now_ms: int,
    *,
    sent_to: SentTo | None = None,
    routed_at: int | None = None,
    least_wait_seconds: float = 0.0,
    identity: int = 0,
) -> End:
    """Return the end of a run that was sent and provably never reached a process."""
    return End(
        run_id=run_id,
        status=RunStatus.UNDELIVERED,
        message=why,
        finished_at=now_ms,
        never_started=True,
        sent_to=sent_to,
        routed_at=routed_at,
        least_wait_seconds=least_wait_seconds,
        identity=identity,
    )


def lost(run_id: int, why: Words, now_ms: int, *, only_from: RunStatus | None = None) -> End:
    """Return the end of a run that may have started, but whose fate is unknown."""
    return End(
        run_id=run_id,
        status=RunStatus.LOST,
        message=why,
        finished_at=now_ms,
        only_from=only_from,
    )


def cancelled(run_id: int, why: Words, now_ms: int) -> End:
    """Return the end of a planned run that will not be sent."""
    return End(
        run_id=run_id,
        status=RunStatus.CANCELLED,
        message=why,
        finished_at=now_ms,
        never_started=True,
    )


def refused(run_id: int, why: Words, now_ms: int) -> End:
    """Return the end of a planned run that other runs of its job block."""
    return End(
        run_id=run_id,
        status=RunStatus.REFUSED,
        message=why,
        finished_at=now_ms,
        never_started=True,
        only_from=RunStatus.PLANNED,
    )


_STATUS: dict[Outcome, RunStatus] = {outcome: RunStatus(outcome.value) for outcome in Outcome}
#: Seconds before a run for which an executor had no room is sent again.
FULL_SECONDS = 1.0


#: How far before its routing, and after now, the reported start or end of a run may lie; in
#: milliseconds.
EARLY_MS, AHEAD_MS = DAY_MS, HOUR_MS


def plausible_instant(instant_ms: int, *, routed_at: int | None, now_ms: int) -> int:
    """Return an instant that an executor reported, or now if it is implausible."""
    earliest_ms = (now_ms if routed_at is None else routed_at) - EARLY_MS
    return instant_ms if earliest_ms <= instant_ms <= now_ms + AHEAD_MS else now_ms


def with_plausible_instants(end: End, *, routed_at: int | None, now_ms: int) -> End:
    """Return an end with the instants to record: plausible, and not after now."""
    if end.sent_to is not None:
        began = end.started_at
        end = replace(
            end,
            finished_at=plausible_instant(end.finished_at, routed_at=routed_at, now_ms=now_ms),
            started_at=began and plausible_instant(began, routed_at=routed_at, now_ms=now_ms),
        )
    if not (ahead_ms := ms_ahead(end, now_ms)):
        return end
    began = end.started_at
    return replace(end, finished_at=now_ms, started_at=began and began - ahead_ms)


def ms_ahead(end: End, now_ms: int) -> int:
    """Return how far an end lies in the future; end and start are recorded that much earlier.

    An executor's clock may be ahead, and the database's may have been set back. What follows an
    end, like a fixed delay's next tick, goes by what is recorded, and so does the audit.
    """
    return max(0, end.finished_at - now_ms)


def end_of(report: Finished | NotStarted, sent_to: SentTo, now_ms: int) -> End:
    """Return the end that a boot reports of a run sent to it."""
    if isinstance(report, NotStarted):
        return _never_started(report, sent_to, now_ms)
    return _finished(report, sent_to)


def _never_started(report: NotStarted, sent_to: SentTo, now_ms: int) -> End:
    return never_started(
        report.run_id,
        from_json(report.why) or report.reason,
        now_ms,
        sent_to=sent_to,
        least_wait_seconds=FULL_SECONDS if report.is_full else 0.0,
        identity=report.identity,
    )


def _kept(message: Words, result: str) -> tuple[Words, str]:
    """Return a run's message and result; the message says if the result is too long to be kept.

    Warren's executors never send such a result, but others may.
    """
    if len(result) <= RESULT_LIMIT:
        return message, result
    note = Why.RESULT_TOO_LONG(n=f"{len(result):,}")
    if not message:
        return note, ""
    noted = Why.NOTED(words=message, notes=(note,))
    return (noted if len(str(noted)) <= MESSAGE_LIMIT else message), ""


def _finished(report: Finished, sent_to: SentTo) -> End:
    message, result = _kept(from_json(report.why) or report.message, report.result)
    return End(
        run_id=report.run_id,
        status=_STATUS[report.outcome],
        message=message,
        finished_at=report.finished_at_ms,
        started_at=report.started_at_ms or None,
        log_tail=report.log_tail,
        result=result,
        alone_of_job=report.alone_of_job or None,
        due_at=report.due_at_ms or None,
        sent_to=sent_to,
        may_retry=report.may_retry,
        retry_seconds=report.retry_seconds,
        identity=report.identity,
    )


#: Seconds before each redelivery of a trigger that provably never started; after the last, the run
#: counts as a failed attempt.
REDELIVERY_SECONDS = (0, 1, 2, 4, 8)

#: Seconds before the next try after a refused retry: the cause is probably still there.
REFUSED_SECONDS = 1.0

#: The longest wait of an exponential backoff for jobs that name none, and a bound for its exponent.
MAX_WAIT_SECONDS = 86_400
MAX_DOUBLINGS = 30

#: Ends that are not failures by themselves; after a failed attempt the tick has still failed.
NO_FAILURE = frozenset({RunStatus.REFUSED, RunStatus.KILLED})
#: Ends of runs that no process has begun.
_NEVER_STARTED = frozenset({RunStatus.REFUSED, RunStatus.UNDELIVERED})
_RETRIED = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED})


def next_attempt(
    run: LockedRun,
    job: JobToRun | None,
    end: End,
    *,
    now_ms: int,
    chance: float,
    has_failed: bool = False,
) -> NewRun | None:
    """Return the next attempt; None if there is none.

    `chance`, from 0 to 1, places it within the job's jitter.

    A job that was deleted, or stopped by a person, has no further attempts. A run that a user asked
    to kill is not retried, nor one whose handler says a retry is useless; a refused one only if an
    earlier attempt `has_failed`.
    """
    if not end.may_retry or job is None or not _may_run_again(run, job):
        return None
    if end.status is RunStatus.UNDELIVERED and end.never_started:
        again = _redelivery(run, end, now_ms)
        return again or _retry(run, job, end, now_ms=now_ms, chance=chance)
    is_retried = (
        end.status in _RETRIED
        or (end.status is RunStatus.LOST and job.delivery == DeliveryGuarantee.AT_LEAST_ONCE)
        or (end.status is RunStatus.REFUSED and has_failed)
    )
    return _retry(run, job, end, now_ms=now_ms, chance=chance) if is_retried else None


def late_redelivery(
    run: LockedRun, job: JobToRun | None, end: End, *, now_ms: int
) -> NewRun | None:
    """Return the same attempt again, of a LOST run that never started; it never uses a retry.

    A schedule that counts from the end of its runs has gone on from the loss, so its runs are not
    repeated: two of them could overlap.
    """
    if job is None or not _may_run_again(run, job):
        return None
    if run.origin_id == 0 and job.schedule_kind in WAITING_KINDS:
        return None
    return _redelivery(run, end, now_ms)


def _may_run_again(run: LockedRun, job: JobToRun) -> bool:
    return run.kill_requested_at is None and not was_stopped(run, job)


def with_node_retry(job: JobToRun, retry: NodeRetry) -> JobToRun:
    """Return a job with the retry settings of a flow's node."""
    return job._replace(
        retry_delay=job.retry_delay if retry.delay is None else retry.delay,
        retry_backoff=retry.backoff or job.retry_backoff,
        retry_most=job.retry_most if retry.most is None else retry.most,
        retry_jitter=job.retry_jitter if retry.jitter is None else round(retry.jitter * 100),
    )


def was_stopped(run: LockedRun | PlannedRun, job: JobToRun) -> bool:
    """Whether a person stopped the job whose schedule caused this run.

    A job that stopped by itself, because its schedule ended, has a reason and still retries.
    """
    return run.origin_id == 0 and job.is_enabled == 0 and is_by_person(job)


def is_withdrawn(run: LockedRun, job: JobToRun | None, end: End) -> bool:
    """Whether a run never started because its job was stopped; it raises no alarm."""
    return job is not None and end.never_started and was_stopped(run, job)


def _redelivery(run: LockedRun, end: End, now_ms: int) -> NewRun | None:
    """Return the same attempt again, later each time; None after the last redelivery."""
    step = max(run.redeliveries, bisect_left(REDELIVERY_SECONDS, end.least_wait_seconds))
    if step >= len(REDELIVERY_SECONDS):
        return None
    return NewRun.again(
        run,
        due_at=now_ms + REDELIVERY_SECONDS[step] * 1000,
        retries_left=run.retries_left,
        starts=run.starts,
        redeliveries=step + 1,
    )


def _retry(run: LockedRun, job: JobToRun, end: End, *, now_ms: int, chance: float) -> NewRun | None:
    if run.retries_left <= 0:
        return None
    starts = run.starts + _may_have_started(end)
    least = REFUSED_SECONDS if end.status is RunStatus.REFUSED else end.least_wait_seconds
    asked = end.retry_seconds
    wait = max(wait_seconds(job, starts, chance) if asked is None else asked, least)
    return NewRun.again(
        run, due_at=now_ms + int(wait * 1000), retries_left=run.retries_left - 1, starts=starts
    )


def wait_seconds(job: JobToRun, starts: int, chance: float) -> float:
    """Return the wait before the next attempt; `starts` is how many attempts may have started.

    With an exponential backoff it doubles with each start. Jitter only shortens it, so `most`
    holds, and spreads runs that failed together.
    """
    wait = float(job.retry_delay)
    if job.retry_backoff == Backoff.EXPONENTIAL:
        wait *= 2 ** min(max(starts - 1, 0), MAX_DOUBLINGS)
        wait = min(wait, max(job.retry_most or MAX_WAIT_SECONDS, job.retry_delay))
    return wait * (1 - job.retry_jitter / 100 * chance)


def _may_have_started(end: End) -> bool:
    return not end.never_started and end.status not in _NEVER_STARTED


log = structlog.get_logger()


class SimpleSuccess(NamedTuple):
    """A success that can be written without reading its row, and the boot that reported it."""

    end: End
    sent_to: SentTo
    success: Success


class Won(NamedTuple):
    """An end that won, and the run's row as it was before."""

    row: LockedRun
    end: End


@dataclass(slots=True, kw_only=True)
class Judged:
    """Ends by their rows: those that won, and why the others, as run ids, did not.

    `ignored` came too late, or a second time. `not_theirs` were reported by an executor to which
    they were not routed. `others` are of other runs that had these ids. `unstarted` are LOST runs
    whose executor says for the first time that they never started.
    """

    won: list[Won] = field(default_factory=list)
    ignored: list[int] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    not_theirs: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)
    unstarted: list[Won] = field(default_factory=list)


def complete_simple_successes(
    session: Session, ends: Sequence[End], now_ms: int
) -> tuple[list[SimpleSuccess], list[End]]:
    """Complete simple successes of open runs; return them, and the ends that need their row."""
    times = Counter(end.run_id for end in ends)
    by_executor: dict[SentTo, list[Success]] = defaultdict(list)
    simple: dict[int, SimpleSuccess] = {}
    for end in ends:
        if times[end.run_id] == 1 and (success := _simple_success(end, now_ms)) is not None:
            simple[end.run_id] = success
            by_executor[success.sent_to].append(success.success)
    if not simple:
        return [], list(ends)
    moved = transitions.succeed_open(session, by_executor)
    won = [item for run_id, item in simple.items() if run_id in moved]
    return won, [end for end in ends if end.run_id not in moved]


def complete_by_row(session: Session, ends: Sequence[End], now_ms: int) -> Judged:
    """Lock and read the rows of runs, then end those that may end this way.

    What its executor says later of a run that was given up as LOST is stored as its late status.
    """
    judged = Judged()
    if not ends:
        return judged
    rows = {row.id: row for row in transitions.lock(session, {end.run_id for end in ends})}
    won: dict[int, Won] = {}
    late: dict[int, tuple[str, Won]] = {}
    for end in ends:
        row = rows.get(end.run_id)
        if row is None:
            judged.unknown.add(end.run_id)
        elif not _is_from_its_executor(row, end):
            judged.not_theirs.add(end.run_id)
        elif not is_of(end, row):
            judged.others.add(end.run_id)
        elif end.run_id not in won and _may_enter(row, end):
            plausible = with_plausible_instants(end, routed_at=row.routed_at, now_ms=now_ms)
            won[end.run_id] = Won(row, _as_killed(row, plausible))
        else:
            judged.ignored.append(end.run_id)
            if (status := _late_status(row, end)) is not None:
                late.setdefault(end.run_id, (status, Won(row, end)))
    first = _note_late(session, {run_id: status for run_id, (status, _) in late.items()})
    judged.unstarted = [
        told for status, told in late.values() if status == NEVER_STARTED and told.row.id in first
    ]
    judged.won = list(won.values())
    if won:
        transitions.end(session, [_final_state(ended.row, ended.end) for ended in judged.won])
        if holding := [ended.row.id for ended in judged.won if ended.row.holds]:
            limits.give_back(session, holding)
    return judged


def _simple_success(end: End, now_ms: int) -> SimpleSuccess | None:
    """Return the success of a whole tick that needs no row to be judged; else None.

    Times within a day are accepted, whenever the run was routed.
    """
    if (
        end.status is not RunStatus.SUCCEEDED
        or end.sent_to is None
        or end.alone_of_job is None
        or end.started_at is None
        or end.due_at is None
        or not isinstance(end.message, str)
    ):
        return None
    earliest_ms, latest_ms = now_ms - EARLY_MS, now_ms + AHEAD_MS
    instants = (end.started_at, end.finished_at, end.due_at)
    if not all(earliest_ms <= at <= latest_ms for at in instants):
        return None
    ahead_ms = ms_ahead(end, now_ms)
    success = Success(
        run_id=end.run_id,
        job_id=end.alone_of_job,
        due_at=end.due_at,
        message=cut_message(end.message),
        started_at=end.started_at - ahead_ms,
        finished_at=end.finished_at - ahead_ms,
        log_tail=end.log_tail or "",
        result=end.result,
    )
    return SimpleSuccess(end, end.sent_to, success)


def _is_from_its_executor(row: LockedRun, end: End) -> bool:
    return end.sent_to in (None, (row.app_id, row.address, row.boot_id))


def _may_enter(row: LockedRun, end: End) -> bool:
    if row.status in FINAL or row.status not in ENTERED_FROM[end.status]:
        return False
    if end.only_from is not None and row.status != end.only_from:
        return False
    return end.routed_at is None or row.routed_at == end.routed_at


def _as_killed(row: LockedRun, end: End) -> End:
    """Return the end of a run that never started and was killed before it could."""
    if not end.never_started or row.kill_requested_at is None or row.status == RunStatus.PLANNED:
        return end
    return End(
        run_id=end.run_id,
        status=RunStatus.KILLED,
        message=Why.KILLED_BEFORE_START(why=end.message),
        finished_at=end.finished_at,
        never_started=True,
    )


def _final_state(row: LockedRun, end: End) -> FinalState:
    return FinalState(
        run_id=end.run_id,
        status=end.status,
        message=explanation(end.message),
        finished_at=end.finished_at,
        started_at=end.started_at or row.started_at,
        log_tail=end.log_tail,
        result=end.result,
    )


def _late_status(row: LockedRun, end: End) -> str | None:
    """Return what an end says of a run that was given up as LOST; None if nothing.

    That it never started is believed only of its executor, and only if it never said otherwise.
    """
    if row.status != RunStatus.LOST or end.status is RunStatus.LOST:
        return None
    if not end.never_started:
        return end.status.value
    is_proof = end.sent_to is not None and end.routed_at in (None, row.routed_at)
    return NEVER_STARTED if is_proof and row.started_at is None else None


def _note_late(session: Session, reports: Mapping[int, str]) -> set[int]:
    """Store late statuses; return the runs that had none before."""
    first = transitions.note_late(session, reports) if reports else set()
    for run_id in sorted(first):
        log.warning("result_came_late", run_id=run_id, status=reports[run_id])
    return first

"""How runs and ticks end, as pure decisions.

An executor's final report on a run, or the finding of another role, becomes an `End`: what
completion writes to the run's row. A tick has ended once every shard has, with all its attempts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Protocol

from warren.broker.messages import (
    MESSAGE_LIMIT,
    RESULT_LIMIT,
    Finished,
    NotStarted,
    Outcome,
    run_identity,
)
from warren.broker.reasons import Why, Words, from_json
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.run_status import FINAL, FINE, RunStatus
from warren.sql.runs.successes import SentTo
from warren.sql.runs.ticks import Tick


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

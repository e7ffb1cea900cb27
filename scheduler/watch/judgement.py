"""Judges by a job's runs whether its due times met its expectations. Pure; instants are in ms.

due times ── deadline passed, not done ──> a breach ── it or a later one done ──> over
    └─ deadline ahead ──> the next look
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from warren.sql.alarms.watches import SkippedSpan, WatchedRun
from warren.sql.instants import moment
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.registry.pauses import PauseRow
from warren.sql.run_status import FINE, LATE_MS, RunStatus

#: If a day is skipped, or does not have the time of day, the next one has it.
_DAYS = 3


class Span(NamedTuple):
    """A time, in ms; `until_at` None = it has not ended."""

    since_at: int
    until_at: int | None


@dataclass(frozen=True, slots=True)
class DueTime:
    """A due time of a schedule: when its first run started, and when it had succeeded.

    `sent_at` is when its first run was sent; `waits` are the times in which one of its runs was due
    and not sent. The runs of a flow's nodes may wait as long as it runs.
    """

    due_at: int
    started_at: int | None = None
    succeeded_at: int | None = None
    sent_at: int | None = None
    waits: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job has met a rule.

    Attributes:
        broken_at: the first due time that broke it; None = none did.
        judged_until: the last due time that was judged.
        next_look_at: the next deadline; None = none is known.

    """

    broken_at: int | None
    judged_until: int
    next_look_at: int | None


def due_times(
    runs: Iterable[WatchedRun],
    skips: Iterable[SkippedSpan],
    *,
    after_ms: int,
    next_tick_ms: int,
) -> list[DueTime]:
    """Return the due times of a schedule after an instant, in order, with the next one.

    A run of another origin, such as a re-run, counts for the due time that it repeats, and that of
    a backfill for one that was skipped. Planned runs that were cancelled do not count: if there is
    a reason why nothing ran, it is a skip.
    """
    of_due: dict[int, list[WatchedRun]] = defaultdict(list)
    for run in runs:
        of_due[run.scheduled_at].append(run)
    by_due = {
        due_at: _due_time(due_at, those)
        for due_at, those in of_due.items()
        if any(run.origin_id == 0 and run.status != RunStatus.CANCELLED for run in those)
    }
    skipped = {at for skip in skips for at in (skip.from_at, skip.to_at)}
    further = {at for at in skipped if at > after_ms}
    if after_ms < next_tick_ms < PARKED_MS:
        further.add(next_tick_ms)
    for due_at in further - by_due.keys():
        later = [run for run in of_due[due_at] if run.status != RunStatus.CANCELLED]
        by_due[due_at] = _due_time(due_at, later) if later else DueTime(due_at)
    return [by_due[due_at] for due_at in sorted(by_due)]


def _due_time(due_at: int, runs: Sequence[WatchedRun]) -> DueTime:
    started = [run.started_at for run in runs if run.started_at is not None]
    ends: dict[int, int] = {}
    for run in runs:
        if run.status in FINE and run.finished_at is not None:
            ends[run.shard_index] = min(run.finished_at, ends.get(run.shard_index, PARKED_MS))
    sent = [at for run in runs if (at := run.routed_at or run.started_at) is not None]
    total = max(run.shard_total for run in runs) or 1
    return DueTime(
        due_at,
        min(started) if started else None,
        max(ends.values()) if len(ends) >= total else None,
        min(sent, default=None),
        tuple(Span(run.due_at, run.routed_at or run.finished_at) for run in runs),
    )


def judge(
    times: Sequence[DueTime],
    *,
    deadline: Callable[[int], int],
    done_at: Callable[[DueTime], int | None],
    judged_until: int,
    pauses: Sequence[PauseRow],
    now_ms: int,
) -> Verdict:
    """Return which due time was not done by its deadline.

    A pause in which it was due excuses it. One that held back its runs later on moves its deadline
    by as long.
    """
    broken_at = next_look_at = None
    for due_time in times:
        if due_time.due_at <= judged_until:
            continue
        limit = deadline(due_time.due_at)
        if limit > now_ms:
            next_look_at = limit
            break
        is_excused, done = _was_due_in(pauses, due_time), done_at(due_time)
        if not is_excused:
            limit = _later(limit, due_time, pauses, now_ms)
        if not is_excused and done is None and limit > now_ms:
            next_look_at = limit
            break
        judged_until = due_time.due_at
        if not is_excused and broken_at is None and (done is None or done > limit):
            broken_at = due_time.due_at
    return Verdict(broken_at, judged_until, next_look_at)


def is_made_up(
    times: Iterable[DueTime], due_at: int, done_at: Callable[[DueTime], int | None]
) -> bool:
    """Whether a due time, or one after it, was done."""
    return any(due_time.due_at >= due_at and done_at(due_time) is not None for due_time in times)


def _was_due_in(pauses: Iterable[PauseRow], due_time: DueTime) -> bool:
    """Whether a pause held back a due time from the first.

    It may have been due so shortly before that it could not be sent any more.
    """
    return any(
        pause.since_at - LATE_MS <= due_time.due_at <= _end(pause)
        and (due_time.sent_at is None or due_time.sent_at > pause.since_at)
        for pause in pauses
    )


def _later(limit: int, due_time: DueTime, pauses: Iterable[PauseRow], now_ms: int) -> int:
    """Return a deadline moved by as long as pauses held back runs of a due time before it."""
    held = [
        Span(max(pause.since_at, wait.since_at), min(_end(pause), _end(wait), now_ms))
        for pause in pauses
        for wait in due_time.waits
    ]
    for span in _apart(held):
        if span.since_at < limit:
            limit += _end(span) - span.since_at
    return limit


def _apart(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the same time as spans that do not overlap, in order; empty ones are left out."""
    reached = 0
    for span in sorted(spans, key=lambda span: span.since_at):
        since_at = max(span.since_at, reached)
        if _end(span) > since_at:
            reached = _end(span)
            yield Span(since_at, span.until_at)


def _end(span: Span | PauseRow) -> int:
    return PARKED_MS if span.until_at is None else span.until_at


def next_time(after_ms: int, at: time, zone: ZoneInfo) -> int:
    """Return the first instant after another at which a zone's clock shows a time of day.

    If the clock skips it on a day, it comes as long after the change as it would be past it; for an
    instant after the change, only the next day has it.
    """
    shown = moment(after_ms, zone)
    first_day = 0 if shown.time() < at or _shows(zone, shown.date(), at) else 1
    instants = (
        int(datetime.combine(day, at, zone).replace(fold=fold).timestamp()) * 1_000
        for day in (shown.date() + timedelta(days=days) for days in range(first_day, _DAYS))
        for fold in (0, 1)
    )
    return next(instant for instant in instants if instant > after_ms)


def _shows(zone: ZoneInfo, day: date, at: time) -> bool:
    """Whether a zone's clock ever shows a time of this day."""
    shown = datetime.combine(day, at, zone)
    return shown.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == shown.replace(tzinfo=None)


def since_success(
    last_success_ms: int,
    since_ms: int,
    pauses: Iterable[PauseRow],
    now_ms: int,
    *,
    has_held: Callable[[Span], bool],
) -> int:
    """Return since when a success is awaited: since the last one, or since it could be.

    The wait starts again after a pause that held back a due time; other pauses do not count.
    """
    since_ms = max(last_success_ms, since_ms, 0)
    paused = [Span(pause.since_at, min(_end(pause), now_ms)) for pause in pauses]
    for span in _apart(paused):
        if _end(span) > since_ms:
            length = _end(span) - max(span.since_at, since_ms)
            since_ms = _end(span) if has_held(span) else since_ms + length
    return since_ms

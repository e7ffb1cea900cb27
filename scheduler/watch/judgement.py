"""Judges by a job's runs whether its due times met its expectations. Pure; instants are in ms.

due times ── deadline passed, not done ──> a breach ── it or a later one done ──> over
    └─ deadline ahead ──> the next look
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from warren.sql.alarms.watches import SkippedSpan, WatchedRun
from warren.sql.instants import moment
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.registry.pauses import PauseRow
from warren.sql.run_status import FINE, RunStatus

#: If a day is skipped, or does not have the time of day, the next one has it.
_DAYS = 3


@dataclass(frozen=True, slots=True)
class DueTime:
    """A due time of a schedule: when its first run started, and when it had succeeded."""

    due_at: int
    started_at: int | None = None
    succeeded_at: int | None = None


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

    A run of another origin, such as a re-run, counts for the due time that it repeats. Planned
    runs that were cancelled do not count: if there is a reason why nothing ran, it is a skip.
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
    for due_at in further:
        by_due.setdefault(due_at, DueTime(due_at))
    return [by_due[due_at] for due_at in sorted(by_due)]


def _due_time(due_at: int, runs: Sequence[WatchedRun]) -> DueTime:
    started = [run.started_at for run in runs if run.started_at is not None]
    ends: dict[int, int] = {}
    for run in runs:
        if run.status in FINE and run.finished_at is not None:
            ends[run.shard_index] = min(run.finished_at, ends.get(run.shard_index, PARKED_MS))
    total = max(run.shard_total for run in runs) or 1
    return DueTime(
        due_at,
        min(started) if started else None,
        max(ends.values()) if len(ends) >= total else None,
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
    """Return which due time was not done by its deadline; a pause excuses those it held back."""
    broken_at = next_look_at = None
    for due_time in times:
        if due_time.due_at <= judged_until:
            continue
        limit = deadline(due_time.due_at)
        if limit > now_ms:
            next_look_at = limit
            break
        judged_until = due_time.due_at
        if is_held(pauses, due_time.due_at, limit):
            continue
        done = done_at(due_time)
        if broken_at is None and (done is None or done > limit):
            broken_at = due_time.due_at
    return Verdict(broken_at, judged_until, next_look_at)


def is_made_up(
    times: Iterable[DueTime], due_at: int, done_at: Callable[[DueTime], int | None]
) -> bool:
    """Whether a due time, or one after it, was done."""
    return any(due_time.due_at >= due_at and done_at(due_time) is not None for due_time in times)


def is_held(pauses: Iterable[PauseRow], from_ms: int, to_ms: int) -> bool:
    """Whether dispatch was paused at any time between two instants."""
    return any(
        pause.since_at <= to_ms and (pause.until_at is None or pause.until_at >= from_ms)
        for pause in pauses
    )


def next_time(after_ms: int, at: time, zone: ZoneInfo) -> int:
    """Return the first instant after another at which a zone's clock shows a time of day."""
    day = moment(after_ms, zone).date()
    instants = (
        int(datetime.combine(day + timedelta(days=days), at, zone).replace(fold=fold).timestamp())
        * 1_000
        for days in range(_DAYS)
        for fold in (0, 1)
    )
    return next(instant for instant in instants if instant > after_ms)


def since_success(
    last_success_ms: int, since_ms: int, pauses: Iterable[PauseRow], now_ms: int
) -> int:
    """Return when the wait for the next success began: at the last one, or when pauses ended."""
    ends = (
        pause.until_at
        for pause in pauses
        if pause.until_at is not None and pause.until_at <= now_ms
    )
    return max(last_success_ms, since_ms, *ends, 0)

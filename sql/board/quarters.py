"""Runs by quarter of an hour and app: added up as they end, and counted again from their rows.

A count from rows includes runs whose end has not been taken in yet. It is made by one statement
with the rows that say so, which therefore see the same moment, and these are taken off again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import delete, func, insert, literal, null, select, union_all
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.dialects.supported import of, use_index
from warren.sql.instants import DAY_MS, at, epoch_ms
from warren.sql.models import Job, Quarter, Run, SkippedTicks, Unfolded
from warren.sql.models.run_tables import BY_DUE_SECOND
from warren.sql.rows import fetch, query
from warren.sql.run_status import FAILURES, RunStatus
from warren.sql.runs import day_reports
from warren.sql.unfolded import (
    QUARTER_MS,
    Outcomes,
    QuarterCounts,
    QuarterKey,
    quarter_of,
    read_counts,
)

#: How long quarters are kept: a week, to compare with, and a day.
KEPT_MS = 8 * DAY_MS


class StoredQuarter(NamedTuple):
    """What was due in a quarter of an hour in an app."""

    quarter_at: int
    app_id: int
    succeeded: int
    failed: int
    skipped: int


class QuarterTotal(NamedTuple):
    """What was due in a quarter of an hour."""

    quarter_at: int
    succeeded: int
    failed: int
    skipped: int


def add(session: Session, counts: QuarterCounts) -> None:
    """Add to what is stored."""
    known = _stored(session, {key.quarter_at for key in counts})
    new, changed = [], []
    for key, number in sorted(counts.items()):
        if not any(number):
            continue
        row = known.get(key)
        if row is None:
            new.append(_row(key, number, 0))
        else:
            sums = Outcomes(row.succeeded, row.failed).plus(number)
            changed.append(_row(key, sums, row.skipped))
    _replace(session, changed)
    if new:
        session.execute(insert(Quarter), new)


def count_runs(session: Session, quarter_at: int) -> dict[int, Outcomes]:
    """Return the runs of a quarter that were taken in, by app, as their rows have it."""
    is_over = Run.status.in_({*FAILURES, RunStatus.SUCCEEDED})
    runs = (
        use_index(select(Run.app_id, Run.status, func.count(), null()), Run, BY_DUE_SECOND)
        .where(Run.due_second >= at(quarter_at), Run.due_second < at(quarter_at + QUARTER_MS))
        .where(is_over)
        .group_by(Run.app_id, Run.status)
    )
    waiting = select(literal(0), literal(""), literal(0), Unfolded.counts)
    both: Any = union_all(runs, waiting)
    sums: dict[int, Outcomes] = defaultdict(Outcomes)
    for app_id, status, number, not_yet in session.execute(both):
        if not_yet is None:
            has_failed = status in FAILURES
            one = Outcomes(0, number) if has_failed else Outcomes(number, 0)
            sums[app_id] = sums[app_id].plus(one)
        else:
            for key, outcomes in read_counts(not_yet).items():
                if key.quarter_at == quarter_at:
                    sums[key.app_id] = sums[key.app_id].plus(outcomes, -1)
    return {app_id: number for app_id, number in sums.items() if any(number)}


def first(session: Session, since_ms: int, until_ms: int) -> int:
    """Return the first quarter in a span of time in which runs were due; its end if none were."""
    due = day_reports.first_due(session, at(since_ms), at(until_ms))
    return until_ms if due is None else quarter_of(epoch_ms(due))


def recount(session: Session, quarter_at: int) -> None:
    """Count the runs of a quarter again, from their rows."""
    counted = count_runs(session, quarter_at)
    known = _stored(session, [quarter_at])
    rows = []
    for app_id in sorted(counted.keys() | {key.app_id for key in known}):
        key = QuarterKey(quarter_at, app_id)
        skipped = known[key].skipped if key in known else 0
        rows.append(_row(key, counted.get(app_id, Outcomes()), skipped))
    _replace(session, rows)


def count_skips(session: Session, since_ms: int, until_ms: int) -> dict[QuarterKey, int]:
    """Return the skipped due times by quarter and app, from the first one to the last."""
    first, last = quarter_of(since_ms), quarter_of(until_ms)
    skips = (
        select(Job.app_id, SkippedTicks.from_at, SkippedTicks.to_at, SkippedTicks.count)
        .join(Job, Job.id == SkippedTicks.job_id)
        .where(SkippedTicks.to_at >= first, SkippedTicks.from_at < last + QUARTER_MS)
    )
    numbers: Counter[QuarterKey] = Counter()
    for app_id, from_at, to_at, count in session.execute(skips):
        for quarter_at, number in spread(from_at, to_at, count):
            if first <= quarter_at <= last:
                numbers[QuarterKey(quarter_at, app_id)] += number
    return numbers


def recount_skips(session: Session, since_ms: int, until_ms: int) -> None:
    """Count the skipped due times of some quarters again."""
    counted = count_skips(session, since_ms, until_ms)
    between = Quarter.quarter_at.between(quarter_of(since_ms), quarter_of(until_ms))
    known = {
        QuarterKey(row.quarter_at, row.app_id): row
        for row in fetch(session, StoredQuarter, query(StoredQuarter, Quarter).where(between))
    }
    rows = []
    for key in sorted(counted.keys() | known.keys()):
        row, skipped = known.get(key), counted.get(key, 0)
        runs = Outcomes() if row is None else Outcomes(row.succeeded, row.failed)
        if row is None or row.skipped != skipped:
            rows.append(_row(key, runs, skipped))
    _replace(session, rows)


def spread(from_at: int, to_at: int, count: int) -> Iterable[tuple[int, int]]:
    """Yield the quarters of due times at equal distances, with how many each has."""
    if count <= 1 or to_at <= from_at:
        yield quarter_of(from_at), count
        return
    distance = (to_at - from_at) / (count - 1)
    quarter_at, reached = quarter_of(from_at), 0
    while reached < count:
        until = int((quarter_at + QUARTER_MS - 1 - from_at) / distance) + 1
        until = min(max(until, reached), count)
        if until > reached:
            yield quarter_at, until - reached
        reached, quarter_at = until, quarter_at + QUARTER_MS


def between(
    session: Session, since_ms: int, until_ms: int, app_ids: Collection[int] | None
) -> list[StoredQuarter]:
    """Return what is stored of the quarters in a span of time, for these apps; None = all."""
    wanted = query(StoredQuarter, Quarter).where(
        Quarter.quarter_at >= quarter_of(since_ms), Quarter.quarter_at < until_ms
    )
    if app_ids is not None:
        wanted = wanted.where(Quarter.app_id.in_(app_ids))
    return fetch(session, StoredQuarter, wanted.order_by(Quarter.quarter_at, Quarter.app_id))


def totals(
    session: Session, since_ms: int, until_ms: int, app_ids: Collection[int] | None
) -> list[QuarterTotal]:
    """Return the sums of these apps in each quarter of a span of time; None = of all."""
    total = of(session).sum_of
    wanted = query(
        QuarterTotal,
        Quarter,
        succeeded=total(Quarter.succeeded),
        failed=total(Quarter.failed),
        skipped=total(Quarter.skipped),
    ).where(Quarter.quarter_at >= quarter_of(since_ms), Quarter.quarter_at < until_ms)
    if app_ids is not None:
        wanted = wanted.where(Quarter.app_id.in_(app_ids))
    grouped = wanted.group_by(Quarter.quarter_at).order_by(Quarter.quarter_at)
    return fetch(session, QuarterTotal, grouped)


def forget(session: Session, before_ms: int) -> None:
    """Delete quarters that are too old."""
    modify(session, delete(Quarter).where(Quarter.quarter_at < before_ms))


def _stored(session: Session, starts: Collection[int]) -> Mapping[QuarterKey, StoredQuarter]:
    wanted = query(StoredQuarter, Quarter).where(Quarter.quarter_at.in_(sorted(starts)))
    return {
        QuarterKey(row.quarter_at, row.app_id): row for row in fetch(session, StoredQuarter, wanted)
    }


def _replace(session: Session, rows: list[dict[str, Any]]) -> None:
    """Store rows in place of those with the same quarter and app."""
    for row in rows:
        same = (Quarter.quarter_at == row["quarter_at"], Quarter.app_id == row["app_id"])
        modify(session, delete(Quarter).where(*same))
    if kept := [row for row in rows if row["succeeded"] or row["failed"] or row["skipped"]]:
        session.execute(insert(Quarter), kept)


def _row(key: QuarterKey, runs: Outcomes, skipped: int) -> dict[str, Any]:
    return {
        "quarter_at": key.quarter_at,
        "app_id": key.app_id,
        "succeeded": runs.succeeded,
        "failed": runs.failed,
        "skipped": skipped,
    }

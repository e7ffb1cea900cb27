"""What transactions have changed about runs and skips, for the board to take in.

    the end of a run ─┐ in one transaction                     ┌─> state of jobs, errors, quarters
                      └─> a row of warren_unfolded ── board ───┤   in one transaction
                                                               └─> the row is deleted

A row stands for a whole transaction, however many runs it ends, and is found by being there, not by
a time or an id: what commits late is taken in late, but never missed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import delete, exists, insert, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, modify
from warren.sql.instants import MINUTE_MS
from warren.sql.models import Unfolded
from warren.sql.rows import fetch, query
from warren.sql.run_status import FAILURES, RunStatus

QUARTER_MS = 15 * MINUTE_MS


def quarter_of(instant_ms: int) -> int:
    """Return the start of the quarter of an hour."""
    return instant_ms - instant_ms % QUARTER_MS


class QuarterKey(NamedTuple):
    """A quarter of an hour of an app."""

    quarter_at: int
    app_id: int


class Outcomes(NamedTuple):
    """Runs that succeeded and failed."""

    succeeded: int = 0
    failed: int = 0

    def plus(self, other: "Outcomes", sign: int = 1) -> "Outcomes":
        """Return the sum of two, or their difference."""
        return Outcomes(self.succeeded + sign * other.succeeded, self.failed + sign * other.failed)


#: What is added to the counts of quarters.
QuarterCounts = Mapping[QuarterKey, Outcomes]


class RunEnd(NamedTuple):
    """A run that this transaction has ended."""

    id: int
    app_id: int
    due_at: int | None
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one transaction, or several, have changed.

    `runs` have ended or are open again. Runs of `jobs` were deleted or added. The jobs in `skips`
    have skipped due times, the first of them at `skipped_since`.
    """

    runs: Collection[int] = ()
    counts: QuarterCounts = field(default_factory=dict)
    jobs: Collection[int] = ()
    skips: Collection[int] = ()
    skipped_since: int | None = None


class UnfoldedRow(NamedTuple):
    id: int
    runs: str
    counts: str
    jobs: str
    skips: str
    skipped_since: int | None


def note(session: Session, change: Change) -> None:
    """Write down what this transaction changes."""
    row = {
        "runs": ",".join(map(str, change.runs)),
        "counts": _text(change.counts),
        "jobs": ",".join(map(str, change.jobs)),
        "skips": ",".join(map(str, change.skips)),
        "skipped_since": change.skipped_since,
    }
    if any(row.values()):
        session.connection().execute(_INSERT, row)


def note_ended(session: Session, ended: Collection[RunEnd], reopened: Iterable[int] = ()) -> None:
    """Write down the runs that this transaction ends, and those whose due time it opens again."""
    runs = [*(run.id for run in ended), *reopened]
    if runs:
        note(session, Change(runs=runs, counts=counted(ended)))


def counted(runs: Iterable[RunEnd]) -> dict[QuarterKey, Outcomes]:
    """Count successes and failures by the quarter in which they were due; other ends count not."""
    numbers: Counter[tuple[int, int, bool]] = Counter(
        (quarter_of(run.due_at), run.app_id, run.status in FAILURES)
        for run in runs
        if run.due_at is not None and (run.status in FAILURES or run.status == RunStatus.SUCCEEDED)
    )
    sums: dict[QuarterKey, Outcomes] = {}
    for (quarter_at, app_id, has_failed), number in numbers.items():
        key, one = QuarterKey(quarter_at, app_id), (0, number) if has_failed else (number, 0)
        sums[key] = sums.get(key, Outcomes()).plus(Outcomes(*one))
    return sums


def exist(session: Session) -> bool:
    """Return whether there is something to take in."""
    return bool(session.execute(select(exists().where(Unfolded.id > 0))).scalar())


def oldest(session: Session, limit: int) -> list[UnfoldedRow]:
    """Return rows that wait, those written first, with `limit` runs in all or not many more."""
    oldest = query(UnfoldedRow, Unfolded).order_by(Unfolded.id).limit(limit)
    chosen: list[UnfoldedRow] = []
    number = 0
    for row in fetch(session, UnfoldedRow, oldest):
        chosen.append(row)
        number += 1 + row.runs.count(",")
        if number >= limit:
            break
    return chosen


def forget(session: Session, ids: Iterable[int]) -> None:
    """Delete rows that were taken in."""
    for chunk in chunks(ids):
        modify(session, delete(Unfolded).where(Unfolded.id.in_(chunk)))


def together(rows: Iterable[UnfoldedRow]) -> Change:
    """Return what several transactions have changed."""
    runs: set[int] = set()
    jobs: set[int] = set()
    skips: set[int] = set()
    since: list[int] = []
    counts: dict[QuarterKey, Outcomes] = {}
    for row in rows:
        runs.update(_ids(row.runs))
        jobs.update(_ids(row.jobs))
        skips.update(_ids(row.skips))
        if row.skipped_since is not None:
            since.append(row.skipped_since)
        for key, outcomes in read_counts(row.counts).items():
            counts[key] = counts.get(key, Outcomes()).plus(outcomes)
    return Change(
        runs=runs, counts=counts, jobs=jobs, skips=skips, skipped_since=min(since, default=None)
    )


def read_counts(text: str) -> dict[QuarterKey, Outcomes]:
    """Return the counts that a row has."""
    numbers = (map(int, part.split(":")) for part in text.split(",") if part)
    return {
        QuarterKey(quarter * QUARTER_MS, app_id): Outcomes(succeeded, failed)
        for quarter, app_id, succeeded, failed in numbers
    }


def _text(counts: QuarterCounts) -> str:
    """Return counts as quarter, app, successes and failures, such as `1988889:1:20:0,…`."""
    return ",".join(
        f"{key.quarter_at // QUARTER_MS}:{key.app_id}:{number.succeeded}:{number.failed}"
        for key, number in counts.items()
    )


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


_INSERT = insert(Unfolded)

"""Finds what a database that lost commits leaves behind: epochs, and runs with others' results."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.sql import epochs
from warren.sql.epochs import EpochRow
from warren.sql.runs import tick_rows
from warren.sql.runs.run_rows import RunFacts
from warren.sql.runs.tick_rows import JobRange

#: The most runs that a report names.
MAX_ODD = 1_000
#: How much may have been lost before an epoch began, and how far ahead due times are planned.
_LOST_MS, _PLANNED_MS = 3_600_000, 5_000


class AuditedEpoch(NamedTuple):
    """An epoch, and how many runs have ids that were given out a second time before it."""

    epoch: EpochRow
    again: int


class FoundRun(NamedTuple):
    """A run with an impossible row, its job's name, and the epoch to blame, if any."""

    run: RunFacts
    job: str
    epoch: EpochRow | None

    @property
    def is_early(self) -> bool:
        """Whether it started before it was due; otherwise it never started."""
        return self.run.started_at is not None


def audited_epochs(session: Session, bounds: tuple[int, int]) -> list[AuditedEpoch]:
    """Return the epochs that began in these bounds, in epoch milliseconds."""
    return [
        AuditedEpoch(epoch, epochs.count_between(session, epoch))
        for epoch in epochs.all_epochs(session, since_ms=bounds[0])
        if epoch.began_at <= bounds[1]
    ]


def odd_runs(
    session: Session, ranges: Iterable[JobRange], bounds: tuple[int, int], names: dict[int, str]
) -> list[FoundRun]:
    """Return runs that started before they were due, or succeeded without having started.

    These are the results of other runs with the same ids.
    """
    known = epochs.all_epochs(session)
    found: list[FoundRun] = []
    for jobs in ranges:
        left = MAX_ODD - len(found)
        for run in tick_rows.odd_runs(
            session, jobs, after_ms=bounds[0], until_ms=bounds[1], limit=left
        ):
            name = names.get(run.job_id, f"(deleted {run.job_id})")
            found.append(FoundRun(run, name, epoch_of(known, run.due_at)))
    return found


def epoch_of(known: Sequence[EpochRow], at_ms: int) -> EpochRow | None:
    """Return the first epoch that began within an hour after this time, or just before it."""
    near = range(at_ms - _PLANNED_MS, at_ms + _LOST_MS)
    return next((epoch for epoch in known if epoch.began_at in near), None)

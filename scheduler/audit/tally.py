"""The audit's counts of one job's due times by outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from warren.broker.reasons import Reason

#: The most faults of each kind that a report lists; the rest are only counted.
MAX_NAMED = 20

#: The counts of a tally, in the order of a report.
COUNTS = (
    "due",
    "fired",
    "skipped",
    "cancelled",
    "purged",
    "lost_count",
    "doubled_count",
    "late_count",
)


class Fault(NamedTuple):
    """A faulty tick in epoch milliseconds; `why` is None if there is nothing to add to its kind."""

    tick: int
    why: Reason | None = None


@dataclass(slots=True, kw_only=True)
class JobTally:
    """Counts of one job's due times; `lost`, `doubled` and `late` list the first faulty ticks."""

    job_id: int
    name: str
    due: int = 0
    fired: int = 0
    skipped: int = 0
    cancelled: int = 0
    purged: int = 0
    lost_count: int = 0
    doubled_count: int = 0
    late_count: int = 0
    lost: list[Fault] = field(default_factory=list)
    doubled: list[Fault] = field(default_factory=list)
    late: list[Fault] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether no tick was lost, doubled, or started late against the misfire policy."""
        return not (self.lost_count or self.doubled_count or self.late_count)

    def merge(self, later: "JobTally") -> None:
        """Add the tally of the same job for a later time range."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.lost = (self.lost + later.lost)[:MAX_NAMED]
        self.doubled = (self.doubled + later.doubled)[:MAX_NAMED]
        self.late = (self.late + later.late)[:MAX_NAMED]

    def add_lost(self, tick: int, why: Reason | None = None) -> None:
        """Count a due time that has neither all its runs nor a record that it was skipped."""
        self.lost_count += 1
        if len(self.lost) < MAX_NAMED:
            self.lost.append(Fault(tick, why))

    def add_doubled(self, tick: int, why: Reason | None = None) -> None:
        """Count a due time that was decided twice or was never due."""
        self.doubled_count += 1
        if len(self.doubled) < MAX_NAMED:
            self.doubled.append(Fault(tick, why))

    def add_late(self, tick: int) -> None:
        """Count a due time that started late, against the misfire policy."""
        self.late_count += 1
        if len(self.late) < MAX_NAMED:
            self.late.append(Fault(tick))


class Tallies:
    """The tallies of the audited jobs, each created on first use.

    Args:
        names: names of the existing jobs, by id.
        only: id of the only job to audit; None = all.

    """

    def __init__(self, names: Mapping[int, str], only: int | None) -> None:
        self._names = names
        self._only = only
        self._tallies: dict[int, JobTally] = {}

    def of(self, job_id: int) -> JobTally | None:
        """Return a job's tally; None if the job is not audited."""
        if self._only not in (None, job_id):
            return None
        name = self._names.get(job_id, f"(deleted {job_id})")
        return self._tallies.setdefault(job_id, JobTally(job_id=job_id, name=name))

    def exists(self, job_id: int) -> bool:
        return job_id in self._names

    def all(self) -> list[JobTally]:
        """Return the tallies created so far, sorted by name."""
        return sorted(self._tallies.values(), key=lambda job: job.name)

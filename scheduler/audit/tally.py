"""What became of one job's due times, as the audit counts it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.reasons.reason import Reason

#: Lost or doubled ticks that a report names; the rest is counted.
NAMED = 20


#: What is summed up over stretches of time.
_COUNTS = (
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
    """A tick, in epoch milliseconds, that has a fault; `why` None = no more is known."""

    tick: int
    why: Reason | None = None


@dataclass(slots=True, kw_only=True)
class JobTally:
    """What became of one job's due times; `lost`, `doubled` and `late` name the first ticks."""

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
        """Whether no tick was lost or doubled, or started although it was to be skipped."""
        return not (self.lost_count or self.doubled_count or self.late_count)

    def take_in(self, later: "JobTally") -> None:
        """Add what became of the same job's due times in a later stretch of time."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.lost = (self.lost + later.lost)[:NAMED]
        self.doubled = (self.doubled + later.doubled)[:NAMED]
        self.late = (self.late + later.late)[:NAMED]

    def lose(self, tick: int, why: Reason | None = None) -> None:
        """Note a due time that lacks rows, or the skip, that it should have."""
        self.lost_count += 1
        if len(self.lost) < NAMED:
            self.lost.append(Fault(tick, why))

    def double(self, tick: int, why: Reason | None = None) -> None:
        """Note a due time that was decided twice, or was never due."""
        self.doubled_count += 1
        if len(self.doubled) < NAMED:
            self.doubled.append(Fault(tick, why))

    def come_late(self, tick: int) -> None:
        """Note a due time that started late, although its job skips what nobody could send."""
        self.late_count += 1
        if len(self.late) < NAMED:
            self.late.append(Fault(tick))


class Tallies:
    """The tallies of the jobs that an audit is about, each made when it is first needed.

    Args:
        names: of the jobs that exist.
        only: the one job that is asked about, None = all.

    """

    def __init__(self, names: Mapping[int, str], only: int | None) -> None:
        self._names = names
        self._only = only
        self._tallies: dict[int, JobTally] = {}

    def of(self, job_id: int) -> JobTally | None:
        """Return a job's tally; None when the audit is not about it."""
        if self._only not in (None, job_id):
            return None
        name = self._names.get(job_id, f"(deleted {job_id})")
        return self._tallies.setdefault(job_id, JobTally(job_id=job_id, name=name))

    def is_there(self, job_id: int) -> bool:
        """Whether a job exists."""
        return job_id in self._names

    def all(self) -> list[JobTally]:
        """Return those that were needed, by name."""
        return sorted(self._tallies.values(), key=lambda job: job.name)

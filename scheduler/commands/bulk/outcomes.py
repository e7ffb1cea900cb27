"""What became of things that were acted on together."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from scheduler.problems import Problem


class Outcome(StrEnum):
    """What became of one of the things that were chosen."""

    DONE = "DONE"
    #: Done already by the same form; a run: or for another attempt or shard of its tick.
    REPEATED = "REPEATED"
    #: A run that is still open, and cannot run again.
    OPEN = "OPEN"
    #: There was nothing to do: the run is over, the job is started or stopped already.
    NOTHING = "NOTHING"
    #: A run whose job was deleted.
    JOB_GONE = "JOB_GONE"
    #: It is gone, or does not exist for whoever acts.
    UNKNOWN = "UNKNOWN"
    #: It was refused, for a problem that is told.
    REFUSED = "REFUSED"


Counts = Counter[Outcome]


@dataclass(frozen=True, slots=True)
class Part:
    """What came of a part of them, and why some were refused."""

    counts: Counts
    problems: tuple[Problem, ...] = ()

"""The outcomes of commands on many jobs or runs."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from warren.scheduler.problems import Problem


class Outcome(StrEnum):
    """The outcome for one job or run."""

    DONE = "DONE"
    #: The same form has done it before, or a later attempt of the same shard was chosen.
    REPEATED = "REPEATED"
    #: The run, or a later one for its due time, is still open, so it cannot run again.
    OPEN = "OPEN"
    #: It failed, and a later attempt or re-run for its due time succeeded.
    RECOVERED = "RECOVERED"
    #: The version of the script that it ran is no longer kept.
    VERSION_GONE = "VERSION_GONE"
    #: Nothing to do: the run has ended, or the job is already started or stopped.
    NOTHING = "NOTHING"
    #: The run's job was deleted.
    JOB_GONE = "JOB_GONE"
    #: It does not exist, or the actor may not see it.
    UNKNOWN = "UNKNOWN"
    #: Refused; `Part.problems` has the reason.
    REFUSED = "REFUSED"


Counts = Counter[Outcome]


@dataclass(frozen=True, slots=True)
class Part:
    """The outcomes of some of the jobs or runs, and the reasons for refusals."""

    counts: Counts
    problems: tuple[Problem, ...] = ()

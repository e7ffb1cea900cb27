"""The states of a backfill, and which due times of its range it runs."""

from enum import StrEnum


class BackfillState(StrEnum):
    """The state of a backfill."""

    OPEN = "OPEN"
    PAUSED = "PAUSED"
    #: Every due time is decided, and every run has ended.
    DONE = "DONE"
    #: No more runs are planned; those that were open when it was cancelled may run on.
    CANCELLED = "CANCELLED"


class Selection(StrEnum):
    """Which due times of its range a backfill runs."""

    #: Those for which nothing ran.
    MISSING = "missing"
    #: Those that are unresolved.
    FAILED = "failed"
    #: Every one, whatever ran before.
    ALL = "all"

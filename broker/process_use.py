"""Which runs a job process serves. It is imported beside handlers, so it needs nothing else."""

from enum import StrEnum


class ProcessUse(StrEnum):
    """Runs of its job, runs of any job of its handler, or one run."""

    JOB = "job"
    HANDLER = "handler"
    FRESH = "fresh"

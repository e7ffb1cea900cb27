"""Which runs a job process serves. Job processes import this, so it imports nothing of ours."""

from enum import StrEnum


class ProcessUse(StrEnum):
    """Runs of one job, runs of all jobs with the same handler, or a single run."""

    JOB = "job"
    HANDLER = "handler"
    FRESH = "fresh"

"""Reads job files that were sent to the API."""

import time
from collections.abc import Sequence
from pathlib import Path

from scheduler.jobs.spec import AppSpec, JobSpec
from warren.errors import JobFileError
from warren.jobfile.reader import read_job_text
from warren.route_plugins import route_names

#: Stands in for the path in error messages.
UPLOAD = "job file"


def read_upload(data: bytes) -> tuple[Sequence[AppSpec], Sequence[JobSpec]]:
    """Return the apps and jobs of a job file.

    Raises:
        ValueError: with a line for each problem.

    """
    now_ms = time.time_ns() // 1_000_000
    try:
        file = read_job_text(data, Path(UPLOAD), now_ms=now_ms, added_routes=route_names())
    except JobFileError as error:
        raise ValueError("\n".join(error.lines)) from error
    return file.apps, file.specs

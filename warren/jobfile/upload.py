"""Reads job files that were sent to the API."""

import time
from collections.abc import Sequence
from pathlib import Path

from warren.admin_web.api.problem_answers import Refusal
from warren.errors import JobFileError
from warren.jobfile.reader import MOST_PROBLEMS, read_job_text
from warren.route_plugins import route_names
from warren.scheduler.jobs.spec import AppSpec, JobSpec


def read_upload(data: bytes) -> tuple[Sequence[AppSpec], Sequence[JobSpec]]:
    """Return the apps and jobs of a job file.

    Raises:
        Refusal: with each problem, its line, and the code of the rule that it breaks.

    """
    now_ms = time.time_ns() // 1_000_000
    try:
        file = read_job_text(data, Path("job file"), now_ms=now_ms, added_routes=route_names())
    except JobFileError as error:
        raise _refusal(error) from error
    return file.apps, file.specs


def _refusal(error: JobFileError) -> Refusal:
    count, shown = len(error.problems), error.problems[:MOST_PROBLEMS]
    detail = f"the job file has {count} problems" if count > 1 else "the job file has a problem"
    if count > len(shown):
        detail += f"; these are the first {len(shown)}"
    errors = [
        {"line": one.line, "detail": one.text} | ({"code": one.rule} if one.rule else {})
        for one in shown
    ]
    return Refusal(422, detail, errors=errors)

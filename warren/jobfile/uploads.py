"""Reads job files that a program has sent to the API."""

import time
from collections.abc import Mapping, Sequence

from warren.admin_web.api.problem_answers import Refusal
from warren.errors import JobFileError
from warren.jobfile.reader import MAX_PROBLEMS, read_job_files
from warren.jobfile.sources import Source, decoded, values_of
from warren.route_plugins import route_names
from warren.scheduler.commands.job_files.job_file import FileParts


def read_upload(files: Sequence[tuple[str, bytes]], values: Mapping[str, str]) -> FileParts:
    """Return what job files, with their names, say together, with these values for `${NAME}`.

    Raises:
        Refusal: with each problem, its line and file, and the code of the rule that it breaks.

    """
    now_ms = time.time_ns() // 1_000_000
    given = values_of(values, "values, {name}")
    try:
        sources = [Source(name, decoded(data, name)) for name, data in files]
        file = read_job_files(sources, given, now_ms=now_ms, added_routes=route_names())
    except JobFileError as error:
        raise _refusal(error, are_several=len(files) > 1 or bool(values)) from error
    return FileParts(file.apps, file.calendars, file.limits, file.specs)


def _refusal(error: JobFileError, *, are_several: bool) -> Refusal:
    count, shown = len(error.problems), error.problems[:MAX_PROBLEMS]
    what = "the job files have" if are_several else "the job file has"
    detail = f"{what} {count} problems" if count > 1 else f"{what} a problem"
    if count > len(shown):
        detail += f"; these are the first {len(shown)}"
    errors = [
        {"line": int(problem.line), "detail": problem.text}
        | ({"file": problem.line.file} if are_several else {})
        | ({"code": problem.rule} if problem.rule else {})
        for problem in shown
    ]
    return Refusal(422, detail, errors=errors)

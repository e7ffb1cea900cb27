"""Reads and checks job files that were sent to the API."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from warren.admin_web.api.problem_answers import PlacedRefused, Refusal
from warren.admin_web.services import ReadJobFile
from warren.errors import JobFileError, Line
from warren.jobfile.check import check
from warren.jobfile.reader import MAX_PROBLEMS, JobFile, read_job_files
from warren.jobfile.sources import GivenValues, Source, decoded, values_of
from warren.resources.job_files import CheckBody, Checked, JobFileText, ValuesGiven
from warren.route_plugins import route_names
from warren.scheduler.commands.job_files import FileParts
from warren.scheduler.problems import Refused, counted
from warren.terminal.changes import warning_lines

#: What a file without a name is called in messages.
_UPLOAD = "job file"


def read_upload(
    sent: bytes | Sequence[JobFileText], values: Mapping[str, str] | ValuesGiven
) -> ReadJobFile:
    """Return what job files say together: one without a name, or several.

    `values` are those of `${NAME}`, perhaps as a command line was given them.

    Raises:
        Refusal: with each problem, its line and file, and the code of the rule that it breaks.

    """
    now_ms, sources = time.time_ns() // 1_000_000, list[Source]()
    try:
        if isinstance(sent, bytes):
            sources.append(Source(_UPLOAD, decoded(sent, _UPLOAD)))
        else:
            sources += map(_source, sent)
        file = read_job_files(sources, _given(values), now_ms=now_ms, added_routes=route_names())
    except JobFileError as error:
        raise _refusal(error, _places(sources, sent)) from error
    return ReadJobFile(
        parts=FileParts(file.apps, file.calendars, file.limits, file.specs),
        over=file.over_lines(),
        check_apps=lambda known, hint: _check_apps(file, known, hint, _places(sources, sent)),
        refused=lambda refused: _placed(file, refused, _places(sources, sent)),
    )


def check_upload(body: CheckBody, timezone: str) -> Checked:
    """Return what applying job files together to an empty database would say."""
    try:
        sources = [*map(_source, body.files)]
    except JobFileError as error:
        return Checked(jobs=0, problems=[*error.lines], warnings=[])
    found = check(
        sources,
        _given(body.given or ValuesGiven()),
        timezone=timezone,
        handlers=body.handlers,
        schemas=body.schemas,
    )
    return Checked(
        jobs=len(found.specs),
        problems=[*found.problems],
        warnings=[*found.over, *warning_lines(found.warnings)],
    )


def _source(file: JobFileText) -> Source:
    data = file.text.encode(errors="replace")
    return Source(file.name, decoded(data, file.name), file.places)


def _given(values: Mapping[str, str] | ValuesGiven) -> GivenValues:
    if isinstance(values, ValuesGiven):
        return GivenValues(files=[*map(_source, values.files)], texts=values.texts)
    return values_of(values, "values, {name}")


class _Places:
    """Where problems are, as answers say it."""

    def __init__(self, sources: Sequence[Source], *, are_named: bool) -> None:
        self.are_named = are_named
        self.are_several = len(sources) > 1
        self._sources = {source.name: source for source in sources if source.places}

    def of(self, line: Line) -> dict[str, Any]:
        """Return the line, and the file if the files have names."""
        if source := self._sources.get(line.file):
            return {"file": source.at(line)}
        return {"line": int(line)} | ({"file": line.file} if self.are_named else {})


def _places(sources: Sequence[Source], sent: bytes | Sequence[JobFileText]) -> _Places:
    return _Places(sources, are_named=not isinstance(sent, bytes))


def _check_apps(file: JobFile, known: Collection[str], hint: str, places: _Places) -> None:
    try:
        file.check_apps(known, hint=hint)
    except JobFileError as error:
        raise _refusal(error, places) from error


def _placed(file: JobFile, refused: Refused, places: _Places) -> Refused:
    if not refused.problems[0].field.startswith(("jobs/", "limits/")):
        return refused
    lines = [places.of(file.line_of(problem)) for problem in refused.problems]
    return PlacedRefused(refused.problems, lines)


def _refusal(error: JobFileError, places: _Places) -> Refusal:
    count, shown = len(error.problems), error.problems[:MAX_PROBLEMS]
    what = "the job files have" if places.are_several else "the job file has"
    detail = f"{what} {count} problems" if count > 1 else f"{what} a problem"
    if count > len(shown):
        detail += f"; these are the first {len(shown)}"
    errors = [
        places.of(problem.line)
        | {"detail": problem.text}
        | ({"code": problem.rule} if problem.rule else {})
        for problem in shown
    ]
    if count > len(shown) and places.are_named:
        more = counted(count - len(shown), "more problem")
        errors.append({"file": shown[0].line.file, "detail": f"and {more}"})
    return Refusal(422, detail, errors=errors)

"""Describes what an edit changes about a job, in the terms of a job file."""

import difflib
from collections.abc import Sequence

from warren.scheduler.jobs.fields import Field
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.schedules.registry import written
from warren.sql.models import Job

#: Most lines of a diff that are shown, and most lines of both sources for which one is computed.
DIFF_LINES, COMPARED_LINES = 60, 4_000

_WHEN = ("schedule_kind", "schedule_value")


def differences(job: Job, spec: JobSpec, changed: Sequence[Field]) -> tuple[str, ...]:
    """Return a line for each field that changes; `job` still has the old values."""
    lines = (_line(job, spec, field) for field in changed)
    return tuple(dict.fromkeys(lines))


def script_difference(before: str, after: str) -> tuple[str, ...]:
    """Return the lines of a unified diff of two sources; a long diff is cut."""
    old, new = _source_lines(before), _source_lines(after)
    if len(old) + len(new) > COMPARED_LINES:
        return () if before == after else (f"{len(old)} lines -> {len(new)} lines",)
    diff = difflib.unified_diff(old, new, "stored", "new", lineterm="")
    lines = [line.replace("\r", "␍") for line in diff]
    if len(lines) > DIFF_LINES:
        return (*lines[:DIFF_LINES], f"… and {len(lines) - DIFF_LINES} more lines")
    return tuple(lines)


def _line(job: Job, spec: JobSpec, field: Field) -> str:
    if field.name in _WHEN:
        before = written(job.schedule_kind, job.schedule_value)
        after = written(spec.schedule_kind, spec.schedule_value)
        return f"schedule: {before} -> {after}"
    before, after = field.kind.change(field.value(job), getattr(spec, field.name))
    return f"{field.words}: {before} -> {after}"


def _source_lines(source: str) -> Sequence[str]:
    return source.removesuffix("\n").split("\n") if source else []

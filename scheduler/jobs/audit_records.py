"""A job in the audit log: its record, and what an edit changes about it.

Records name fields by their database columns; changes are described in the terms of a job file.
"""

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.jobs.spec import FIELDS, WRITTEN, Field, JobSpec
from warren.scheduler.problems import counted
from warren.scheduler.schedules.registry import written
from warren.sql.jobs import job_links, script_versions
from warren.sql.models import Job
from warren.sql.models.job_tables import FLOW_TYPE

#: Lines of a diff that are shown at most, and lines of both sources for which one is computed.
DIFF_LINES, COMPARED_LINES = 60, 4_000

_WHEN = ("schedule_kind", "schedule_value", "schedule_options")


def differences(job: Job, spec: JobSpec, changed: Sequence[Field]) -> tuple[str, ...]:
    """Return a line for each field that changes; `job` still has the old values."""
    lines = (_line(job, spec, field) for field in changed)
    return tuple(dict.fromkeys(lines))


def script_difference(before: str, after: str) -> tuple[str, ...]:
    """Return the lines of a unified diff of two sources; a long diff is cut."""
    old, new = _source_lines(before), _source_lines(after)
    if len(old) + len(new) > COMPARED_LINES:
        told = f"{counted(len(old), 'line')} -> {counted(len(new), 'line')}"
        return () if before == after else (told,)
    diff = difflib.unified_diff(old, new, "stored", "new", lineterm="")
    lines = [line.replace("\r", "␍") for line in diff]
    if len(lines) > DIFF_LINES:
        return (*lines[:DIFF_LINES], f"… and {counted(len(lines) - DIFF_LINES, 'more line')}")
    return tuple(lines)


def _line(job: Job, spec: JobSpec, field: Field) -> str:
    if field.name in _WHEN:
        before = written(job.schedule_kind, job.schedule_value, job.schedule_options)
        options = spec.schedule_options
        after = written(spec.schedule_kind, spec.schedule_value, options.to_json())
        if before == after:
            return f"schedule: {after}, by rule {options.rule}"
        return f"schedule: {before} -> {after}"
    before, after = field.kind.change(field.value(job), getattr(spec, field.name))
    return f"{field.words}: {before} -> {after}"


def _source_lines(source: str) -> Sequence[str]:
    return source.removesuffix("\n").split("\n") if source else []


_COLUMNS = {name: column.name for name, column in Job.__mapper__.columns.items()}
#: Fields by the columns of a record.
FIELD_OF: Mapping[str, Field] = {
    _COLUMNS[field.column]: field for field in (*WRITTEN, FIELDS["enabled"])
}
CHILDREN, DECLARED_IN = _COLUMNS["child_ids"], _COLUMNS["declared_in"]
#: What stands for a secret.
HIDDEN = "***"
#: The most characters that are stored of each value, and the mark of one that was cut.
MAX_VALUE_LENGTH, CUT_MARK = 2_000, "…"
#: Columns whose values are secret: the audit log notes only that they are set.
SECRETS = frozenset(_COLUMNS[field.column] for field in FIELDS.values() if field.kind.is_secret)


def record_of(session: Session, job: Job, children: Sequence[int] = ()) -> dict[str, object]:
    """Return the record of a whole job, without fields that are not set."""
    record = record_of_fields(session, job, FIELD_OF.values()) | record_of_children(children)
    return _set(record)


def record_of_new(columns: Mapping[str, object]) -> dict[str, object]:
    """Return the record of a new job with these values, by the row's attributes."""
    record = {name: columns[field.column] for name, field in FIELD_OF.items()}
    if columns["script_source"] is not None and columns["script_type"] != FLOW_TYPE:
        record["script"] = _script_words(columns["script_type"], 1, str(columns["script_source"]))
    return _set(record)


def record_of_fields(session: Session, job: Job, fields: Iterable[Field]) -> dict[str, object]:
    """Return the record of some fields and of the script, if the job has one."""
    values = {_COLUMNS[field.column]: getattr(job, field.column) for field in fields}
    return values | _script(session, job)


def record_of_children(job_ids: Sequence[int]) -> dict[str, object]:
    return {_COLUMNS["child_ids"]: job_links.joined(job_ids)}


def cut(text: str) -> str:
    """Return a text as the audit log stores it."""
    return text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + CUT_MARK


def is_cut(stored: str) -> bool:
    """Whether the audit log has stored only the beginning of this text."""
    return len(stored) > MAX_VALUE_LENGTH and stored.endswith(CUT_MARK)


def is_kept(job: Job, field: Field) -> bool:
    """Whether the audit log would store what a job has in a field: all of it, and no secret."""
    stored = getattr(job, field.column)
    if field.kind.is_secret:
        return not stored
    return not isinstance(stored, str) or len(stored) <= MAX_VALUE_LENGTH


def _script(session: Session, job: Job) -> dict[str, object]:
    """Return the record of a job's script: its language, version and source hash."""
    if job.script_version is None or not job.has_script:
        return {}
    number = script_versions.number(session, job.script_version)
    return {"script": _script_words(job.script_type, number, job.script_source or "")}


def _script_words(kind: object, number: int, source: str) -> str:
    return f"{kind} version {number}, sha256 {hashlib.sha256(source.encode()).hexdigest()}"


def _set(record: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in record.items() if value not in (None, "")}

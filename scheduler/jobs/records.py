"""Specs of stored jobs, as they are or were earlier, and their records in the audit log.

Records name fields by their database columns; what an edit changes is described in the terms of a
job file. A past job is reconstructed from its record and its later entries in the audit log.
"""

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from warren.scheduler.alarms.targets import targets_of, webhook_of
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.jobs.spec import FIELDS, WRITTEN, AppSpec, Field, Flow, JobSpec, Number
from warren.scheduler.problems import counted
from warren.scheduler.schedules.registry import written
from warren.sql.jobs import job_links, script_versions
from warren.sql.models import App, Job
from warren.sql.models.job_tables import FLOW_TYPE
from warren.sql.registry import apps

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


def app_spec(app: App) -> AppSpec:
    return AppSpec(
        name=app.name,
        title=None if app.title == app.name else app.title,
        addresses=apps.split(app.address_list) if app.address_type == apps.MANUAL else (),
        route=app.route or "",
        alarm=targets_of(app.alarm_email, app.alarm_webhook, app.alarm_style),
        webhook=webhook_of(app.webhook_url, app.webhook_when),
    )


def job_spec(job: Job, app: str, children: Sequence[str], *, with_source: bool = True) -> JobSpec:
    """Return the spec of a stored job; `children` are APP/NAME."""
    values = {field.name: field.value(job) for field in WRITTEN}
    language = language_of(job.script_type)
    if language:
        values |= {
            "handler": "",
            "script_language": language,
            "script_source": (job.script_source or "") if with_source else "",
            "script_remark": job.script_remark or "",
        }
    return JobSpec(
        app=app,
        children=tuple(child.removeprefix(f"{app}/") for child in children),
        enabled=True if job.is_enabled else None,
        **values,
    )


def fingerprint(spec: JobSpec) -> str:
    """Return a hash of a job's fields, without `enabled`; equal specs have equal fingerprints."""
    values = {
        name: item.kind.stored(getattr(spec, name))
        for name, item in FIELDS.items()
        if name != "enabled"
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]


Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PastSpec:
    """A job at an earlier time; `missing` names fields that the audit log lacks or has cut."""

    spec: JobSpec
    missing: Sequence[str] = field(default=())


def undone(record: Record, later: Iterable[Record]) -> dict[str, Any]:
    """Undo changes in a record; `later` are their old values, newest change first."""
    earlier = dict(record)
    for before in later:
        earlier |= before
    return earlier


def child_ids(record: Record) -> list[int]:
    return [
        int(child_id)
        for child_id in str(record.get(CHILDREN) or "").split(",")
        if child_id.isdecimal()
    ]


def past_spec(
    record: Record, *, app: str, children: Sequence[str] = (), present: JobSpec | None = None
) -> PastSpec:
    """Return the job of a record; missing values come from `present`, else from the defaults."""
    values: dict[str, Any] = {}
    missing = []
    for setting in WRITTEN:
        stored = _stored(record, setting.name)
        if is_missing(setting.name, stored):
            missing.append(setting.name)
            stored = None
            if present is not None:
                values[setting.name] = getattr(present, setting.name)
                continue
        if stored is not None:
            values[setting.name] = setting.kind.value(stored)
        elif not isinstance(setting.kind, Number | Flow):
            values[setting.name] = setting.default if setting.default is not None else ""
    language = language_of(str(record.get("script") or "").partition(" ")[0])
    if language:
        missing.append("script_source")
        values |= {"script_language": language, "handler": ""}
    if present is not None:
        values |= {
            "script_language": present.script_language,
            "script_source": present.script_source,
            "script_remark": present.script_remark,
        }
        missing = [name for name in missing if name != "script_source"]
    return PastSpec(JobSpec(app=app, children=tuple(children), **values), tuple(missing))


def _stored(record: Record, name: str) -> Any:
    return next(
        (record.get(column) for column, item in FIELD_OF.items() if item.name == name), None
    )


def is_missing(name: str, stored: Any) -> bool:
    """Whether a record has a field, but not its value: it is secret, or was cut."""
    is_secret = any(FIELD_OF[column].name == name for column in SECRETS if column in FIELD_OF)
    if is_secret:
        return bool(stored == HIDDEN)
    return isinstance(stored, str) and is_cut(stored)

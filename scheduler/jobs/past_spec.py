"""Converts rows to specs: of a job as it is, or as it was earlier.

A past job is reconstructed from its record and its later entries in the audit log.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warren.scheduler.alarms.targets import targets_of, webhook_of
from warren.scheduler.jobs.audit_records import CHILDREN, FIELD_OF, HIDDEN, SECRETS, is_cut
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.jobs.spec import FIELDS, WRITTEN, AppSpec, Flow, JobSpec, Number
from warren.sql.models import App, Job
from warren.sql.registry import apps


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

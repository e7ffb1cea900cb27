"""Audit log entries in readable form: labels instead of columns, values in words, links."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from flask import url_for
from flask_babel import format_decimal, gettext, lazy_gettext
from sqlalchemy.orm import Session

from warren.admin_web.forms.jobs import FORM_FIELDS, JobForm
from warren.admin_web.language import job_labels, labels
from warren.admin_web.language.job_labels import OPTIONS, label_of, place
from warren.admin_web.visitors import Visitor
from warren.scheduler.jobs.audit_records import CHILDREN, DECLARED_IN, FIELD_OF, HIDDEN
from warren.scheduler.jobs.field_kinds import Choice
from warren.scheduler.jobs.spec import Field
from warren.sql.listings import job_search
from warren.sql.models import AuditEntry
from warren.sql.registry import apps

RECORD_LABELS = {
    "addresses": lazy_gettext("Addresses"),
    "alarm_email": lazy_gettext("Alarm e-mail"),
    "alarm_secret": lazy_gettext("Signing secret"),
    "alarm_style": lazy_gettext("Webhook format"),
    "alarm_webhook": lazy_gettext("Alarm webhook"),
    "app": lazy_gettext("App"),
    "app_id": lazy_gettext("App"),
    "app_ids": lazy_gettext("Apps"),
    "before_ms": lazy_gettext("Due before"),
    "boot": lazy_gettext("Boot ID"),
    "bytes": lazy_gettext("Bytes"),
    "expires_at": lazy_gettext("Expires"),
    "job": lazy_gettext("Job"),
    "job_id": lazy_gettext("Job"),
    "job_ids": lazy_gettext("Jobs"),
    "keep": lazy_gettext("Newest runs kept"),
    "may_edit_glue": lazy_gettext("Can edit scripts"),
    "name": lazy_gettext("Name"),
    "owner": lazy_gettext("User"),
    "param": lazy_gettext("Parameter"),
    "planned": lazy_gettext("New runs"),
    "reason": lazy_gettext("Reason"),
    "remark": lazy_gettext("Change note"),
    "role": lazy_gettext("Role"),
    "run": lazy_gettext("Run"),
    "runs": lazy_gettext("Runs"),
    "scopes": lazy_gettext("Scopes"),
    "status": lazy_gettext("State"),
    "title": lazy_gettext("Title"),
    "until": lazy_gettext("Until"),
    "version": lazy_gettext("Version"),
    "webhook_url": lazy_gettext("Webhook"),
    "webhook_when": lazy_gettext("Call the webhook"),
}
_APPS = frozenset({"app_id", "app_ids"})
_JOBS = frozenset({"job", "job_id", "job_ids", CHILDREN})
_RUNS = frozenset({"run", "runs", "planned"})
#: An entry about many runs has hundreds of ids; longer lists are cut. Exports have all of them.
LISTED = 100
_WORDS: Mapping[str, Mapping[Any, Any]] = {
    "may_edit_glue": {True: lazy_gettext("yes"), False: lazy_gettext("no")},
    "role": labels.ROLE,
    "status": {status: state.word for status, state in labels.STATUS.items()},
    "webhook_when": job_labels.CALL_WHEN,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of a value, and the URL of the object that it names; empty if that has no page."""

    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of ids in records, and a function that shows epoch milliseconds."""

    apps: Mapping[int, str]
    jobs: Mapping[int, str]
    time: Callable[[int], str]


def names_in(
    session: Session,
    records: Iterable[Mapping[str, Any]],
    visitor: Visitor,
    time: Callable[[int], str],
) -> Names:
    """Return the names of what these records are about, as far as the visitor may see it."""
    job_ids = {
        id_ for record in records for field in _JOBS & set(record) for id_ in _ids(record[field])
    }
    known = apps.ids_by_name(session, visitor.app_ids)
    return Names(
        {app_id: name for name, app_id in known.items()},
        job_search.names(session, job_ids, visitor.app_ids) if job_ids else {},
        time,
    )


def shown_value(name: str, stored: Any, names: Names) -> tuple[Shown, ...]:
    """Return a stored value in the viewer's words; ids without a name stay numbers."""
    if name in _RUNS:
        return _listed(_ids(stored), _run)
    if name in _JOBS:
        return _listed(_ids(stored), partial(_job, names=names.jobs))
    return (Shown(_value_in_words(name, stored, names)),)


def _listed(ids: Sequence[int], show: Callable[[int], Shown]) -> tuple[Shown, ...]:
    listed = tuple(map(show, ids[:LISTED]))
    left_out = len(ids) - len(listed)
    if not left_out:
        return listed
    return (*listed, Shown(gettext("%(n)s more", n=format_decimal(left_out))))


def _run(run_id: int) -> Shown:
    return Shown(str(run_id), url_for("runs.show", run_id=run_id))


def _job(job_id: int, names: Mapping[int, str]) -> Shown:
    if job_id not in names:
        return Shown(str(job_id))
    return Shown(names[job_id], url_for("jobs.show", job_id=job_id))


def _value_in_words(name: str, stored: Any, names: Names) -> str:
    if name in _WORDS:
        return str(_WORDS[name].get(stored, stored))
    if name in _APPS:
        listed = ", ".join(names.apps.get(id_, str(id_)) for id_ in _ids(stored))
        return listed or str(gettext("all"))
    if name in ("before_ms", "expires_at") and isinstance(stored, int):
        return names.time(stored)
    if name == "until":
        return names.time(int(datetime.fromisoformat(stored).timestamp() * 1000))
    return ", ".join(map(str, stored)) if isinstance(stored, list) else str(stored)


def _ids(stored: Any) -> list[int]:
    if isinstance(stored, str):
        return [int(part) for part in stored.split(",") if part.isdecimal()]
    ids = stored if isinstance(stored, list) else [stored]
    return [id_ for id_ in ids if isinstance(id_, int)]


@dataclass(frozen=True, slots=True)
class Difference:
    """One value before and after; None if there was or is none."""

    name: str
    before: tuple[Shown, ...] | None
    after: tuple[Shown, ...] | None


def values_of(text: str | None) -> dict[str, Any]:
    """Return the stored values of an object, from the JSON in an entry."""
    values = json.loads(text or "{}")
    return values if isinstance(values, dict) else {}


def differences(entry: AuditEntry, names: Names) -> list[Difference]:
    """Return the values in an entry, before and after; of a change, only those that differ."""
    before, after = values_of(entry.before), values_of(entry.after)
    is_change = bool(before and after)
    return compare(before, after, names, is_job=entry.kind == "job", unlike=is_change)


def compare(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    names: Names,
    *,
    is_job: bool,
    unlike: bool = False,
) -> list[Difference]:
    """Return the fields that two records set; with `unlike`, only those that differ."""
    fields = FIELD_OF if is_job else {}
    labels = RECORD_LABELS | (_labels() if is_job else {})

    def shown(name: str, stored: Any) -> tuple[Shown, ...] | None:
        if stored is None:
            return None
        if is_job and name == DECLARED_IN:
            return (Shown(place(str(stored))),)
        field = fields.get(name)
        if field is None:
            return shown_value(name, stored, names)
        words = _field_in_words(field, stored)
        return None if words is None else (Shown(words),)

    differences = (
        Difference(
            str(labels.get(name) or name.replace("_", " ")),
            shown(name, before.get(name)),
            shown(name, after.get(name)),
        )
        for name in dict.fromkeys([*before, *after])
        if not unlike or (before.get(name) or None) != (after.get(name) or None)
    )
    return [change for change in differences if (change.before, change.after) != (None, None)]


def link(entry: AuditEntry) -> str:
    """Return the URL of the object that an entry is about; empty if it has no page."""
    number = entry.object_id
    if entry.kind == "cluster":
        return url_for("schedulers.index")
    if not number:
        return ""
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        # The list, as an executor's own page is gone a day after the executor.
        "executor": (
            "executors.index",
            {"app": values_of(entry.after).get("app", ""), "address": entry.name},
        ),
        "token": ("tokens.index", {}),
        "limit": ("limits.index", {}),
        "job": ("job_history.show", {"job_id": number}),
        "glue": ("job_history.show", {"job_id": number}),
        "run": ("runs.show", {"run_id": number}),
        "app": ("apps.edit", {"app_id": number}),
        "user": ("users.show", {"user_id": number}),
    }
    endpoint, values = ways.get(entry.kind, ("", {}))
    return url_for(endpoint, **values) if endpoint else ""


def _labels() -> dict[str, str]:
    form = JobForm()
    named = {item.name: str(form[name].label.text) for name, item in FORM_FIELDS.items()}
    named |= {"schedule_kind": gettext("Schedule type"), "schedule_value": gettext("Schedule")}
    named["schedule_options"] = gettext("Calendar, window and bounds")
    named["enabled"] = gettext("Enabled")
    labels = {column: named.get(item.name, item.title) for column, item in FIELD_OF.items()}
    return (
        labels
        | {CHILDREN: named["children"], "script": gettext("Script")}
        | {DECLARED_IN: gettext("Declared in")}
    )


def _field_in_words(field: Field, stored: Any) -> str | None:
    if field.name == "enabled":
        return str(gettext("yes") if stored else gettext("no"))
    value = field.kind.value(stored)
    if field.kind.is_secret and value:
        return HIDDEN
    if isinstance(field.kind, Choice) or field.name in OPTIONS:
        return label_of(OPTIONS.get(field.name, {}), str(value))
    return str(field.kind.shown(value))

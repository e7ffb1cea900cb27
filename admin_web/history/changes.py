"""Audit log entries in readable form: labels instead of columns, values in words, links."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import url_for
from flask_babel import gettext

from warren.admin_web.forms.jobs import FORM_FIELDS, JobForm
from warren.admin_web.history import record_fields
from warren.admin_web.history.record_fields import Names, Shown
from warren.admin_web.language.job_labels import OPTIONS, label_of
from warren.scheduler.jobs.audit_records import CHILDREN, FIELD_OF, HIDDEN
from warren.scheduler.jobs.spec import Choice, Field, YesOrNo
from warren.sql.models import AuditEntry


@dataclass(frozen=True, slots=True)
class Difference:
    """One value before and after; None if there was or is none."""

    name: str
    before: tuple[Shown, ...] | None
    after: tuple[Shown, ...] | None


def values_of(text: str | None) -> dict[str, Any]:
    """Return the stored values of an object, from the JSON in an entry."""
    found = json.loads(text or "{}")
    return found if isinstance(found, dict) else {}


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
    labels = record_fields.LABELS | (_labels() if is_job else {})

    def shown(name: str, stored: Any) -> tuple[Shown, ...] | None:
        if stored is None:
            return None
        field = fields.get(name)
        if field is None:
            return record_fields.shown(name, stored, names)
        words = _in_words(field, stored)
        return None if words is None else (Shown(words),)

    found = (
        Difference(
            str(labels.get(name) or name.replace("_", " ")),
            shown(name, before.get(name)),
            shown(name, after.get(name)),
        )
        for name in dict.fromkeys([*before, *after])
        if not unlike or (before.get(name) or None) != (after.get(name) or None)
    )
    return [one for one in found if (one.before, one.after) != (None, None)]


def link(entry: AuditEntry) -> str:
    """Return the URL of the object that an entry is about; empty if it has no page."""
    number = entry.object_id
    if entry.kind == "cluster":
        return url_for("schedulers.index")
    if not number:
        return ""
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        # Its own page goes a day after the executor.
        "executor": (
            "executors.index",
            {"app": values_of(entry.after).get("app", ""), "address": entry.name},
        ),
        "token": ("tokens.index", {}),
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
    named = {one.name: str(form[name].label.text) for name, one in FORM_FIELDS.items()}
    named |= {"schedule_kind": gettext("Schedule type"), "schedule_value": gettext("Schedule")}
    named["enabled"] = gettext("Enabled")
    labels = {column: named.get(one.name, one.title) for column, one in FIELD_OF.items()}
    return labels | {CHILDREN: named["children"], "script": gettext("Script")}


def _in_words(field: Field, stored: Any) -> str | None:
    if field.name == "enabled":
        return str(gettext("yes") if stored else gettext("no"))
    value = field.kind.value(stored)
    if field.kind.is_secret and value:
        return HIDDEN
    if isinstance(field.kind, YesOrNo):
        return None if value is None else str(gettext("yes") if value else gettext("no"))
    if isinstance(field.kind, Choice) or field.name in OPTIONS:
        return label_of(OPTIONS.get(field.name, {}), str(value))
    return str(field.kind.shown(value))

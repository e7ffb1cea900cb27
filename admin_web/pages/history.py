"""Who changed what: the audit log in readable form, and the versions of a job."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from flask import render_template, request, url_for
from flask_babel import format_decimal, gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from warren.admin_web import exports
from warren.admin_web.forms.console_form import ALL, ConsoleForm, DayField, select_choices
from warren.admin_web.forms.job_fields import FORM_FIELDS, JobForm
from warren.admin_web.language import job_labels, labels
from warren.admin_web.language.job_labels import OPTIONS, label_of, place
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import Action
from warren.scheduler.commands.commands import Commands
from warren.scheduler.jobs import records
from warren.scheduler.jobs.records import (
    CHILDREN,
    DECLARED_IN,
    FIELD_OF,
    HIDDEN,
    PastSpec,
    record_of,
)
from warren.scheduler.jobs.spec import Choice, Field, JobSpec
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.users import Role
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import job_links
from warren.sql.listings import job_search
from warren.sql.models import AuditEntry, Job
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
    "field": lazy_gettext("Field"),
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
    "undone": lazy_gettext("Undone edit"),
    "until": lazy_gettext("Until"),
    "version": lazy_gettext("Version"),
    "webhook_url": lazy_gettext("Webhook"),
    "webhook_when": lazy_gettext("Call the webhook"),
}
_APPS = frozenset({"app_id", "app_ids"})
_NO_APPS, _ADMINISTRATOR = "none", Role.ADMINISTRATOR.name.lower()
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
        if stored == _NO_APPS:
            return str(gettext("none"))
        return _apps_in_words(stored, names) or str(gettext("all"))
    if name in ("before_ms", "expires_at") and isinstance(stored, int):
        return names.time(stored)
    if name == "until":
        return names.time(int(datetime.fromisoformat(stored).timestamp() * 1000))
    return ", ".join(map(str, stored)) if isinstance(stored, list) else str(stored)


def _apps_in_words(stored: Any, names: Names) -> str:
    return ", ".join(names.apps.get(id_, str(id_)) for id_ in _ids(stored))


def _rights_in_words(rights: Mapping[str, Any], names: Names) -> str:
    """Return the rights that a rule gives the members of a group."""
    role = rights["role"]
    words = [str(labels.ROLE.get(role, role)), _apps_in_words(rights["app_ids"], names)]
    if rights["may_edit_glue"] and role != _ADMINISTRATOR:
        words.append(str(gettext("can edit scripts")))
    return " · ".join(filter(None, words))


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
    if entry.action == Action.RULES_APPLY:
        groups = dict.fromkeys([*before, *after])
        return [
            Difference(group, *(_rule(record.get(group), names) for record in (before, after)))
            for group in groups
        ]
    before, after = _with_apps(before), _with_apps(after)
    return compare(before, after, names, is_job=entry.kind == "job", unlike=is_change)


def _rule(rights: Mapping[str, Any] | None, names: Names) -> tuple[Shown, ...] | None:
    return None if rights is None else (Shown(_rights_in_words(rights, names)),)


def _with_apps(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record that tells the empty list of somebody without apps from an administrator's.

    The latter stands for all apps.
    """
    has_none = record.get("app_ids") == [] and record.get("role") not in (None, _ADMINISTRATOR)
    return record | {"app_ids": _NO_APPS} if has_none else record


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


LINES = 50
_COLUMNS = ("id", "at", "who", "origin", "action", "kind", "object_id", "name", "before", "after")


class AuditFilterForm(ConsoleForm):
    """Asks which entries to show."""

    who = StringField(lazy_gettext("User"), [Optional(), Length(max=64)])
    kind = SelectField(
        lazy_gettext("Object"), choices=select_choices([ALL, *labels.OBJECT.items()]), default=""
    )
    name = StringField(lazy_gettext("Name"), [Optional(), Length(max=255)])
    since = DayField(lazy_gettext("From date"), [Optional()])
    until = DayField(lazy_gettext("To date"), [Optional()])


class AuditPages:
    """The audit log, for administrators."""

    name = "audit_log"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/audit", Right.ADMINISTER)
    def show(self) -> Response | str | tuple[str, int]:
        """Show the audit log, newest entry first."""
        form = AuditFilterForm(request.args)
        if not form.validate():
            return render_template("pages/audit.html", form=form, entries=[], older=None), 422
        wanted = self._wanted(form)
        if exports.is_asked():
            return exports.answer("audit-log", _COLUMNS, self._rows(wanted))
        entries, names = self._services.database.read(lambda session: self._read(session, wanted))
        older = entries[LINES - 1].id if len(entries) > LINES else None
        return render_template(
            "pages/audit.html",
            form=form,
            entries=entries[:LINES],
            older=older,
            differences=partial(differences, names=names),
            link=link,
        )

    def _read(self, session: Session, wanted: AuditFilter) -> tuple[Sequence[AuditEntry], Names]:
        entries = audit_log.listing(session, wanted)
        records = [values_of(text) for entry in entries for text in (entry.before, entry.after)]
        return entries, names_in(session, records, visitor(), self._local_times.format)

    def _rows(self, wanted: AuditFilter) -> Iterator[exports.Row]:
        def read(place: int | None, limit: int) -> tuple[list[exports.Row], int | None]:
            asked = replace(wanted, before_id=place, limit=limit)
            audit_entries = self._services.database.read(lambda s: audit_log.listing(s, asked))
            rows: list[exports.Row] = [
                {name: getattr(entry, name) for name in _COLUMNS}
                | {"before": values_of(entry.before), "after": values_of(entry.after)}
                for entry in audit_entries
            ]
            return rows, audit_entries[-1].id if len(audit_entries) == limit else None

        return exports.pages(read)

    def _wanted(self, form: AuditFilterForm) -> AuditFilter:
        return AuditFilter(
            who=form.who.data or None,
            kind=form.kind.data or None,
            name=form.name.data or None,
            since_ms=self._midnight_ms(form.since.data),
            until_ms=self._midnight_ms(form.until.data, days=1),
            before_id=id_argument("before"),
            limit=LINES + 1,
        )

    def _midnight_ms(self, day: date | None, *, days: int = 0) -> int | None:
        """Return when the day that is `days` after `day` begins; None without one or after 9999."""
        if day is None or day > date.max - timedelta(days=days):
            return None
        zone = ZoneInfo(self._services.timezone)
        midnight = datetime.combine(day + timedelta(days=days), time(), zone)
        return int(midnight.timestamp() * 1000)


#: Actions that change a job; triggering it does not.
CHANGES = tuple(
    action.value
    for action in (
        *(Action.JOB_CREATE, Action.JOB_UPDATE, Action.JOB_DELETE, Action.JOB_START),
        *(Action.JOB_STOP, Action.GLUE_SAVE),
    )
)
#: The most entries that are read.
MAX_ENTRIES = 2_000
_ENABLED = "trigger_status"


@dataclass(frozen=True, slots=True)
class Version:
    """A change of a job, and the job's record after it; before it, if it was deleted."""

    entry: AuditEntry
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobHistory:
    """A job, which may be deleted, and its versions, newest first."""

    job_id: int
    app: str
    name: str
    present: JobSpec | None
    versions: Sequence[Version]

    def find(self, entry_id: int | None) -> Version | None:
        """Return the version that an audit entry made; None if there is none."""
        return next((version for version in self.versions if version.entry.id == entry_id), None)


def read_history(session: Session, commands: Commands, visitor: Visitor, job_id: int) -> JobHistory:
    """Return the history of a job.

    Raises:
        NotFound: the job never existed, or the visitor may not see it.

    """
    entries = audit_log.of_job(session, job_id, CHANGES, limit=MAX_ENTRIES)
    job = session.get(Job, job_id)
    if job is not None:
        _, spec, _ = commands.jobs.read(session, job_id)
        record = record_of(session, job, job_links.children_of(session, job_id))
        return JobHistory(job_id, spec.app, spec.name, spec, _versions(entries, record))
    deletion = next((entry for entry in entries if entry.action == Action.JOB_DELETE), None)
    if deletion is None or not _is_visible(session, visitor, deletion):
        raise NotFound(LookupFailure.NO_JOB, id=job_id)
    app, _, name = deletion.name.partition("/")
    return JobHistory(job_id, app, name, None, _versions(entries, values_of(deletion.before)))


def restored(session: Session, history: JobHistory, version: Version, known: Visitor) -> PastSpec:
    """Return a job as it was in a version, with those of its children that still exist."""
    wanted = records.child_ids(version.record)
    names = job_search.names(session, wanted, known.app_ids)
    child_names = [names[link].removeprefix(f"{history.app}/") for link in wanted if link in names]
    return records.past_spec(
        version.record, app=history.app, children=child_names, present=history.present
    )


def _is_visible(session: Session, visitor: Visitor, deletion: AuditEntry) -> bool:
    """Whether a deleted job was in one of the visitor's apps, whose names may have been reused."""
    app, _, _ = deletion.name.partition("/")
    if app not in apps.ids_by_name(session, visitor.app_ids):
        return False
    return visitor.app_ids is None or not audit_log.is_app_deleted_since(session, app, deletion)


def _versions(entries: Sequence[AuditEntry], record: dict[str, Any]) -> list[Version]:
    """Return the versions, computed backwards from the current or last record."""
    versions = []
    for entry in entries:
        versions.append(Version(entry, record))
        record = records.undone(record, [_before(entry)])
    return versions


def _before(entry: AuditEntry) -> dict[str, Any]:
    if entry.action in (Action.JOB_START, Action.JOB_STOP):
        return {_ENABLED: int(entry.action == Action.JOB_STOP)}
    return {} if entry.action == Action.GLUE_SAVE else values_of(entry.before)


#: Versions on the page; the audit log has the others.
JOB_LINES = 200
_JOB_COLUMNS = ("id", "at", "who", "action", "before", "after")


class JobHistoryPages:
    """The jobs of the visitor's apps, including deleted ones."""

    name = "job_history"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/jobs/<id:job_id>/history", Right.VIEW)
    def show(self, job_id: int) -> str | Response:
        """Show each change, and how two versions differ if they are chosen."""
        known = visitor()
        commands = self._services.commands(known.actor)
        history = self._services.database.read(
            lambda session: read_history(session, commands, known, job_id)
        )
        if exports.is_asked():
            return _file(history)
        version, other = history.find(id_argument("from")), history.find(id_argument("to"))
        names = self._names(history)
        compared = None
        if version is not None and other is not None:
            compared = compare(version.record, other.record, names, is_job=True, unlike=True)
        return render_template(
            "pages/job_history.html",
            history=history,
            versions=history.versions[:JOB_LINES],
            is_cut=len(history.versions) > JOB_LINES,
            compared=compared,
            one=version,
            other=other,
            differences=partial(differences, names=names),
        )

    def _names(self, history: JobHistory) -> Names:
        records = [version.record for version in history.versions]
        return self._services.database.read(
            lambda session: names_in(session, records, visitor(), self._local_times.format)
        )


def _file(history: JobHistory) -> Response:
    rows = (
        {name: getattr(version.entry, name) for name in _JOB_COLUMNS}
        | {"before": values_of(version.entry.before), "after": values_of(version.entry.after)}
        for version in history.versions
    )
    return exports.answer(f"job-{history.job_id}-history", _JOB_COLUMNS, rows)

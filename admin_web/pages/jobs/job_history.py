"""The history of a job: who changed what, a comparison of two versions, a version to restore."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import render_template
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web import exports
from warren.admin_web.history import Names, compare, differences, names_in, values_of
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.commands import Commands
from warren.scheduler.jobs import past_spec
from warren.scheduler.jobs.audit_records import record_of
from warren.scheduler.jobs.past_spec import PastSpec
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.accounts import audit_log
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import child_links
from warren.sql.listings import job_search
from warren.sql.models import AuditEntry, Job
from warren.sql.registry import apps

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


def read(session: Session, commands: Commands, visitor: Visitor, job_id: int) -> JobHistory:
    """Return the history of a job.

    Raises:
        NotFound: the job never existed, or the visitor may not see it.

    """
    entries = audit_log.of_job(session, job_id, CHANGES, limit=MAX_ENTRIES)
    job = session.get(Job, job_id)
    if job is not None:
        _, spec, _ = commands.jobs.read(session, job_id)
        record = record_of(session, job, child_links.children_of(session, job_id))
        return JobHistory(job_id, spec.app, spec.name, spec, _versions(entries, record))
    deletion = next((entry for entry in entries if entry.action == Action.JOB_DELETE), None)
    if deletion is None or not _is_visible(session, visitor, deletion):
        raise NotFound(LookupFailure.NO_JOB, id=job_id)
    app, _, name = deletion.name.partition("/")
    return JobHistory(job_id, app, name, None, _versions(entries, values_of(deletion.before)))


def restored(session: Session, history: JobHistory, version: Version, known: Visitor) -> PastSpec:
    """Return a job as it was in a version, with those of its children that still exist."""
    wanted = past_spec.child_ids(version.record)
    names = job_search.names(session, wanted, known.app_ids)
    child_names = [names[link].removeprefix(f"{history.app}/") for link in wanted if link in names]
    return past_spec.past_spec(
        version.record, app=history.app, children=child_names, present=history.present
    )


def _is_visible(session: Session, visitor: Visitor, deletion: AuditEntry) -> bool:
    """Whether a deleted job was in one of the visitor's apps, whose names may be in use again."""
    app, _, _ = deletion.name.partition("/")
    if app not in apps.ids_by_name(session, visitor.app_ids):
        return False
    return visitor.app_ids is None or not audit_log.is_app_deleted_since(session, app, deletion)


def _versions(entries: Sequence[AuditEntry], record: dict[str, Any]) -> list[Version]:
    """Return the versions, computed backwards from the current or last record."""
    versions = []
    for entry in entries:
        versions.append(Version(entry, record))
        record = past_spec.undone(record, [_before(entry)])
    return versions


def _before(entry: AuditEntry) -> dict[str, Any]:
    if entry.action in (Action.JOB_START, Action.JOB_STOP):
        return {_ENABLED: int(entry.action == Action.JOB_STOP)}
    return {} if entry.action == Action.GLUE_SAVE else values_of(entry.before)


#: Versions on the page; the audit log has the others.
LINES = 200
_COLUMNS = ("id", "at", "who", "action", "before", "after")


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
            lambda session: read(session, commands, known, job_id)
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
            versions=history.versions[:LINES],
            is_cut=len(history.versions) > LINES,
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
        {name: getattr(version.entry, name) for name in _COLUMNS}
        | {"before": values_of(version.entry.before), "after": values_of(version.entry.after)}
        for version in history.versions
    )
    return exports.answer(f"job-{history.job_id}-history", _COLUMNS, rows)

"""The fields of audit log records other than a job's own: their labels, and values as shown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from flask import url_for
from flask_babel import format_decimal, gettext, lazy_gettext
from sqlalchemy.orm import Session

from warren.admin_web.language import job_labels, labels
from warren.admin_web.visitors import Visitor
from warren.scheduler.jobs.audit_records import CHILDREN
from warren.sql.listings import job_search
from warren.sql.registry import apps

LABELS = {
    "addresses": lazy_gettext("Addresses"),
    "alarm_email": lazy_gettext("Alarm e-mail"),
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
    "until": lazy_gettext("Ends"),
    "version": lazy_gettext("Version"),
    "webhook_url": lazy_gettext("Webhook"),
    "webhook_when": lazy_gettext("Call the webhook"),
}
_APPS = frozenset({"app_id", "app_ids"})
_JOBS = frozenset({"job", "job_id", "job_ids", CHILDREN})
_RUNS = frozenset({"run", "runs", "planned"})
#: An entry about many runs has hundreds of ids; a list longer than this is cut. Exports have all.
LISTED = 100
_WORDS: Mapping[str, Mapping[Any, Any]] = {
    "may_edit_glue": {True: lazy_gettext("yes"), False: lazy_gettext("no")},
    "role": labels.ROLE,
    "status": {status: state.word for status, state in labels.STATUS.items()},
    "webhook_when": job_labels.CALL_WHEN,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of a value, and the URL of what it names; empty if that has no page."""

    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """What ids in records stand for, and how times are shown, from epoch milliseconds."""

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
        one for record in records for field in _JOBS & set(record) for one in _ids(record[field])
    }
    known = apps.ids_by_name(session, visitor.app_ids)
    return Names(
        {app_id: name for name, app_id in known.items()},
        job_search.names(session, job_ids, visitor.app_ids) if job_ids else {},
        time,
    )


def shown(name: str, stored: Any, names: Names) -> tuple[Shown, ...]:
    """Return a stored value in the viewer's words; ids without a name stay numbers."""
    if name in _RUNS:
        return _listed(_ids(stored), _run)
    if name in _JOBS:
        return _listed(_ids(stored), partial(_job, names=names.jobs))
    return (Shown(_in_words(name, stored, names)),)


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


def _in_words(name: str, stored: Any, names: Names) -> str:
    if name in _WORDS:
        return str(_WORDS[name].get(stored, stored))
    if name in _APPS:
        listed = ", ".join(names.apps.get(one, str(one)) for one in _ids(stored))
        return listed or str(gettext("all"))
    if name in ("before_ms", "expires_at") and isinstance(stored, int):
        return names.time(stored)
    if name == "until":
        return names.time(int(datetime.fromisoformat(stored).timestamp() * 1000))
    return ", ".join(map(str, stored)) if isinstance(stored, list) else str(stored)


def _ids(stored: Any) -> list[int]:
    if isinstance(stored, str):
        return [int(part) for part in stored.split(",") if part.isdecimal()]
    found = stored if isinstance(stored, list) else [stored]
    return [one for one in found if isinstance(one, int)]

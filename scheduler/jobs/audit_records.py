"""A job as the audit log keeps it: by the names of its columns, whatever they are called here."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from scheduler.jobs.fields import FIELDS, WRITTEN, Field
from sql.jobs import child_links, script_versions
from sql.models import Job

_COLUMNS = {name: column.name for name, column in Job.__mapper__.columns.items()}
#: The field that each column of a record belongs to.
FIELD_OF: Mapping[str, Field] = {_COLUMNS[one.column]: one for one in (*WRITTEN, FIELDS["enabled"])}
CHILDREN = _COLUMNS["child_ids"]
#: Those that open something elsewhere: the audit log says only that they are there.
SECRETS = frozenset(_COLUMNS[field.column] for field in FIELDS.values() if field.kind.is_secret)


def record_of(session: Session, job: Job, children: Sequence[int] = ()) -> dict[str, object]:
    """Return what is kept of a whole job: what is set."""
    found = record_of_fields(session, job, [*WRITTEN, FIELDS["enabled"]])
    found |= record_of_children(children)
    return {name: value for name, value in found.items() if value not in (None, "")}


def record_of_fields(session: Session, job: Job, fields: Iterable[Field]) -> dict[str, object]:
    """Return what is kept of some fields, and which script it has."""
    found = {_COLUMNS[field.column]: getattr(job, field.column) for field in fields}
    return found | _script(session, job)


def record_of_children(job_ids: Sequence[int]) -> dict[str, object]:
    """Return what is kept of a job's children."""
    return {_COLUMNS["child_ids"]: child_links.joined(job_ids)}


def _script(session: Session, job: Job) -> dict[str, object]:
    """Return which script a job has: its version, and the hash of its source."""
    if job.script_version is None:
        return {}
    digest = hashlib.sha256((job.script_source or "").encode()).hexdigest()
    number = script_versions.number(session, job.script_version)
    return {"script": f"{job.script_type} version {number}, sha256 {digest}"}

"""A job as the audit log stores it: values by the names of their database columns."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from scheduler.jobs.fields import FIELDS, WRITTEN, Field
from sql.jobs import child_links, script_versions
from sql.models import Job

_COLUMNS = {name: column.name for name, column in Job.__mapper__.columns.items()}
#: Fields by the columns of a record.
FIELD_OF: Mapping[str, Field] = {_COLUMNS[one.column]: one for one in (*WRITTEN, FIELDS["enabled"])}
CHILDREN = _COLUMNS["child_ids"]
#: Columns whose values are secret: the audit log notes only that they are set.
SECRETS = frozenset(_COLUMNS[field.column] for field in FIELDS.values() if field.kind.is_secret)


def record_of(session: Session, job: Job, children: Sequence[int] = ()) -> dict[str, object]:
    """Return the record of a whole job, without fields that are not set."""
    record = record_of_fields(session, job, [*WRITTEN, FIELDS["enabled"]])
    record |= record_of_children(children)
    return {name: value for name, value in record.items() if value not in (None, "")}


def record_of_fields(session: Session, job: Job, fields: Iterable[Field]) -> dict[str, object]:
    """Return the record of some fields and of the script, if the job has one."""
    values = {_COLUMNS[field.column]: getattr(job, field.column) for field in fields}
    return values | _script(session, job)


def record_of_children(job_ids: Sequence[int]) -> dict[str, object]:
    """Return the record of a job's children."""
    return {_COLUMNS["child_ids"]: child_links.joined(job_ids)}


def _script(session: Session, job: Job) -> dict[str, object]:
    """Return the record of a job's script: its language, version and source hash."""
    if job.script_version is None:
        return {}
    digest = hashlib.sha256((job.script_source or "").encode()).hexdigest()
    number = script_versions.number(session, job.script_version)
    return {"script": f"{job.script_type} version {number}, sha256 {digest}"}

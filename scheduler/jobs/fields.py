"""The fields of a job as `JobSpec` declares them, and the way between them and its row."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from scheduler.jobs.field_kinds import Choice, Line, Number, Tags, Text
from scheduler.jobs.spec import JobSpec
from sql.models import Job


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, type and default in `JobSpec`, its kind, and the row's attribute.

    `default` is None for a field that has none.
    """

    name: str
    type: Any
    default: Any
    kind: Text
    column: str

    @property
    def key(self) -> str:
        """What it is called in a job file, within its group: `alarm_style` is `style` there."""
        return self.name.removeprefix(f"{self.kind.group}_")

    @property
    def words(self) -> str:
        """What it is called where a change of it is shown."""
        return self.name.replace("_", " ", 1) if self.kind.group else self.name

    @property
    def title(self) -> str:
        """What it is called beside its value."""
        return self.name.replace("_", " ")

    def value(self, job: Job) -> Any:
        """Return what a row says of it."""
        return self.kind.value(getattr(job, self.column))


def _declared() -> dict[str, Field]:
    hints = get_type_hints(JobSpec, include_extras=True)
    found = {}
    for each in fields(JobSpec):
        type_, kind = get_args(hints[each.name])
        default = None if each.default is MISSING else each.default
        found[each.name] = Field(each.name, type_, default, kind, kind.column or each.name)
    return found


#: Every field by its name, in the order of a job file.
FIELDS: Mapping[str, Field] = _declared()
#: Those that are just written to their columns.
WRITTEN = tuple(field for field in FIELDS.values() if not field.kind.apart)
#: Those whose kind has a rule.
RULED = tuple(one for one in FIELDS.values() if isinstance(one.kind, Choice | Line | Number | Tags))
_STORED = attrgetter(*(field.column for field in WRITTEN))
_WANTED = attrgetter(*(field.name for field in WRITTEN))


def in_group(group: str = "") -> dict[str, Field]:
    """Return the fields of a group of the job file, or of its top, by their keys."""
    return {field.key: field for field in FIELDS.values() if field.kind.group == group}


def columns_of(spec: JobSpec, which: Iterable[Field] = WRITTEN) -> dict[str, object]:
    """Return what a row holds of a description, by the row's attributes."""
    return {field.column: field.kind.stored(getattr(spec, field.name)) for field in which}


def changed(job: Job, spec: JobSpec) -> list[Field]:
    """Return the written fields of a job that are other than described."""
    return [
        field
        for field, stored, value in zip(WRITTEN, _STORED(job), _WANTED(spec), strict=True)
        # Most are stored as they are, and thousands of jobs are compared. (False equals 0.)
        if (stored != value or value is False) and field.kind.value(stored) != value
    ]

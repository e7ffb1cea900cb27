"""The fields that `JobSpec` declares, and their conversion to and from a job's row."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from warren.scheduler.jobs.field_kinds import Choice, Line, Number, Tags, Text
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import Job


@dataclass(frozen=True, slots=True)
class Field:
    """One field of `JobSpec`; `column` is the row's attribute, `default` None if there is none."""

    name: str
    type: Any
    default: Any
    kind: Text
    column: str

    @property
    def key(self) -> str:
        """Its key in a job file, within its group: `alarm_style` is `style`."""
        return self.name.removeprefix(f"{self.kind.group}_")

    @property
    def words(self) -> str:
        """Its name in edit summaries: `alarm_style` is `alarm style`."""
        return self.name.replace("_", " ", 1) if self.kind.group else self.name

    @property
    def title(self) -> str:
        """Its label beside a value, with spaces for underscores."""
        return self.name.replace("_", " ")

    def value(self, job: Job) -> Any:
        """Return the field's value in a row."""
        return self.kind.value(getattr(job, self.column))


def _declared() -> dict[str, Field]:
    hints = get_type_hints(JobSpec, include_extras=True)
    declared = {}
    for each in fields(JobSpec):
        type_, kind = get_args(hints[each.name])
        default = None if each.default is MISSING else each.default
        declared[each.name] = Field(each.name, type_, default, kind, kind.column or each.name)
    return declared


#: All fields by name, in the order of a job file.
FIELDS: Mapping[str, Field] = _declared()
#: Fields that are stored by writing their columns.
WRITTEN = tuple(field for field in FIELDS.values() if not field.kind.custom)
#: Fields whose kind restricts their values.
RULED = tuple(one for one in FIELDS.values() if isinstance(one.kind, Choice | Line | Number | Tags))
_STORED = attrgetter(*(field.column for field in WRITTEN))
_WANTED = attrgetter(*(field.name for field in WRITTEN))


def in_group(group: str = "") -> dict[str, Field]:
    """Return the fields of a group of the job file by key; empty = those of the top level."""
    return {field.key: field for field in FIELDS.values() if field.kind.group == group}


def columns_of(spec: JobSpec, which: Iterable[Field] = WRITTEN) -> dict[str, object]:
    """Return the stored values of a spec's fields, by the row's attributes."""
    return {field.column: field.kind.stored(getattr(spec, field.name)) for field in which}


def changed(job: Job, spec: JobSpec) -> list[Field]:
    """Return the fields in WRITTEN whose values in the row differ from the spec."""
    return [
        field
        for field, stored, value in zip(WRITTEN, _STORED(job), _WANTED(spec), strict=True)
        # Thousands of jobs are compared, so try the cheap comparison first. (False equals 0.)
        if (stored != value or value is False) and field.kind.value(stored) != value
    ]

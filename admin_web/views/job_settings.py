"""A job's settings as its page lists them: each declared field with its label in the form."""

from typing import Any, NamedTuple

from flask_babel import gettext

from warren.admin_web.forms.jobs import FORM_FIELDS, JobForm
from warren.admin_web.language.job_labels import CALL_WHEN, OPTIONS, label_of
from warren.scheduler.jobs.field_kinds import Choice, Number, Texts, Webhook, YesOrNo
from warren.scheduler.jobs.fields import Field
from warren.scheduler.jobs.spec import JobSpec

#: Fields that the page shows elsewhere.
_ELSEWHERE = frozenset({"name", "app", "schedule_kind", "timezone", "language", "enabled"})


class Setting(NamedTuple):
    """A row of the list; `look` are its CSS classes."""

    label: str
    value: str
    look: str


def read_settings(spec: JobSpec, *, may_see_secrets: bool) -> list[Setting]:
    """Return a job's settings in the order of the form, without empty ones.

    Of a secret the visitor may not see, only that it is set.
    """
    form = JobForm()
    found = [
        Setting(
            str(form[name].label.text),
            _shown(field, getattr(spec, field.name), may_see_secrets=may_see_secrets),
            _look(field),
        )
        for name, field in FORM_FIELDS.items()
        if name not in _ELSEWHERE
    ]
    return [one for one in found if one.value]


def _shown(field: Field, value: Any, *, may_see_secrets: bool) -> str:
    kind = field.kind
    if isinstance(kind, YesOrNo):
        return "" if value is None else str(gettext("yes") if value else gettext("no"))
    if isinstance(kind, Number):
        return str(value or "")
    if field.name == "webhook_when":
        return str(CALL_WHEN.get(value, value)) if value else ""
    if kind.is_secret and value and not may_see_secrets:
        return str(gettext("yes"))
    return label_of(OPTIONS[field.name], value) if isinstance(kind, Choice) else kind.shown(value)


def _look(field: Field) -> str:
    if isinstance(field.kind, Webhook):
        return "wrap"
    is_code = field.name in ("handler", "param") and not isinstance(field.kind, Choice | Texts)
    return "mono wrap" if is_code else ""

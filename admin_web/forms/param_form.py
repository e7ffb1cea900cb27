"""A param in a form: as fields, if its handler's params are known, or as a text.

Whatever the fields cannot say is typed as a text. Nothing here needs JavaScript.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from flask_babel import gettext
from werkzeug.datastructures import MultiDict

from warren.admin_web.forms.param_fields import (
    MISSING,
    PREFIX,
    Look,
    ParamField,
    as_json,
    field_of,
    text_of,
    value_of,
)
from warren.admin_web.language.labels import problem_text
from warren.scheduler.jobs.typed_params import Schema, param_problems, resolved
from warren.scheduler.problems import Code, Problem, Refused

#: The name of the hidden field that says what was sent: the fields, or the param's text.
SENT_AS, AS_FIELDS, AS_TEXT = "param_as", "fields", "text"
#: The name of the button that shows the other one.
SHOW_AS = "param_show"
#: Properties for which there is a form at most.
MAX_FIELDS = 100
#: What no param contains.
_UNSAYABLE = "\0"


@dataclass(slots=True, kw_only=True)
class ParamInput:
    """A param in a form: as fields, if its handler's params are known, or as a text.

    Attributes:
        form: the fields; None if nothing tells what they are.
        text: the param.
        as_fields: whether the fields are shown.
        is_switch: whether only the other of both was asked for.
        fault: why the text is not shown as fields.

    """

    form: "ParamForm | None"
    text: str
    as_fields: bool = False
    is_switch: bool = False
    fault: str = ""

    @classmethod
    def stored(cls, schemas: Sequence[str], param: str) -> Self:
        """Return the input for a param: as fields if they say exactly what it says."""
        forms = _forms(schemas)
        fitting = next((form for form in forms if form.fill(param)), None)
        first = next(iter(forms), None)
        return cls(form=fitting or first, text=param, as_fields=fitting is not None)

    @classmethod
    def sent(cls, schemas: Sequence[str], sent: MultiDict[str, str]) -> Self:
        """Return what was sent with a form."""
        asked, text = sent.get(SHOW_AS, ""), sent.get("param", "").replace("\r\n", "\n")
        if sent.get(SENT_AS) != AS_FIELDS:
            shown = cls.stored(schemas, text)
            is_fitting, shown.as_fields = shown.as_fields, asked == AS_FIELDS and shown.as_fields
            if asked == AS_FIELDS and shown.form is None:
                shown.fault = gettext("No online executor tells which params this handler has.")
            elif asked == AS_FIELDS and not is_fitting:
                shown.fault = gettext("This text cannot be shown as fields.")
        else:
            posted = {name for name in sent if name.startswith(PREFIX)}
            forms = _forms(schemas)
            form = max(forms, key=lambda form: len(posted & form.ids), default=None)
            if form is not None:
                form.read(sent)
            text = _guess(sent, posted) if form is None else form.param
            shown = cls(form=form, text=text, as_fields=form is not None and asked != AS_TEXT)
        shown.is_switch = asked in (AS_FIELDS, AS_TEXT)
        return shown

    def check(self) -> None:
        """Refuse what the param could not tell: broken JSON in a box, and fields that are gone.

        Raises:
            Refused: with what else is wrong with the fields.

        """
        if self.form and self.as_fields and (problems := self.form.problems()):
            raise Refused(problems)

    def show(self, problems: Iterable[Problem]) -> list[Problem]:
        """Show each problem beside its field; return those that belong to none."""
        return self.form.show(problems) if self.form and self.as_fields else list(problems)


def _forms(schemas: Sequence[str]) -> list["ParamForm"]:
    forms = (ParamForm.of(json.loads(schema)) for schema in sorted(schemas))
    return [form for form in forms if form is not None]


def _guess(sent: MultiDict[str, str], posted: Iterable[str]) -> str:
    """Return the param of fields whose schema is gone, because no executor is online any more."""
    said = {name.removeprefix(PREFIX): sent[name] for name in sorted(posted) if sent[name].strip()}
    return as_json({name: value_of(text) for name, text in said.items()}) if said else ""


class ParamForm:
    """The fields of a handler's params; `about` is what the type says about itself."""

    def __init__(self, schema: Schema, fields: Sequence[ParamField], about: str) -> None:
        self._schema = schema
        self.fields = fields
        self.about = about
        self._gone: list[str] = []

    @classmethod
    def of(cls, schema: Schema) -> Self | None:
        """Return the form for a schema; None if it names no properties, or too many."""
        root = resolved(schema, schema)
        properties = root.get("properties")
        if not isinstance(properties, Mapping) or not 0 < len(properties) <= MAX_FIELDS:
            return None
        required = root.get("required")
        named = required if isinstance(required, list) else []
        fields = [
            field_of(schema, str(name), part, is_required=name in named)
            for name, part in properties.items()
        ]
        return cls(schema, fields, text_of(root.get("description")))

    def fill(self, param: str) -> bool:
        """Show a param; return whether the form says exactly what it says."""
        try:
            values = json.loads(param or "{}")
        except (ValueError, RecursionError):
            return False
        if not isinstance(values, dict):
            return False
        for each in self.fields:
            if each.name in values:
                each.fill(values[each.name])
            elif each.look is Look.CHECK:
                each.fill(each.default)
        said = self._values()
        defaults = {each.name: each.default for each in self.fields if each.default is not MISSING}
        # A value that has to be said, and may be null, is null unless something is typed.
        added = [name for name in said if name not in values and said[name] is not None]
        return not added and all(
            as_json(said.get(name, defaults.get(name, _UNSAYABLE))) == as_json(value)
            for name, value in values.items()
        )

    def read(self, sent: MultiDict[str, str]) -> None:
        """Take what was sent."""
        for each in self.fields:
            each.read(sent)
        others = {name for name in sent if name.startswith(PREFIX)} - self.ids
        self._gone = sorted(name for name in others if sent[name].strip())

    @property
    def param(self) -> str:
        """The param that the fields say, as JSON; empty if all are left out."""
        values = self._values()
        return json.dumps(values, ensure_ascii=False) if values else ""

    def problems(self) -> list[Problem]:
        """Return all problems if a box has broken JSON, or a field is gone that was typed into.

        Without those, there are none: what else is wrong is found in the param.
        """
        own = [fault for each in self.fields if (fault := each.fault)]
        names = [name.removeprefix(PREFIX)[:100] for name in self._gone]
        own += [Problem(Code.PARAM_UNKNOWN, "param", name=name) for name in names]
        others = param_problems(self._schema, self.param) if own else []
        found = {problem.field for problem in own}
        return [*own, *(problem for problem in others if problem.field not in found)]

    def show(self, problems: Iterable[Problem]) -> list[Problem]:
        """Show each problem beside its field; return those that belong to none."""
        by_name = {each.name: each for each in self.fields}
        others = []
        for problem in problems:
            whole, _, place = problem.field.partition("/")
            name = place.partition("/")[0].replace("~1", "/").replace("~0", "~")
            if whole == "param" and name in by_name:
                by_name[name].errors.append(_words(problem))
            else:
                others.append(problem)
        return others

    @property
    def ids(self) -> set[str]:
        """The names of the controls."""
        return {each.id for each in self.fields}

    def _values(self) -> dict[str, Any]:
        values = {each.name: each.value() for each in self.fields}
        return {name: value for name, value in values.items() if value is not MISSING}


def _words(problem: Problem) -> str:
    """Return a problem as it is shown beside its field."""
    is_own = problem.code is Code.PARAM_MISSING and problem.field.count("/") == 1
    return gettext("Required.") if is_own else problem_text(problem)

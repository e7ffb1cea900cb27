"""A param in a form: as fields made from its JSON Schema, if that is known, or as a text.

Texts, numbers, decimals, dates, choices, yes or no, and lists of them have fields of their own. A
struct in a struct is a group of fields, and a list of structs has rows of them. Everything else is
a text box of JSON. A field that is left empty is left out of the param, so that its default counts.
Whatever the fields cannot express is typed as a text. Nothing here needs JavaScript.
"""

import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from flask_babel import gettext
from werkzeug.datastructures import MultiDict

from warren.admin_web.language.labels import problem_text
from warren.scheduler.jobs.param_schema import Schema, param_problems, resolved, shown
from warren.scheduler.problems import Code, Problem, Refused

#: What the names of the controls begin with.
PREFIX = "p."
#: Structs inside each other, and rows of a list, at most; more are typed as JSON.
MAX_DEPTH, MAX_ROWS = 4, 50
#: Choices that are shown as boxes, at most.
MAX_BOXES = 12
#: In place of a value that is left out, or of a default if there is none.
MISSING: Any = object()
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,30})(\.\d{1,30})?([eE][-+]?\d{1,3})?")
_EXAMPLES = {"date-time": "2026-12-01T08:00:00+08:00"}
#: What inputs of a type of their own can show.
_INPUTS: dict[str, re.Pattern[str]] = {
    "date": re.compile(r"(\d{4}-\d\d-\d\d)?"),
    "time": re.compile(r"(\d\d:\d\d(:\d\d)?)?"),
}
#: What `<input type="time">` sends when the seconds are zero.
_MINUTES = re.compile(r"\d\d:\d\d")


class Look(StrEnum):
    """How a field is shown."""

    LINE = "line"
    LINES = "lines"
    NUMBER = "number"
    DATE = "date"
    TIME = "time"
    CHECK = "check"
    CHOICE = "choice"
    BOXES = "boxes"
    JSON = "json"
    GROUP = "group"
    ROWS = "rows"


#: How texts of some formats look.
_TEXTS = {"date": Look.DATE, "partial-time": Look.TIME, "time": Look.TIME, "decimal": Look.NUMBER}


@dataclass(slots=True, kw_only=True)
class ParamField:
    """One property of the params, or of a struct in them.

    Attributes:
        name: the property's.
        place: where it is in the param, as a JSON pointer: `parts/0/name`.
        kind: the type of its value, or of each value of a list; empty if that does not matter.
        hint: its description.
        format: the format of a text, such as date-time.
        default: its value if it is left out; MISSING = none.
        choices: as JSON, with what is shown of each.
        text: what was typed, or is stored; of a checkbox "1" or "".
        chosen: the chosen values of boxes, as JSON.
        parts: the fields of a group, or those that each row has.
        rows: the rows of a list of structs.

    """

    name: str
    look: Look
    place: str = ""
    kind: str = ""
    format: str = ""
    hint: str = ""
    is_required: bool = False
    is_nullable: bool = False
    default: Any = MISSING
    choices: Sequence[tuple[str, str]] = ()
    text: str = ""
    chosen: Sequence[str] = ()
    parts: Sequence["ParamField"] = ()
    rows: list[Sequence["ParamField"]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The name and id of its control."""
        return f"{PREFIX}{self.place}"

    @property
    def ids(self) -> Iterator[str]:
        """The names of its control and of those of its parts."""
        yield self.id
        for part in self.inner:
            yield from part.ids

    @property
    def inner(self) -> Iterator["ParamField"]:
        """The fields of a group, or of all rows."""
        yield from self.parts if self.look is Look.GROUP else ()
        for row in self.rows:
            yield from row

    @property
    def said_rows(self) -> list[Sequence["ParamField"]]:
        """The rows into which something was typed."""
        return [row for row in self.rows if any(part.is_said for part in row)]

    @property
    def is_said(self) -> bool:
        """Whether something was typed into it, or chosen."""
        if self.look is Look.CHECK:
            return bool(self.text) is not (self.default is True)
        return bool(self.text.strip() or self.chosen) or any(part.is_said for part in self.inner)

    @property
    def options(self) -> list[tuple[str, str]]:
        """Its choices, and a chosen value that is not among them, such as a former choice."""
        known = [value for value, _ in self.choices]
        chosen = self.chosen if self.look is Look.BOXES else filter(None, [self.text])
        return [*self.choices, *((value, value) for value in chosen if value not in known)]

    @property
    def placeholder(self) -> str:
        """Its default, or how to write it; empty if there is nothing to say."""
        if self.default is MISSING or self.default in (None, "", []):
            return _EXAMPLES.get(self.format, "")
        return _typed(self.default, self.look)

    @property
    def input_type(self) -> str:
        """The type of its input; browsers show no text that is not of that type."""
        pattern = _INPUTS.get(self.look)
        return self.look if pattern and pattern.fullmatch(self.text) else "text"

    @property
    def aria(self) -> dict[str, str]:
        """The attributes that tie its control to its error and its hint."""
        notes = [f"{self.id}-error"] if self.errors else []
        if self.hint or self.look in (Look.LINES, Look.JSON, Look.ROWS):
            notes.append(f"{self.id}-hint")
        attributes = {"aria-describedby": " ".join(notes)} if notes else {}
        return attributes | {"aria-invalid": "true"} if self.errors else attributes

    def placed(self, within: str) -> "ParamField":
        """Return a field like this one, without what was typed, at a place within another one."""
        place = f"{within}/{_escaped(self.name)}" if within else _escaped(self.name)
        parts = self.parts
        if self.look is Look.GROUP:
            parts = [part.placed(place) for part in parts]
        return replace(self, place=place, parts=parts, rows=[], errors=[])

    def add_row(self) -> None:
        """Add an empty row, if there may be one more."""
        if len(self.rows) < MAX_ROWS:
            within = f"{self.place}/{len(self.rows)}"
            self.rows.append([part.placed(within) for part in self.parts])
            _fill(self.rows[-1], {})

    def add_row_to(self, control: str) -> None:
        """Add an empty row to the list with this control, which may be within it."""
        if self.look is Look.ROWS and self.id == control:
            self.add_row()
        for part in [*self.inner]:
            part.add_row_to(control)

    def fill(self, value: Any) -> None:
        if self.look is Look.GROUP:
            _fill(self.parts, value if isinstance(value, dict) else {})
        elif self.look is Look.ROWS:
            for row in value[:MAX_ROWS] if isinstance(value, list) else ():
                self.add_row()
                _fill(self.rows[-1], row if isinstance(row, dict) else {})
        elif self.look is Look.BOXES:
            self.chosen = [as_json(part) for part in value] if isinstance(value, list) else []
        elif self.look is Look.CHECK:
            self.text = "1" if value is True else ""
        elif self.look is Look.CHOICE:
            self.text = as_json(value)
        else:
            self.text = "" if value is None else _typed(value, self.look)

    def read(self, sent: MultiDict[str, str]) -> None:
        """Take what was sent."""
        self.text = sent.get(self.id, "").replace("\r\n", "\n")
        self.chosen = sent.getlist(self.id) if self.look is Look.BOXES else ()
        for number in range(MAX_ROWS if self.look is Look.ROWS else 0):
            if f"{self.id}/{number}" not in sent:
                break
            self.add_row()
        for part in self.inner:
            part.read(sent)

    def value(self) -> Any:
        """Return the value that was typed; MISSING to leave it out.

        An invalid number stays a text, which the schema then refuses.
        """
        if self.look is Look.CHECK:
            is_on = bool(self.text)
            is_default = is_on is (self.default is True)
            return MISSING if is_default and not self.is_required else is_on
        if self.look is Look.BOXES:
            return [value_of(text) for text in self.chosen] or ([] if self.is_required else MISSING)
        if self.look is Look.ROWS and (self.said_rows or not self.is_nullable):
            said = [_values(row) for row in self.said_rows]
            return said or ([] if self.is_required else MISSING)
        if self.look is Look.GROUP and (
            self.is_said or (self.is_required and not self.is_nullable)
        ):
            return _values(self.parts)
        if not self.text.strip():
            return None if self.is_required and self.is_nullable else MISSING
        return self._typed_value()

    def says(self, value: Any) -> bool:
        """Whether exactly this value is in it."""
        said = self.value()
        if said is MISSING:
            return self.default is not MISSING and as_json(self.default) == as_json(value)
        if self.look is Look.GROUP and isinstance(value, dict):
            return _say(self.parts, value)
        if self.look is Look.ROWS and isinstance(value, list):
            rows = self.said_rows
            return len(rows) == len(value) and all(
                isinstance(one, dict) and _say(row, one)
                for row, one in zip(rows, value, strict=True)
            )
        return as_json(said) == as_json(value)

    def tell_required(self) -> None:
        """Say that it is required; of a struct, that its required parts are."""
        required = [part for part in self.parts if part.is_required]
        for part in required if self.look is Look.GROUP else ():
            part.tell_required()
        if self.look is not Look.GROUP or not required:
            self.errors.append(gettext("Required."))

    def faults(self, within: str = "param") -> Iterator[Problem]:
        """Yield that a box has broken JSON; what does not look like JSON is a text."""
        place = f"{within}/{_escaped(self.name)}"
        typed = self.text.strip()
        if self.look is Look.JSON and typed.startswith(("{", "[", '"')) and not _is_json(typed):
            name = place.partition("/")[2]
            yield Problem(Code.PARAM_TYPE, place, name=name, kind="JSON", got=shown(typed))
        for part in self.parts if self.look is Look.GROUP else ():
            yield from part.faults(place)
        for number, row in enumerate(self.said_rows):
            for part in row:
                yield from part.faults(f"{place}/{number}")

    def field_at(self, path: Sequence[str]) -> "ParamField":
        """Return the innermost field at a path within it, as in a problem."""
        fields = self.parts
        if self.look is Look.ROWS:
            number, path, rows = "".join(path[:1]), path[1:], self.said_rows
            fields = rows[int(number)] if number.isdecimal() and int(number) < len(rows) else ()
        found = next((one for one in fields if path and _escaped(one.name) == path[0]), None)
        return found.field_at(path[1:]) if found else self

    def _typed_value(self) -> Any:
        if self.look in (Look.CHOICE, Look.JSON):
            return value_of(self.text)
        if self.look is Look.NUMBER:
            return _scalar(self.text.strip(), self.kind)
        if self.look is Look.LINES:
            return [_scalar(line, self.kind) for line in self.text.split("\n") if line.strip()]
        if self.look is Look.TIME and _MINUTES.fullmatch(self.text):
            return f"{self.text}:00"
        return _scalar(self.text, self.kind)


def fields_of(schema: Schema, struct: Schema, most: int, depth: int = 1) -> list[ParamField]:
    """Return the fields of a struct, without places; empty if it has none, or more than `most`."""
    properties = struct.get("properties")
    if not isinstance(properties, Mapping) or len(properties) > most or depth > MAX_DEPTH:
        return []
    required = struct.get("required")
    named = required if isinstance(required, list) else []
    left = most - len(properties)
    fields = []
    for name, part in properties.items():
        one = _field_of(schema, str(name), part, is_required=name in named)
        inner = _struct_in(schema, part, one.look)
        parts = fields_of(schema, inner, left, depth + 1) if inner else []
        if parts:
            left -= _count(parts)
            one.look = Look.ROWS if inner.get("type") == "array" else Look.GROUP
            one.parts = parts
        fields.append(one)
    return fields


def _field_of(schema: Schema, name: str, part: Any, *, is_required: bool) -> ParamField:
    outer = dict(resolved(schema, part))
    kinds, is_nullable = _without_null(schema, outer)
    inner = kinds[0] if len(kinds) == 1 else {}
    described = inner | outer
    look, kind, choices = _look(schema, inner, is_nullable=is_nullable)
    return ParamField(
        name=name,
        look=look,
        kind=kind,
        format=str(inner.get("format", "")),
        hint=text_of(described.get("description")),
        is_required=is_required,
        is_nullable=is_nullable,
        default=described.get("default", MISSING),
        choices=choices,
    )


#: How a field looks, the type of its value or of each value of a list, and its choices.
_Look = tuple[Look, str, Sequence[tuple[str, str]]]
_ANYTHING: _Look = (Look.JSON, "", ())


def _look(schema: Schema, inner: Schema, *, is_nullable: bool) -> _Look:
    kind = inner.get("type")
    if choices := _choices(inner):
        return Look.CHOICE, "", choices
    if kind == "boolean" and is_nullable:
        return Look.CHOICE, "", [("true", gettext("yes")), ("false", gettext("no"))]
    if kind == "array" and "prefixItems" not in inner:
        return _list_look(dict(resolved(schema, inner.get("items"))))
    looks = {
        "boolean": Look.CHECK,
        "integer": Look.NUMBER,
        "number": Look.NUMBER,
        "string": _TEXTS.get(str(inner.get("format")), Look.LINE),
    }
    return (looks[kind], kind, ()) if kind in looks else _ANYTHING


def _list_look(items: Schema) -> _Look:
    kind = items.get("type")
    choices = _choices(items)
    if choices and len(choices) <= MAX_BOXES:
        return Look.BOXES, "", choices
    if not choices and kind in ("string", "integer", "number"):
        return Look.LINES, kind, ()
    return _ANYTHING


def _struct_in(schema: Schema, part: Any, look: Look) -> Schema:
    """Return the struct that a value is, or each of a list; empty if it is none.

    Of a list, its `type` is array.
    """
    if look is not Look.JSON:
        return {}
    kinds, _ = _without_null(schema, dict(resolved(schema, part)))
    inner = kinds[0] if len(kinds) == 1 else {}
    if inner.get("type") == "array" and "prefixItems" not in inner:
        items = resolved(schema, inner.get("items"))
        return {**items, "type": "array"} if items.get("type") == "object" else {}
    return inner if inner.get("type") == "object" else {}


def _without_null(schema: Schema, part: Schema) -> tuple[list[dict[str, Any]], bool]:
    """Return the schema of a value apart from null, and whether it may be null."""
    every = [dict(part)]
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(part.get(name), list):
            every = [dict(resolved(schema, choice)) for choice in part[name]]
    if isinstance(part.get("type"), list):
        every = [dict(part) | {"type": kind} for kind in part["type"]]
    kinds = [choice for choice in every if choice.get("type") != "null"]
    return kinds, len(kinds) < len(every)


def _choices(part: Schema) -> list[tuple[str, str]]:
    """Return the values that are allowed, as JSON, and what is shown of each."""
    allowed = part.get("enum", [part["const"]] if "const" in part else [])
    if not isinstance(allowed, list):
        return []
    return [(as_json(value), _typed(value, Look.LINE)) for value in allowed]


def _typed(value: Any, look: Look) -> str:
    """Return a value as it is typed into a field."""
    if look is Look.LINES and isinstance(value, list):
        return "\n".join(_typed(part, Look.LINE) for part in value)
    return value if isinstance(value, str) and look is not Look.JSON else as_json(value)


def _scalar(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    number = json.loads(text) if _NUMBER.fullmatch(text.strip()) else None
    return text if number is None or not math.isfinite(number) else number


def _fill(fields: Iterable[ParamField], values: Mapping[str, Any]) -> None:
    for each in fields:
        if each.name in values:
            each.fill(values[each.name])
        elif each.look is Look.CHECK:
            each.fill(each.default)
        elif each.look is Look.GROUP:
            each.fill({})


def _values(fields: Iterable[ParamField]) -> dict[str, Any]:
    values = {each.name: each.value() for each in fields}
    return {name: value for name, value in values.items() if value is not MISSING}


def _say(fields: Sequence[ParamField], values: Mapping[str, Any]) -> bool:
    """Return whether filled fields express exactly these values."""
    by_name = {each.name: each for each in fields}
    said = _values(fields)
    # Unless something is typed, a required struct is empty, and null if it may be.
    added = [name for name in said if name not in values and not _is_blank(said[name])]
    return not added and all(
        name in by_name and by_name[name].says(value) for name, value in values.items()
    )


def _is_blank(value: Any) -> bool:
    """Return whether a value is null, or a struct without other values."""
    return value is None or (isinstance(value, dict) and all(map(_is_blank, value.values())))


def _count(fields: Iterable[ParamField]) -> int:
    return sum(1 + _count(each.parts) for each in fields)


def _escaped(name: str) -> str:
    """Return a name as a JSON pointer has it."""
    return name.replace("~", "~0").replace("/", "~1")


def _unescaped(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")


def value_of(text: str) -> Any:
    """Parse a text as JSON; return the text itself if it is not JSON."""
    return json.loads(text) if _is_json(text) else text


def _is_json(text: str) -> bool:
    """Return whether a text is JSON, which has no NaN and no infinite numbers."""
    try:
        json.dumps(json.loads(text), allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def text_of(value: Any) -> str:
    """Return a description in a schema; empty if there is none."""
    return inspect.cleandoc(value) if isinstance(value, str) else ""


#: The name of the hidden field that says what was sent: the fields, or the param's text.
SENT_AS, AS_FIELDS, AS_TEXT = "param_as", "fields", "text"
#: The name of the button that shows the other one, and of those that add a row to a list.
SHOW_AS, ADD_TO = "param_show", "param_add"
#: Properties for which there is a form at most.
MAX_FIELDS = 100
#: Controls of a form at most, with those of all rows.
MAX_CONTROLS = 800


@dataclass(slots=True, kw_only=True)
class ParamInput:
    """A param in a form: as fields, if its handler's params are known, or as a text.

    Attributes:
        form: the fields; None if they are unknown.
        text: the param.
        as_fields: whether the fields are shown.
        is_switch: whether the request only shows it in another way.
        fault: why the text is not shown as fields.

    """

    form: "ParamForm | None"
    text: str
    as_fields: bool = False
    is_switch: bool = False
    fault: str = ""

    @classmethod
    def stored(cls, schemas: Sequence[str], param: str) -> Self:
        """Return the input for a param: as fields if they can express exactly that param."""
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
                shown.fault = gettext("No online executor reports which params this handler has.")
            elif asked == AS_FIELDS and not is_fitting:
                shown.fault = gettext("This text cannot be edited as fields.")
        else:
            posted = {name for name in sent if name.startswith(PREFIX)}
            forms = _forms(schemas)
            form = max(forms, key=lambda form: len(posted & form.ids), default=None)
            if form is not None:
                form.read(sent)
                form.add_row(sent.get(ADD_TO, ""))
            text = _guess(sent, posted) if form is None else form.param
            shown = cls(form=form, text=text, as_fields=form is not None and asked != AS_TEXT)
        shown.is_switch = asked in (AS_FIELDS, AS_TEXT) or ADD_TO in sent
        return shown

    def faults(self) -> list[Problem]:
        """Return what the param does not show: broken JSON in a box, and fields that are gone."""
        return self.form.faults() if self.form and self.as_fields else []

    def check(self) -> None:
        """Refuse what has faults.

        Raises:
            Refused: with them, and what else is wrong with the fields.

        """
        if self.form and self.as_fields and (problems := self.form.problems()):
            raise Refused(problems)

    def show(self, problems: Iterable[Problem]) -> list[Problem]:
        """Show each problem beside its field; return those that belong to none."""
        return self.form.show(problems) if self.form and self.as_fields else list(problems)


def with_others(faults: Sequence[Problem], others: Iterable[Problem]) -> list[Problem]:
    """Return faults of fields, and the problems of other fields."""
    found = {fault.field for fault in faults}
    return [*faults, *(problem for problem in others if problem.field not in found)]


def _forms(schemas: Sequence[str]) -> list["ParamForm"]:
    forms = (ParamForm.of(json.loads(schema)) for schema in sorted(schemas))
    return [form for form in forms if form is not None]


def _guess(sent: MultiDict[str, str], posted: Iterable[str]) -> str:
    """Return the param of fields whose schema is gone, because no executor is online now."""
    said: dict[str, Any] = {}
    for control in sorted(name for name in posted if sent[name].strip()):
        *path, last = control.removeprefix(PREFIX).split("/")
        within = said
        for name in path:
            within = within.setdefault(_unescaped(name), {})
        within[_unescaped(last)] = value_of(sent[control])
    return as_json(_with_lists(said)) if said else ""


def _with_lists(value: Any) -> Any:
    """Return a value in which objects whose names are the numbers of rows are lists."""
    if not isinstance(value, dict):
        return value
    inner = {name: _with_lists(part) for name, part in value.items()}
    is_list = inner and all(map(str.isdecimal, inner))
    return [inner[number] for number in sorted(inner, key=int)] if is_list else inner


class ParamForm:
    """The fields of a handler's params; `about` is the type's description."""

    def __init__(self, schema: Schema, fields: Sequence[ParamField], about: str) -> None:
        self._schema = schema
        self.fields = fields
        self.about = about
        self._gone: list[str] = []

    @classmethod
    def of(cls, schema: Schema) -> Self | None:
        """Return the form for a schema; None if it names no properties, or too many."""
        root = resolved(schema, schema)
        fields = [each.placed("") for each in fields_of(schema, root, MAX_FIELDS)]
        return cls(schema, fields, text_of(root.get("description"))) if fields else None

    def fill(self, param: str) -> bool:
        """Show a param; return whether the form expresses exactly that param."""
        try:
            values = json.loads(param or "{}")
        except (ValueError, RecursionError):
            return False
        if not isinstance(values, dict):
            return False
        _fill(self.fields, values)
        return len(self.ids) <= MAX_CONTROLS and _say(self.fields, values)

    def read(self, sent: MultiDict[str, str]) -> None:
        """Take what was sent."""
        for each in self.fields:
            each.read(sent)
        others = {name for name in sent if name.startswith(PREFIX)} - self.ids
        self._gone = sorted(name for name in others if sent[name].strip())

    @property
    def param(self) -> str:
        """The param in the fields, as JSON; empty if all are left out."""
        values = _values(self.fields)
        is_empty = not values or all(value == {} for value in values.values())
        return "" if is_empty else json.dumps(values, ensure_ascii=False)

    def add_row(self, control: str) -> None:
        """Add a row to the list of structs with this control, if there is one."""
        for each in self.fields:
            each.add_row_to(control)

    def faults(self) -> list[Problem]:
        """Return what the param does not show: broken JSON in a box, and fields that are gone."""
        names = [name.removeprefix(PREFIX)[:100] for name in self._gone]
        gone = (Problem(Code.PARAM_UNKNOWN, "param", name=name) for name in names)
        return [*(fault for each in self.fields for fault in each.faults()), *gone]

    def problems(self) -> list[Problem]:
        """Return all problems if there are faults; what else is wrong is found in the param."""
        faults = self.faults()
        others = param_problems(self._schema, self.param) if faults else []
        return with_others(faults, others)

    def show(self, problems: Iterable[Problem]) -> list[Problem]:
        """Show each problem beside its field; return those that belong to none."""
        by_name = {_escaped(each.name): each for each in self.fields}
        others = []
        for problem in problems:
            whole, *path = problem.field.split("/")
            if whole == "param" and path and path[0] in by_name:
                field = by_name[path[0]].field_at(path[1:])
                is_own = problem.code is Code.PARAM_MISSING and "/".join(path) == field.place
                if is_own:
                    field.tell_required()
                else:
                    field.errors.append(problem_text(problem))
            else:
                others.append(problem)
        return others

    @property
    def ids(self) -> set[str]:
        """The names of the controls."""
        return {name for each in self.fields for name in each.ids}

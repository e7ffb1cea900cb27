"""A param as fields that are made from the JSON Schema of its handler's params, and back."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, Literal

import pytest
from flask import Flask
from flask_babel import Babel
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from werkzeug.datastructures import MultiDict

from warren.admin_web.forms.param_form import MAX_ROWS, Look, ParamField, ParamForm, ParamInput
from warren.executor.handlers.params import params_of
from warren.scheduler.jobs.param_schema import param_problems


class Size(IntEnum):
    SMALL = 1
    LARGE = 10


@dataclass
class Code:
    text: str


@dataclass
class Line:
    item: str
    count: int
    gift: bool = False
    codes: list[Code] = field(default_factory=list)


@dataclass
class Day:
    on: date
    whole: bool = True


@dataclass
class Range:
    first: Day
    last: Day | None = None
    step: int = 1


@dataclass
class Load:
    """Which orders to load.

    From the feed of that day.
    """

    day: date
    source: Literal["feed", "archive"]
    note: str | None
    parts: int = 1
    share: float = 0.5
    at: Annotated[time, Meta(tz=False)] | None = None
    since: Annotated[datetime, Meta(tz=True)] | None = None
    dry: bool = False
    loud: bool = True
    sure: bool | None = None
    size: Size = Size.SMALL
    shops: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    kinds: list[Literal["new", "old"]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    either: int | str = 0
    amount: Decimal = Decimal("1.50")
    range: Range | None = None


def load(_context: object, _params: Load) -> None:
    pass


def schema_of(handler: Callable[..., Any]) -> str:
    params = params_of(handler)
    assert params is not None
    return params.schema


SCHEMA = schema_of(load)
#: Defaults of the structs within.
INNER_DEFAULTS = [("whole", True), ("gift", False)]
NEEDED = {"day": "2026-12-01", "source": "feed", "note": None}


#: What a form says in which only `parts` is typed: a value that is needed may be null.
TYPED = '{"note": null, "parts": 3}'
#: What a browser sends of boxes that are ticked by default.
TICKED = {"p.loud": "1", "p.range/first/whole": "1", "p.range/last/whole": "1"}


@pytest.fixture(scope="module", autouse=True)
def _language() -> Iterator[None]:
    """Labels need a request's language."""
    app = Flask("test")
    Babel(app)
    with app.test_request_context():
        yield


def form() -> ParamForm:
    made = ParamForm.of(json.loads(SCHEMA))
    assert made is not None
    return made


def shown(made: ParamForm) -> MultiDict[str, str]:
    """Return what a browser sends of a form that nobody changed."""
    sent = MultiDict[str, str]()

    def send(each: ParamField) -> None:
        if each.look is Look.BOXES:
            for text in each.chosen:
                sent.add(each.id, text)
        elif each.look is Look.ROWS:
            for number in range(len(each.rows)):
                sent.add(f"{each.id}/{number}", "")
        elif each.look is not Look.GROUP and (each.look is not Look.CHECK or each.text):
            sent.add(each.id, each.text.replace("\n", "\r\n"))
        for part in each.inner:
            send(part)

    for each in made.fields:
        send(each)
    return sent


def rows_of(control: str, count: int) -> dict[str, str]:
    """Return what a browser sends of the rows of a list, beside their fields."""
    return {f"{control}/{number}": "" for number in range(count)}


def typed(**texts: str | list[str]) -> dict[str, Any]:
    """Return the params that these texts say, beside those that are needed."""
    made = form()
    sent = MultiDict({"p.day": "2026-12-01", "p.source": '"feed"'} | TICKED)
    for name, text in texts.items():
        sent.setlist(f"p.{name}", text if isinstance(text, list) else [text])
    made.read(sent)
    values = json.loads(made.param)
    return {name: value for name, value in values.items() if name not in NEEDED}


def test_each_property_has_the_field_that_suits_it() -> None:
    made = form()

    assert made.about == "Which orders to load.\n\nFrom the feed of that day."
    assert {each.name: each.look.value for each in made.fields} == {
        "day": "date",
        "source": "choice",
        "note": "line",
        "parts": "number",
        "share": "number",
        "at": "time",
        "since": "line",
        "dry": "check",
        "loud": "check",
        "sure": "choice",
        "size": "choice",
        "shops": "lines",
        "numbers": "lines",
        "kinds": "boxes",
        "lines": "rows",
        "either": "json",
        "amount": "number",
        "range": "group",
    }
    assert [each.name for each in made.fields if each.is_required] == ["day", "source", "note"]
    assert {each.name: each.placeholder for each in made.fields if each.placeholder} == {
        "parts": "1",
        "share": "0.5",
        "since": "2026-12-01T08:00:00+08:00",
        "dry": "false",
        "loud": "true",
        "size": "1",
        "either": "0",
        "amount": "1.50",
    }


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({}, {}),
        ({"parts": "3", "share": "1e-2", "size": "10"}, {"parts": 3, "share": 0.01, "size": 10}),
        ({"parts": "three", "share": "1e999"}, {"parts": "three", "share": "1e999"}),
        ({"dry": "1", "sure": "false"}, {"dry": True, "sure": False}),
        ({"loud": ""}, {"loud": False}),
        ({"at": "02:00"}, {"at": "02:00:00"}),
        ({"shops": "berlin\r\n\r\nhamburg "}, {"shops": ["berlin", "hamburg "]}),
        ({"numbers": "1\n 2\nx"}, {"numbers": [1, 2, "x"]}),
        ({"kinds": ['"new"', '"old"']}, {"kinds": ["new", "old"]}),
        ({"amount": " 12.30 "}, {"amount": "12.30"}),
        (
            {"range/first/on": "2026-12-01"},
            {"range": {"first": {"on": "2026-12-01"}}},
        ),
        ({"range/first/on": ""}, {}),
        ({"range/last/whole": ""}, {"range": {"first": {}, "last": {"whole": False}}}),
        ({"lines/0": "", "lines/0/item": "", "lines/1": "", "lines/1/item": ""}, {}),
        (
            rows_of("lines", 3) | {"lines/0/item": "a", "lines/0/count": "1", "lines/2/gift": "1"},
            {"lines": [{"item": "a", "count": 1}, {"gift": True}]},
        ),
        (
            rows_of("lines", 1) | rows_of("lines/0/codes", 2) | {"lines/0/codes/1/text": "x"},
            {"lines": [{"codes": [{"text": "x"}]}]},
        ),
        ({"either": "7"}, {"either": 7}),
        ({"either": "seven"}, {"either": "seven"}),
    ],
)
def test_what_is_typed_becomes_json_and_what_is_empty_is_left_out(
    texts: dict[str, Any], values: dict[str, Any]
) -> None:
    assert typed(**texts) == values


@pytest.mark.parametrize(
    "param",
    [
        "",
        json.dumps(
            NEEDED | {"note": "x", "parts": 2, "dry": False, "loud": False, "kinds": ["old"]}
        ),
        json.dumps(NEEDED | {"shops": ["a", "b"], "sure": None, "size": 10}),
        json.dumps(NEEDED | {"day": "soon", "parts": "many"}),
        json.dumps(NEEDED | {"amount": "7", "range": {"first": {"on": "2026-12-01"}, "step": 2}}),
        json.dumps(NEEDED | {"range": {"first": {"on": "2026-12-01", "whole": False}}}),
        json.dumps(NEEDED | {"lines": [{"item": "a", "count": 1}, {"item": "b", "gift": True}]}),
        json.dumps(NEEDED | {"lines": [{"item": "a", "codes": [{"text": "x"}, {"text": "y"}]}]}),
    ],
)
def test_a_param_that_fields_can_say_is_shown_as_fields_and_says_the_same(param: str) -> None:
    made = ParamInput.stored([SCHEMA], param)
    assert made.form is not None
    assert made.as_fields

    sent = shown(made.form)
    sent["param_as"] = "fields"
    said = json.loads(ParamInput.sent([SCHEMA], sent).text or "{}")

    defaults = {each.name: each.default for each in made.form.fields}
    stored = json.loads(param or "{}")
    assert said == {"note": None} | {
        name: value for name, value in stored.items() if name in said or value != defaults[name]
    }


@pytest.mark.parametrize(
    "param",
    [
        "2026-12-01",
        "[1]",
        '{"unknown": 1}',
        json.dumps(NEEDED | {"note": ""}),
        json.dumps(NEEDED | {"shops": ["a\nb"]}),
        json.dumps(NEEDED | {"shops": ["", "b"]}),
        json.dumps(NEEDED | {"dry": "perhaps"}),
        json.dumps(NEEDED | {"kinds": "new"}),
        json.dumps(NEEDED | {"kinds": []}),
        json.dumps(NEEDED | {"parts": None}),
        json.dumps(NEEDED | {"range": {}}),
        json.dumps(NEEDED | {"range": {"first": {"on": "2026-12-01"}, "more": 1}}),
        json.dumps(NEEDED | {"lines": []}),
        json.dumps(NEEDED | {"lines": [{}]}),
        json.dumps(NEEDED | {"lines": [1]}),
        json.dumps(NEEDED | {"lines": [{"item": "a"}] * (MAX_ROWS + 1)}),
    ],
)
def test_a_param_that_fields_cannot_say_stays_a_text(param: str) -> None:
    made = ParamInput.stored([SCHEMA], param)

    assert made.form is not None
    assert not made.as_fields
    assert made.text == param


@given(
    st.fixed_dictionaries(
        {},
        optional={
            each.name: st.one_of(
                st.none(),
                st.booleans(),
                st.integers(),
                st.text(),
                st.floats(allow_nan=False, allow_infinity=False),
                st.lists(st.one_of(st.text(), st.integers(), st.just("new")), max_size=3),
                st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
                st.fixed_dictionaries(
                    {"first": st.fixed_dictionaries({"on": st.text(), "whole": st.booleans()})}
                ),
                st.lists(
                    st.fixed_dictionaries(
                        {}, optional={"item": st.text(max_size=2), "gift": st.booleans()}
                    ),
                    max_size=3,
                ),
            )
            for each in form().fields
        },
    )
)
def test_no_param_changes_by_being_shown_and_sent(values: dict[str, Any]) -> None:
    made = ParamInput.stored([SCHEMA], json.dumps(values))
    assert made.form is not None
    if not made.as_fields:
        return

    sent = shown(made.form)
    again = form()
    again.read(sent)

    defaults = {each.name: each.default for each in again.fields}
    said = json.loads(again.param or "{}")
    for name, value in values.items():
        told = said.get(name, defaults[name])
        assert json.dumps(without_defaults(told)) == json.dumps(without_defaults(value)), name
    assert said.keys() <= values.keys() | {"note"}


def without_defaults(value: Any) -> Any:
    """Return a value without what its structs would have anyway."""
    if isinstance(value, list):
        return [without_defaults(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: part for name, part in value.items() if (name, part) not in INNER_DEFAULTS}
    return {name: without_defaults(part) for name, part in kept.items()}


def test_problems_are_shown_beside_their_fields_and_the_others_returned() -> None:
    made = form()
    rows = rows_of("p.lines", 3) | {
        "p.lines/2/item": "a",
        "p.lines/0/item": "b",
        "p.lines/0/count": "x",
    }
    typed = {"p.parts": "x", "p.source": '"feed"', "p.amount": "1,5", "p.range/first/on": "soon"}
    made.read(MultiDict(TICKED | typed | rows))

    others = made.show(param_problems(json.loads(SCHEMA), made.param))

    assert others == []
    assert told(made.fields) == {
        "day": "Required.",
        "parts": 'expected parts to be integer, got: "x"',
        "amount": 'expected amount to be decimal, got: "1,5"',
        "lines/0/count": 'expected lines/0/count to be integer, got: "x"',
        "lines/2/count": "expected param to have 'lines/1/count'",
        "range/first/on": 'expected range/first/on to be date, got: "soon"',
    }


def told(fields: Iterable[ParamField]) -> dict[str, str]:
    """Return the first error of each field, by its place."""
    errors = {each.place: each.errors[0] for each in fields if each.errors}
    for each in fields:
        errors |= told([*each.inner])
    return errors


def test_an_empty_param_is_shown_as_fields_although_a_struct_is_needed() -> None:
    schema = {
        "properties": {
            "account": {
                "type": "object",
                "properties": {"iban": {"type": "string"}},
                "required": ["iban"],
            }
        },
        "required": ["account"],
    }

    made = ParamInput.stored([json.dumps(schema)], "")

    assert made.as_fields
    assert made.form is not None
    made.form.read(shown(made.form))
    assert made.form.param == ""
    assert made.form.show(param_problems(schema, "{}")) == []
    assert told(made.form.fields) == {"account/iban": "Required."}


def test_a_row_is_added_by_a_button_and_what_was_typed_stays() -> None:
    sent = rows_of("p.lines", 1) | {"param_as": "fields", "p.lines/0/item": "a"}

    for button, rows, codes in (("p.lines", 2, 0), ("p.lines/0/codes", 1, 1), ("p.other", 1, 0)):
        made = ParamInput.sent([SCHEMA], MultiDict(sent | {"param_add": button}))
        assert made.form is not None
        [lines] = [each for each in made.form.fields if each.name == "lines"]

        assert (made.is_switch, made.as_fields) == (True, True)
        assert (len(lines.rows), len(lines.rows[0][3].rows)) == (rows, codes), button
        assert lines.rows[0][0].text == "a"


def test_broken_json_in_a_row_is_told_there() -> None:
    schema = {
        "properties": {
            "steps": {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": "integer"}, "more": {}}},
            }
        }
    }
    made = ParamForm.of(schema)
    assert made is not None
    made.read(MultiDict(rows_of("p.steps", 2) | {"p.steps/1/more": "[1", "p.steps/1/n": "x"}))

    assert made.show(made.problems()) == []
    assert told(made.fields) == {
        "steps/1/more": 'expected steps/0/more to be JSON, got: "[1"',
        "steps/1/n": 'expected steps/0/n to be integer, got: "x"',
    }


def test_a_struct_that_holds_itself_ends_as_json() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/n"}}}
    made = ParamForm.of({"$ref": "#/n", "n": node})
    assert made is not None

    depths = 0
    [_, inner] = made.fields
    while inner.look is Look.GROUP:
        depths += 1
        [_, inner] = inner.parts

    assert (depths, inner.look, inner.place) == (3, Look.JSON, "next/next/next/next")


def test_fields_and_text_are_one_click_apart_and_keep_what_was_typed() -> None:
    as_text = ParamInput.sent(
        [SCHEMA],
        MultiDict({"param_as": "fields", "param_show": "text", "p.parts": "3"} | TICKED),
    )
    as_fields = ParamInput.sent(
        [SCHEMA], MultiDict({"param_as": "text", "param_show": "fields", "param": as_text.text})
    )
    cannot = ParamInput.sent(
        [SCHEMA], MultiDict({"param_as": "text", "param_show": "fields", "param": "[1"})
    )
    unknown = ParamInput.sent([], MultiDict({"param_as": "text", "param_show": "fields"}))

    assert (as_text.as_fields, as_text.is_switch, as_text.text) == (False, True, TYPED)
    assert (as_fields.as_fields, as_fields.text) == (True, TYPED)
    assert (cannot.as_fields, cannot.text) == (False, "[1")
    assert cannot.fault == "This text cannot be edited as fields."
    assert unknown.fault == "No online executor reports which params this handler has."


def test_fields_whose_executors_are_gone_still_become_a_param() -> None:
    sent = MultiDict({"param_as": "fields", "p.day": "2026-12-01", "p.parts": "3", "p.note": ""})

    assert ParamInput.sent([], sent).text == '{"day": "2026-12-01", "parts": 3}'

    rows = {f"p.lines/{number}/count": str(number) for number in range(11)}
    empty = rows_of("p.none", 1) | {"p.none/0/item": ""}
    sent = MultiDict({"param_as": "fields", "p.at/day": "2026-12-01"} | rows | empty)
    assert json.loads(ParamInput.sent([], sent).text) == {
        "at": {"day": "2026-12-01"},
        "lines": [{"count": number} for number in range(11)],
    }


def test_of_two_schemas_the_one_that_fits_is_shown() -> None:
    other = json.dumps(
        {"type": "object", "properties": {"month": {"type": "integer"}}, "required": ["month"]}
    )

    made = ParamInput.stored([SCHEMA, other], '{"month": 3}')

    assert made.form is not None
    assert [each.name for each in made.form.fields] == ["month"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {str(n): {} for n in range(101)}},
        {"$ref": "#/$defs/Missing"},
    ],
)
def test_a_schema_without_properties_or_with_too_many_has_no_form(schema: Any) -> None:
    assert ParamForm.of(schema) is None


def test_params_of_pydantic_get_the_same_fields() -> None:
    schema = {
        "properties": {
            "day": {"format": "date", "title": "Day", "type": "string"},
            "limit": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "default": None,
                "description": "How many at most.",
                "title": "Limit",
            },
            "size": {"allOf": [{"$ref": "#/$defs/Size"}], "default": "s"},
        },
        "$defs": {"Size": {"enum": ["s", "l"], "title": "Size", "type": "string"}},
        "required": ["day"],
        "title": "Load",
        "type": "object",
    }

    made = ParamForm.of(schema)

    assert made is not None
    assert [(each.name, each.look.value, each.hint) for each in made.fields] == [
        ("day", "date", ""),
        ("limit", "number", "How many at most."),
        ("size", "choice", ""),
    ]

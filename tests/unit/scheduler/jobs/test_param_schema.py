"""Which params fit the JSON Schema of a handler, as msgspec and pydantic write it."""

import json
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from warren.scheduler.jobs.param_schema import MAX_PROBLEMS, param_problems, params_in_words


class Mode(Enum):
    FULL = "full"
    DELTA = "delta"


class Part(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=5)]
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0


class LoadParams(msgspec.Struct):
    day: date
    parts: list[Part] = []
    mode: Mode = Mode.FULL
    limit: int | None = None
    style: Literal["a", "b"] = "a"
    tags: dict[str, bool] = {}
    pair: tuple[int, str] | None = None
    big: Annotated[int, msgspec.Meta(ge=0)] = 0


SCHEMA = msgspec.json.schema(LoadParams)
DAY = {"day": "2026-12-01"}


def test_what_params_take_is_said_in_one_line() -> None:
    assert params_in_words(SCHEMA) == (
        'day: date, parts: array of object = [], mode: "delta" or "full" = "full", '
        'limit: integer or null = null, style: "a" or "b" = "a", tags: object = {}, '
        "pair: array or null = null, big: integer = 0"
    )
    assert params_in_words({"properties": {"note": {}, "only": {"const": 3}}}) == (
        "note?: anything, only?: 3"
    )


def problems(param: Any) -> list[tuple[str, str]]:
    text = param if isinstance(param, str) else json.dumps(param)
    return [(one.field, str(one)) for one in param_problems(SCHEMA, text)]


@pytest.mark.parametrize(
    "param",
    [
        DAY,
        DAY | {"parts": [{"name": "a"}, {"name": "abcde", "share": 1}]},
        DAY | {"mode": "delta", "limit": None, "style": "b"},
        DAY | {"limit": 3, "tags": {"x": True}, "pair": [1, "b"], "big": 10**30},
        DAY | {"unknown fields": "are let through, as msgspec does"},
    ],
)
def test_what_the_type_accepts_fits(param: Any) -> None:
    msgspec.json.decode(json.dumps(param | {"big": 0}), type=LoadParams)

    assert problems(param) == []


@pytest.mark.parametrize(
    ("param", "found"),
    [
        ("", [("param/day", "expected param to have 'day'")]),
        ("[]", [("param", "expected param to be object, got: []")]),
        ({"day": 5}, [("param/day", "expected day to be string, got: 5")]),
        ({"day": "1.12."}, [("param/day", 'expected day to be date, got: "1.12."')]),
        (DAY | {"limit": 1.5}, [("param/limit", "expected limit to be integer or null, got: 1.5")]),
        (
            DAY | {"limit": True},
            [("param/limit", "expected limit to be integer or null, got: true")],
        ),
        (
            DAY | {"mode": "half"},
            [("param/mode", 'expected mode to be one of "delta", "full", got: "half"')],
        ),
        (DAY | {"style": 1}, [("param/style", 'expected style to be one of "a", "b", got: 1')]),
        (
            DAY | {"tags": {"a/b": 1}},
            [("param/tags/a~1b", "expected tags/a~1b to be boolean, got: 1")],
        ),
        (DAY | {"big": -1}, [("param/big", "expected big to satisfy minimum 0, got: -1")]),
        (
            DAY | {"pair": ["a", "b"]},
            [("param/pair/0", 'expected pair/0 to be integer, got: "a"')],
        ),
        (
            {"parts": [{"name": ""}, {"share": 0, "x": 1}]},
            [
                ("param/day", "expected param to have 'day'"),
                ("param/parts/0/name", 'expected parts/0/name to satisfy minLength 1, got: ""'),
                ("param/parts/1/name", "expected param to have 'parts/1/name'"),
                (
                    "param/parts/1/share",
                    "expected parts/1/share to satisfy exclusiveMinimum 0, got: 0",
                ),
                ("param/parts/1/x", "param has no 'parts/1/x'"),
            ],
        ),
    ],
)
def test_every_problem_has_its_place(param: Any, found: list[tuple[str, str]]) -> None:
    with pytest.raises(msgspec.MsgspecError):
        msgspec.json.decode(
            param or "{}" if isinstance(param, str) else json.dumps(param), type=LoadParams
        )

    assert problems(param) == found


def test_a_name_that_is_spelt_almost_right_is_offered() -> None:
    assert problems(DAY | {"parts": [{"name": "a", "shar": 1}]}) == [
        ("param/parts/0/shar", "param has no 'parts/0/shar', did you mean 'share'?")
    ]


@pytest.mark.parametrize("param", ["{", "{'day': 1}", "[" * 50_000, "2026-12-01"])
def test_what_is_no_json_is_told(param: str) -> None:
    [(field, words)] = problems(param)

    assert field == "param"
    assert words.startswith("expected param to be JSON, because its handler has params: ")


def test_not_more_than_some_problems_are_told() -> None:
    assert len(problems(DAY | {"parts": [1] * 1_000})) == MAX_PROBLEMS


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/nowhere"},
        {"$ref": 5},
        {"type": ["object"], "properties": 5, "required": "x", "additionalProperties": 5},
        {"type": "unheard of", "minimum": "x", "enum": [{}], "anyOf": 5},
        {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}] * 9}}},
    ],
)
def test_an_odd_schema_ends_and_lets_the_rest_through(schema: dict[str, Any]) -> None:
    deep = "{}"
    for _ in range(40):
        deep = f'{{"a":{deep}}}'

    assert param_problems(schema, deep) == [] or "enum" in schema

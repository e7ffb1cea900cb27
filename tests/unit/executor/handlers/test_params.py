"""The params of typed handlers: their types, schemas, and what a param decodes to."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

from tests.support.processor_time import least_seconds
from warren import JobContext
from warren.executor.handlers.context import ParamMisfit, Params
from warren.executor.handlers.handler_registry import HandlersError, load_handlers
from warren.executor.handlers.params import encode, params_of


class StructParams(msgspec.Struct):
    """Which orders to load."""

    day: date
    parts: Annotated[int, msgspec.Meta(ge=1, description="How many at once")] = 1


@dataclass
class DataParams:
    """Which orders to load."""

    day: date
    parts: int = 1
    of: list[str] = field(default_factory=list)


class DictParams(TypedDict):
    """Which orders to load."""

    day: date


class Model:
    """As pydantic's models."""

    @classmethod
    def model_validate_json(cls, text: str) -> Any:
        return ("model", json.loads(text))

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"day": {"type": "string"}}}

    def model_dump_json(self) -> str:
        return '{"day":"x"}'


def of_struct(_context: JobContext, _params: StructParams) -> None: ...
def of_data(_context: JobContext, _params: DataParams) -> None: ...
async def of_dict(_context: JobContext, _params: "DictParams") -> None: ...
def of_model(_context: JobContext, _params: Model) -> None: ...


def found(function: Callable[..., Any]) -> Params:
    params = params_of(function)
    assert params is not None
    return params


def test_params_are_what_the_json_of_a_param_holds() -> None:
    param, day = '{"day":"2026-12-01"}', date(2026, 12, 1)

    assert found(of_struct).decode(param) == StructParams(day)
    assert found(of_data).decode(param) == DataParams(day)
    assert found(of_dict).decode(param) == {"day": day}
    assert found(of_model).decode(param) == ("model", {"day": "2026-12-01"})
    assert found(of_model).decode("") == ("model", {})


@pytest.mark.parametrize("function", [of_struct, of_data, of_dict])
def test_schema_says_what_fits_with_its_docstrings(function: Callable[..., Any]) -> None:
    schema = json.loads(found(function).schema)
    [meant] = schema["$defs"].values()

    assert meant["description"] == "Which orders to load."
    assert meant["properties"]["day"] == {"type": "string", "format": "date"}
    assert meant["required"] == ["day"]


@pytest.mark.parametrize(
    "param", ["", "{}", "[]", '{"day":5}', '{"day":"2026-12-01","parts":0}', "{"]
)
def test_param_that_does_not_fit_fails_the_run(param: str) -> None:
    with pytest.raises(ParamMisfit, match=r"^its param does not fit StructParams: "):
        found(of_struct).decode(param)


class Booking(pydantic.BaseModel):
    """A booking."""

    day: date
    seats: int = pydantic.Field(default=1, ge=1)


def test_a_model_of_pydantic_is_checked_by_its_own_rules() -> None:
    def book(_context: object, _params: Booking) -> None:
        pass

    params = params_of(book)
    assert params is not None

    booked = params.decode('{"day": "2026-12-01", "seats": "2"}')

    assert booked == Booking(day=date(2026, 12, 1), seats=2)
    assert json.loads(params.schema)["properties"]["seats"]["minimum"] == 1
    with pytest.raises(ParamMisfit, match="greater than or equal to 1"):
        params.decode('{"day": "2026-12-01", "seats": 0}')


def test_params_become_the_param_of_a_run() -> None:
    assert encode(StructParams(date(2026, 12, 1), 3)) == '{"day":"2026-12-01","parts":3}'
    assert encode(Model()) == '{"day":"x"}'


def test_a_handler_of_the_context_alone_has_none() -> None:
    assert params_of(lambda _context: None) is None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def x(context, params): ...", "to have a type, such as a dataclass, got: none"),
        (
            "def x(context, params: 'Gone'): ...",
            "to have a type that can be found, got: name 'Gone'",
        ),
        (
            "def x(context, params: complex): ...",
            "to have a type with a JSON Schema, got: type <class 'complex'> is not supported",
        ),
        (
            "def x(context, params: int): ...",
            "to have a struct, dataclass, TypedDict or model as type, got: int",
        ),
        (
            "def x(context, params: Large): ...",
            "to have a JSON Schema of at most 65,536 bytes, got: 66,",
        ),
    ],
)
def test_type_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, source: str, line: str
) -> None:
    path = tmp_path / "typed_handlers.py"
    path.write_text(
        "import msgspec\nfrom warren import job\n"
        f"class Large(msgspec.Struct):\n    '''{'x' * 66_000}'''\n    a: int\n"
        f"@job('x')\n{source}\n"
    )

    with pytest.raises(HandlersError) as caught:
        load_handlers([str(path)])

    assert caught.value.line.startswith(f"expected params of handler 'x' {line}")
    assert caught.value.line.endswith(f"({path}:6)")


def test_types_of_other_arguments_need_not_exist_at_run_time(tmp_path: Path) -> None:
    path = tmp_path / "typed_handlers.py"
    path.write_text(
        "from __future__ import annotations\nimport msgspec\nfrom warren import job\n"
        "@job('x')\ndef x(context: Nowhere, params: Later) -> Elsewhere: ...\n"
        "class Later(msgspec.Struct):\n    a: int\n"
    )

    params = load_handlers([str(path)])["x"].params

    assert params is not None
    assert params.decode('{"a":1}').a == 1


def test_params_add_little_to_a_run() -> None:
    params = found(of_struct)

    def decode_often() -> None:
        for _ in range(1_000):
            params.decode('{"day":"2026-12-01","parts":3}')

    assert least_seconds(decode_often) / 1_000 < 20e-6

"""Why a value does not fit its type, in one line."""

from enum import Enum
from typing import Literal

import msgspec
import pytest
from pydantic import BaseModel, Field, ValidationError

from warren.resources.misfits import misfit


class Mode(Enum):
    FULL = "full"
    DELTA = "delta"


class Part(msgspec.Struct):
    mode: Mode | None = None


class Load(msgspec.Struct):
    mode: Mode = Mode.FULL
    parts: list[Part] = []
    by_name: dict[str, Literal[1, 2]] = {}
    count: int = 0


class Model(BaseModel):
    mode: Mode
    count: int = Field(gt=3)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"mode": "x"}, "Expected one of delta, full, got: 'x' - at `$.mode`"),
        (
            {"parts": [{}, {"mode": "x"}]},
            "Expected one of delta, full, got: 'x' - at `$.parts[1].mode`",
        ),
        ({"by_name": {"a": 3}}, "Expected one of 1, 2, got: 3 - at `$.by_name[...]`"),
        ({"count": "x"}, "Expected `int`, got `str` - at `$.count`"),
    ],
)
def test_what_may_be_chosen_is_told(value: object, words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(value, Load)

    assert misfit(refused.value, Load) == words


def test_a_choice_alone_needs_no_path() -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert("x", Literal["a", "b"])

    assert misfit(refused.value, Literal["a", "b"]) == "Expected one of a, b, got: 'x'"


def test_a_choice_that_is_spelt_almost_right_is_offered() -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert({"mode": "detla"}, Load)

    words = "Expected one of delta, full, got: 'detla', did you mean 'delta'? - at `$.mode`"
    assert misfit(refused.value, Load) == words


def test_every_problem_of_a_pydantic_model_is_told_without_an_address() -> None:
    with pytest.raises(ValidationError) as refused:
        Model.model_validate_json('{"mode": "x", "count": 1}')

    assert misfit(refused.value, Model) == (
        "mode: Input should be 'full' or 'delta'; count: Input should be greater than 3"
    )

"""Choices for select fields."""

from collections.abc import Iterable
from typing import Any

from wtforms.fields.choices import SelectChoice  # type: ignore[attr-defined] # types are older


def select_choices(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Return the choices of a field from pairs of value and label, in this order."""
    return [SelectChoice(value, words) for value, words in pairs]

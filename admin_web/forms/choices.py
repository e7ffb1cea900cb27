"""Choices for select fields."""

from collections.abc import Iterable
from typing import Any

from flask_babel import lazy_gettext
from wtforms.fields.choices import SelectChoice  # type: ignore[attr-defined] # types are older

#: The choice of a filter that filters nothing.
ALL = ("", lazy_gettext("all"))


def select_choices(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Return the choices of a field from pairs of value and label, in this order."""
    return [SelectChoice(value, words) for value, words in pairs]

"""What the fields of a form say, as values, and how fields show values."""

import re
from collections.abc import Iterable
from typing import Any

from flask_babel import lazy_gettext
from wtforms import BooleanField, Field, SelectField, TextAreaField

from warren.admin_web.language.labels import problem_text
from warren.scheduler.expectations.expectations import NOTHING, Expectations
from warren.scheduler.jobs.field_kinds import Expected, Number, Share, Texts
from warren.scheduler.jobs.spec import Field as JobField
from warren.scheduler.problems import Code, Problem

_NUMBER = re.compile(r"-?[0-9]{1,9}")
_DECIMAL = re.compile(r"-?[0-9]{1,9}([.][0-9]{1,9})?")
_NO_NUMBER = lazy_gettext("Enter a whole number.")
_NO_SHARE = lazy_gettext("Enter a number from 0 to 1.")


def read_value(field: Field, declared: JobField) -> Any:
    """Return the value of a field in its declared type.

    A number or an expectation that is none becomes an error of the field, and the default is
    returned.
    """
    kind = declared.kind
    if isinstance(field, BooleanField):
        return bool(field.data)
    if isinstance(kind, Texts):
        return tuple(_parts(field, "\n" if isinstance(field, TextAreaField) else ","))
    if isinstance(kind, Expected):
        return _expectations(field)
    if isinstance(kind, Number | Share):
        return _number(field, declared.type)
    if isinstance(field, TextAreaField):
        # Browsers send CRLF.
        return (field.data or "").replace("\r\n", "\n")
    return text_of(field)


def shown(value: Any) -> object:
    """Return a value as its field shows it."""
    if isinstance(value, tuple):
        return "\n".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def display_text(field: Field) -> str:
    """Return what a field shows: its text, or the label of its choice."""
    choices: Iterable[Any] = field.iter_choices() if isinstance(field, SelectField) else ()
    named = [str(choice.label) for choice in choices if choice.selected]
    return named[0] if named else text_of(field)


def text_of(field: Field) -> str:
    """Return what was typed, without the spaces around it."""
    return (field.data or "").strip()


def _number(field: Field, type_: type[int] | type[float]) -> int | float:
    text = text_of(field)
    if not (_NUMBER if type_ is int else _DECIMAL).fullmatch(text):
        field.errors = (_NO_NUMBER if type_ is int else _NO_SHARE,)
        text = str(field.default)
    return type_(text)


def _expectations(field: Field) -> Expectations:
    """Return the expectations in a field; a line that is not one is an error of the field."""
    try:
        return Expectations.from_text(text_of(field))
    except ValueError as error:
        wrong = Problem(Code.EXPECT_RULE, "expect", got=str(error)[:100])
        field.errors = (problem_text(wrong),)
        return NOTHING


def _parts(field: Field, separator: str) -> Iterable[str]:
    return (part.strip() for part in (field.data or "").split(separator) if part.strip())

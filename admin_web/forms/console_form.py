"""The base of the console's forms, protection against sending one twice, and common fields.

The CSRF token is not a field: it is checked for every POST before a view is called. A form that
triggers runs carries an idempotency key, because browsers may send it twice.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from flask import request
from flask_babel import lazy_gettext
from wtforms import (
    BooleanField,
    DateField,
    DateTimeLocalField,
    Field,
    Form,
    SelectField,
    TextAreaField,
)
from wtforms.fields.choices import SelectChoice  # type: ignore[attr-defined] # types are older

from warren.admin_web.language.labels import problem_text
from warren.broker.durations import whole_seconds
from warren.scheduler.expectations import NO_EXPECTATIONS, Expectations
from warren.scheduler.jobs.spec import Expected, Number, Share, Texts, is_duration
from warren.scheduler.jobs.spec import Field as JobField
from warren.scheduler.problems import Refused
from warren.sql.accounts.idempotency import IdempotentRequest

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_DECIMAL = re.compile(r"-?[0-9]{1,9}([.][0-9]{1,9})?")
_NO_NUMBER = lazy_gettext("Enter a whole number.")
_NO_SHARE = lazy_gettext("Enter a number from 0 to 1.")


def read_value(field: Field, declared: JobField) -> Any:
    """Return the value of a field in its declared type.

    An invalid number or expectation becomes an error of the field, and the default is returned.
    """
    kind = declared.kind
    if isinstance(field, BooleanField):
        return bool(field.data)
    if isinstance(kind, Texts):
        return tuple(_parts(field, "\n" if isinstance(field, TextAreaField) else ","))
    if isinstance(kind, Expected):
        return _expectations(field)
    if isinstance(kind, Number | Share):
        seconds = whole_seconds(text_of(field), needs_unit=True) if is_duration(declared) else None
        return _number(field, declared.type) if seconds is None else seconds
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
    """Return what was typed, without the spaces around it; dates as ISO 8601 has them."""
    if isinstance(field.data, datetime):
        return f"{field.data:%Y-%m-%d %H:%M}"
    return str(field.data or "").strip()


def _number(field: Field, type_: type[int] | type[float]) -> int | float:
    text = text_of(field)
    if not (_NUMBER if type_ is int else _DECIMAL).fullmatch(text):
        field.errors = (_NO_NUMBER if type_ is int else _NO_SHARE,)
        text = str(field.default)
    return type_(text)


def _expectations(field: Field) -> Expectations:
    """Return the expectations in a field; each invalid line is an error of the field."""
    try:
        return Expectations.from_text(text_of(field))
    except Refused as refused:
        field.errors = tuple(map(problem_text, refused.problems))
        return NO_EXPECTATIONS


def _parts(field: Field, separator: str) -> Iterable[str]:
    return (part.strip() for part in (field.data or "").split(separator) if part.strip())


FIELD = "once"
_KEY = re.compile(r"[\w-]{16,64}")


def fresh_key() -> str:
    """Return a new random key for a form."""
    return secrets.token_urlsafe(16)


def sent_once(user_id: int) -> IdempotentRequest | None:
    """Return the idempotency key and content of the submitted form; None without a valid key."""
    key = request.form.get(FIELD, "")
    if not _KEY.fullmatch(key):
        return None
    fields = sorted(
        (name, value)
        for name, value in request.form.items(multi=True)
        if name not in (FIELD, "csrf_token")
    )
    asked = repr((request.path, fields)).encode("utf-8", "replace")
    # The prefix separates it from the keys of the user's API calls.
    return IdempotentRequest(
        user_id=user_id, key=f"form:{key}", body_hash=hashlib.sha256(asked).hexdigest()
    )


#: The choice that turns a filter off.
ALL = ("", lazy_gettext("all"))


def select_choices(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Return the choices of a field from pairs of value and label, in this order."""
    return [SelectChoice(value, words) for value, words in pairs]


REQUIRED = lazy_gettext("Required.")
SECRET_HINT = lazy_gettext(
    "For a DingTalk or Feishu robot that checks signatures. It is never shown again; leave this "
    "empty to keep the stored one."
)
NO_TIME = lazy_gettext("Enter a time like 2026-01-31 08:00.")


class ChosenValue(NamedTuple):
    """The value of a field: the field's name and label, and the value as it is shown."""

    name: str
    label: str
    shown: str


#: What WTForms itself says of what was entered.
_BUILT_IN = {"Not a valid choice.": lazy_gettext("Not a valid choice.")}


class _BuiltInWords:
    """Translates what WTForms says, into the visitor's language."""

    def gettext(self, text: str) -> str:
        return str(_BUILT_IN.get(text, text))

    def ngettext(self, one: str, several: str, number: int) -> str:
        return one if number == 1 else several


class ConsoleForm(Form):
    """A form that can also show problems that belong to no single field."""

    class Meta:
        """How WTForms treats it."""

        def get_translations(self, _form: Form) -> _BuiltInWords:
            """Return what translates the words of WTForms."""
            return _BuiltInWords()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.problems: list[str] = []

    def add_error(self, problem: str) -> None:
        """Show a problem above the fields, beside those that are shown."""
        self.problems.append(problem)

    def is_changed(self, names: Iterable[str]) -> bool:
        """Whether one of these fields differs from its default, or has an error."""
        fields = [self[name] for name in names]
        return any(field.errors or text_of(field) != str(field.default or "") for field in fields)

    def chosen(self) -> list[ChosenValue]:
        """Return what was chosen in the fields that differ from their defaults."""
        return [
            ChosenValue(field.name, str(field.label.text), display_text(field))
            for field in self
            if field.data and field.data != field.default and not field.errors
        ]

    def labelled_values(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """Return labels and values of these fields as texts, without empty ones."""
        labelled = [(str(self[name].label.text), display_text(self[name])) for name in names]
        return [(label, words) for label, words in labelled if words]


class DayField(DateField):
    """A date; its error message says how to write one."""

    def process_formdata(self, valuelist: Any) -> None:
        """Read the date."""
        try:
            super().process_formdata(valuelist)
        except ValueError:
            raise ValueError(lazy_gettext("Enter a date like 2026-01-31.")) from None


class TimeField(DateTimeLocalField):
    """A date with a time; its error message says how to write one."""

    def process_formdata(self, valuelist: Any) -> None:
        """Read the date and the time; without a time, midnight."""
        try:
            super().process_formdata([_with_time(text) for text in valuelist])
        except ValueError:
            raise ValueError(NO_TIME) from None


def _with_time(text: str) -> str:
    return f"{text} 00:00" if _DAY.fullmatch(text) else text


class AppFilterForm(ConsoleForm):
    """Filters by app; a deleted app stays selected and matches nothing."""

    app = SelectField(lazy_gettext("App"), default="", validate_choice=False)

    def set_apps(self, names: Iterable[str]) -> None:
        asked = {self.app.data} - {"", None}
        names = sorted({*names, *asked})
        self.app.choices = select_choices([ALL, *((name, name) for name in names)])


def choices_for(
    field: Field, choices: Iterable[tuple[Any, Any]], names: Iterable[str] = ()
) -> list[Any]:
    """Return these choices, and those that are their own labels.

    The current value is added if it is missing, such as a route that is no longer installed.
    """
    pairs = [*choices, *((name, name) for name in names)]
    present = field.data
    if present and present not in {value for value, _ in pairs}:
        pairs.append((present, present))
    return select_choices(pairs)

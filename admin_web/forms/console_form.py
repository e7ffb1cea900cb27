"""The base form, with messages in the viewer's language.

The CSRF token is not a field: it is checked for every POST before a view is called.
"""

from typing import Any

from flask_babel import lazy_gettext
from wtforms import DateField, DateTimeLocalField, Form

REQUIRED = lazy_gettext("Required.")
NO_TIME = lazy_gettext("Enter a time like 2026-01-31 08:00.")


class ConsoleForm(Form):
    """A form that can also show a problem that belongs to no single field."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.problem = ""

    def add_error(self, problem: str) -> None:
        """Show a problem above the fields."""
        self.problem = problem


class DayField(DateField):
    """A date, whose problem says how to write one."""

    def process_formdata(self, valuelist: Any) -> None:
        """Read the date."""
        try:
            super().process_formdata(valuelist)
        except ValueError:
            raise ValueError(lazy_gettext("Enter a date like 2026-01-31.")) from None


class TimeField(DateTimeLocalField):
    """A date with a time, whose problem says how to write one."""

    def process_formdata(self, valuelist: Any) -> None:
        """Read the date and the time."""
        try:
            super().process_formdata(valuelist)
        except ValueError:
            raise ValueError(NO_TIME) from None

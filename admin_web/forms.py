"""Forms: what is asked, and the rules that each field must keep, in the viewer's language.

The token against forgery is no field: it is checked for every POST before a view is called.
"""

from typing import Any

from flask_babel import lazy_gettext
from wtforms import Form, PasswordField, SelectField, StringField
from wtforms.validators import EqualTo, InputRequired, Length

from scheduler.passwords import LONGEST, SHORTEST

_REQUIRED = lazy_gettext("Fill this in.")
#: Long enough for every name and password; what is longer is not even hashed.
_TYPED = Length(max=LONGEST, message=lazy_gettext("This is too long."))


class ConsoleForm(Form):
    """A form whose view may find a problem that belongs to no single field."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.problem = ""

    def complain(self, problem: str) -> None:
        """Show a problem above the fields."""
        self.problem = problem


class SignInForm(ConsoleForm):
    """Asks who somebody is."""

    username = StringField(lazy_gettext("Name"), [InputRequired(_REQUIRED), _TYPED])
    password = PasswordField(lazy_gettext("Password"), [InputRequired(_REQUIRED), _TYPED])


class PasswordForm(ConsoleForm):
    """Another password for oneself."""

    present = PasswordField(lazy_gettext("Present password"), [InputRequired(_REQUIRED), _TYPED])
    fresh = PasswordField(
        lazy_gettext("New password"),
        [
            InputRequired(_REQUIRED),
            Length(
                SHORTEST,
                LONGEST,
                lazy_gettext("A password has 8 to 200 characters."),
            ),
        ],
    )
    again = PasswordField(
        lazy_gettext("New password again"),
        [
            InputRequired(_REQUIRED),
            EqualTo("fresh", lazy_gettext("The two passwords differ.")),
        ],
    )


class PreferencesForm(ConsoleForm):
    """How the console looks to oneself; the choices come from the view."""

    language = SelectField(lazy_gettext("Language"), validate_choice=True)
    timezone = SelectField(lazy_gettext("Time zone"), validate_choice=True)
    theme = SelectField(lazy_gettext("Theme"), validate_choice=True)

"""The forms of one's own account: sign-in, password, preferences."""

from flask_babel import lazy_gettext
from wtforms import PasswordField, SelectField, StringField
from wtforms.validators import EqualTo, InputRequired, Length, Regexp

from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm
from warren.admin_web.language.labels import PASSWORD_FLAW
from warren.scheduler.commands.passwords import LONGEST, SHORTEST
from warren.scheduler.commands.users import NAME_PATTERN
from warren.scheduler.problems import Code

#: The rule for user names, in the form of a new user and at sign-in.
USER_NAME = Regexp(
    rf"^{NAME_PATTERN}\Z",
    message=lazy_gettext("A name has 4 to 50 letters, digits, dots, hyphens or underscores."),
)
#: The rule for new passwords.
PASSWORD_LENGTH = Length(SHORTEST, LONGEST, PASSWORD_FLAW[Code.WEAK_LENGTH])
#: Longer passwords are not even hashed.
_TYPED = Length(max=LONGEST, message=lazy_gettext("Too long."))


class SignInForm(ConsoleForm):
    """Asks for name and password; impossible names are neither counted nor looked up."""

    username = StringField(lazy_gettext("Name"), [InputRequired(REQUIRED), USER_NAME])
    password = PasswordField(lazy_gettext("Password"), [InputRequired(REQUIRED), _TYPED])


class PasswordForm(ConsoleForm):
    """Changes one's own password."""

    present = PasswordField(lazy_gettext("Current password"), [InputRequired(REQUIRED), _TYPED])
    fresh = PasswordField(
        lazy_gettext("New password"),
        [
            InputRequired(REQUIRED),
            PASSWORD_LENGTH,
        ],
    )
    again = PasswordField(
        lazy_gettext("Repeat new password"),
        [
            InputRequired(REQUIRED),
            EqualTo("fresh", lazy_gettext("The passwords do not match.")),
        ],
    )


class PreferencesForm(ConsoleForm):
    """Language, time zone and theme; the view sets the choices."""

    language = SelectField(lazy_gettext("Language"), validate_choice=True)
    timezone = SelectField(lazy_gettext("Time zone"), validate_choice=True)
    theme = SelectField(lazy_gettext("Theme"), validate_choice=True)

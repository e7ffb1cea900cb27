"""The forms of users, of their sign-in and of their tokens, and the rules of their fields."""

from flask_babel import lazy_gettext
from wtforms import (
    BooleanField,
    IntegerField,
    PasswordField,
    SelectField,
    SelectMultipleField,
    StringField,
)
from wtforms.validators import EqualTo, InputRequired, Length, NumberRange, Optional, Regexp

from warren.admin_web.forms.console_form import ALL, REQUIRED, ConsoleForm, select_choices
from warren.admin_web.language import labels
from warren.admin_web.language.labels import PASSWORD_FLAW
from warren.scheduler.commands.passwords import MAX_LENGTH, MIN_LENGTH
from warren.scheduler.commands.tokens import token_commands
from warren.scheduler.commands.tokens.token_commands import DEFAULT_DAYS, MAX_DAYS
from warren.scheduler.commands.users import NAME_PATTERN
from warren.scheduler.problems import Code
from warren.sql.accounts.users import Role

#: The rule for user names, in the form of a new user and at sign-in.
USER_NAME = Regexp(
    rf"^{NAME_PATTERN}\Z",
    message=lazy_gettext("A name has 4 to 50 letters, digits, dots, hyphens or underscores."),
)
#: The rule for new passwords.
PASSWORD_LENGTH = Length(MIN_LENGTH, MAX_LENGTH, PASSWORD_FLAW[Code.WEAK_LENGTH])
#: Longer passwords are not even hashed.
_TYPED = Length(max=MAX_LENGTH, message=lazy_gettext("Too long."))


class SignInForm(ConsoleForm):
    """Asks for name and password; invalid names are neither counted nor looked up."""

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


class TokenForm(ConsoleForm):
    """A new token; the scopes and apps to choose from are those of its owner."""

    token_name = StringField(
        lazy_gettext("Name"),
        [
            InputRequired(REQUIRED),
            Regexp(
                rf"^{token_commands.NAME_PATTERN}\Z",
                message=lazy_gettext(
                    "A name has up to 50 letters, digits, dots, hyphens or underscores."
                ),
            ),
        ],
    )
    scopes = SelectMultipleField(
        lazy_gettext("Scopes"), [InputRequired(lazy_gettext("Choose at least one."))], choices=[]
    )
    apps = SelectMultipleField(lazy_gettext("Apps"), choices=[])
    days = IntegerField(
        lazy_gettext("Valid for (days)"),
        [
            InputRequired(REQUIRED),
            NumberRange(1, MAX_DAYS, lazy_gettext("A token is valid for 1 to 366 days.")),
        ],
        default=DEFAULT_DAYS,
    )


#: Viewer first, so that a careless click grants little.
_ROLES = [
    (role.name.lower(), labels.ROLE[role.name.lower()])
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMINISTRATOR)
]


class UserFilterForm(ConsoleForm):
    """Asks which users to show."""

    name = StringField(lazy_gettext("Name"), [Optional(), Length(max=50)])
    role = SelectField(
        lazy_gettext("Role"),
        choices=select_choices([ALL, *_ROLES]),
        default="",
    )


class RightsForm(ConsoleForm):
    """What a user may do; the view sets the choices of apps."""

    role = SelectField(
        lazy_gettext("Role"),
        choices=select_choices(_ROLES),
        default="viewer",
        validate_choice=True,
    )
    apps = SelectMultipleField(lazy_gettext("Apps"), choices=[])
    may_edit_glue = BooleanField(lazy_gettext("Can edit scripts"))


class NewUserForm(RightsForm):
    """A new user's rights, with a name and a temporary password."""

    username = StringField(
        lazy_gettext("Name"),
        [InputRequired(REQUIRED), USER_NAME],
    )
    password = PasswordField(
        lazy_gettext("Temporary password"), [InputRequired(REQUIRED), PASSWORD_LENGTH]
    )


class ResetForm(ConsoleForm):
    """A new password for another user."""

    password = PasswordField(
        lazy_gettext("New password"), [InputRequired(REQUIRED), PASSWORD_LENGTH]
    )

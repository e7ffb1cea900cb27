"""What is asked about a user, and the rules that each field must keep."""

from flask_babel import lazy_gettext
from wtforms import BooleanField, PasswordField, SelectField, SelectMultipleField, StringField
from wtforms.validators import InputRequired, Length, Optional, Regexp

from admin_web import words
from admin_web.forms import ConsoleForm
from admin_web.offers import offered
from scheduler.passwords import LONGEST, SHORTEST
from scheduler.user_commands import NAME_PATTERN
from sql.users import Role

_REQUIRED = lazy_gettext("Fill this in.")
_NAME = lazy_gettext("A name has 4 to 50 letters, digits, dots, hyphens or underscores.")
_PASSWORD_LENGTH = Length(SHORTEST, LONGEST, lazy_gettext("A password has 8 to 200 characters."))
#: Viewer first: whoever is in a hurry gives little away.
_ROLES = [
    (role.name.lower(), words.ROLE[role.name.lower()])
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMINISTRATOR)
]


class UserFilterForm(ConsoleForm):
    """Asks which users to show."""

    name = StringField(lazy_gettext("Name"), [Optional(), Length(max=50)])
    role = SelectField(
        lazy_gettext("Role"), choices=offered([("", lazy_gettext("all")), *_ROLES]), default=""
    )


class RightsForm(ConsoleForm):
    """What a user may do; the choices of apps come from the view."""

    role = SelectField(
        lazy_gettext("Role"),
        choices=offered(_ROLES),
        default="viewer",
        validate_choice=True,
    )
    apps = SelectMultipleField(lazy_gettext("Apps"), choices=[])
    may_edit_glue = BooleanField(lazy_gettext("May edit scripts"))


class NewUserForm(RightsForm):
    """A user who is not there yet."""

    username = StringField(
        lazy_gettext("Name"),
        [InputRequired(_REQUIRED), Regexp(rf"^{NAME_PATTERN}\Z", message=_NAME)],
    )
    password = PasswordField(
        lazy_gettext("First password"), [InputRequired(_REQUIRED), _PASSWORD_LENGTH]
    )


class ResetForm(ConsoleForm):
    """Another password for somebody else."""

    password = PasswordField(
        lazy_gettext("New password"), [InputRequired(_REQUIRED), _PASSWORD_LENGTH]
    )

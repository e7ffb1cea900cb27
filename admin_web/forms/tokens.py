"""The form of a new token."""

from flask_babel import lazy_gettext
from wtforms import IntegerField, SelectMultipleField, StringField
from wtforms.validators import InputRequired, NumberRange, Regexp

from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm
from warren.scheduler.commands.tokens.token_commands import MOST_DAYS, NAME_PATTERN, USUAL_DAYS


class TokenForm(ConsoleForm):
    """A new token; the scopes and apps to choose from are those of its owner."""

    token_name = StringField(
        lazy_gettext("Name"),
        [
            InputRequired(REQUIRED),
            Regexp(
                rf"^{NAME_PATTERN}\Z",
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
        lazy_gettext("Days"),
        [
            InputRequired(REQUIRED),
            NumberRange(1, MOST_DAYS, lazy_gettext("A token is valid for 1 to 366 days.")),
        ],
        default=USUAL_DAYS,
    )

"""The form of a limit that jobs share."""

from flask_babel import gettext, lazy_gettext
from wtforms import Field, StringField, ValidationError
from wtforms.validators import InputRequired, Optional, Regexp

from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm
from warren.broker.durations import seconds_of
from warren.scheduler.limits.specs import LimitSpec

_NUMBER = Regexp(r"^[0-9]{1,9}\Z", message=lazy_gettext("Enter a whole number."))


class LimitForm(ConsoleForm):
    """The fields of a limit; the rules for them are those of the command."""

    limit_name = StringField(lazy_gettext("Name"), [InputRequired(REQUIRED)])
    at_once = StringField(lazy_gettext("At once"), [Optional(), _NUMBER])
    rate = StringField(lazy_gettext("Rate"), [Optional(), _NUMBER])
    per = StringField(lazy_gettext("Per"), [Optional()])

    def validate_per(self, field: Field) -> None:
        """Refuse what is no duration in whole seconds."""
        seconds = seconds_of(field.data or "")
        if seconds is None or seconds % 1:
            raise ValidationError(gettext("Enter a duration such as 30s, 1m or 1h."))

    @property
    def spec(self) -> LimitSpec:
        """The limit in this form, once it is valid."""
        seconds = seconds_of(self.per.data or "")
        return LimitSpec(
            name=(self.limit_name.data or "").strip(),
            at_once=int(self.at_once.data) if self.at_once.data else None,
            rate=int(self.rate.data) if self.rate.data else None,
            per=None if seconds is None else int(seconds),
        )

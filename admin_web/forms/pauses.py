"""The form of a pause: its reason and end."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from flask_babel import gettext, lazy_gettext
from wtforms import Field, SelectField, StringField, ValidationError
from wtforms.validators import InputRequired, Length, Optional

from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm, TimeField, select_choices
from warren.scheduler.commands.cluster import LONGEST_REASON, NEVER, check_reason
from warren.sql.instants import MINUTE_MS
from warren.sql.registry.pauses import PauseRow

_LAST_YEAR = 2200
_SPANS = [
    ("", lazy_gettext("when resumed")),
    ("30", lazy_gettext("in 30 minutes")),
    ("60", lazy_gettext("in 1 hour")),
    ("120", lazy_gettext("in 2 hours")),
    ("240", lazy_gettext("in 4 hours")),
    ("480", lazy_gettext("in 8 hours")),
    ("1440", lazy_gettext("in 24 hours")),
]


class PauseForm(ConsoleForm):
    """Asks for a pause's reason and end, in the visitor's time zone.

    Args:
        now_ms: the current time.
        zone: of the times that are entered.

    """

    reason = StringField(
        lazy_gettext("Reason"),
        [
            InputRequired(REQUIRED),
            Length(
                max=LONGEST_REASON, message=lazy_gettext("A reason can have up to 200 characters.")
            ),
        ],
    )
    span = SelectField(lazy_gettext("Ends"), choices=select_choices(_SPANS), default="")
    until = TimeField(lazy_gettext("or at this time"), [Optional()])

    def __init__(self, *args: Any, now_ms: int, zone: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._now_ms = now_ms
        self._zone = ZoneInfo(zone)

    @property
    def until_ms(self) -> int:
        """When the pause ends by itself, or NEVER."""
        if self.until.data:
            return _epoch_ms(self.until.data, self._zone)
        return self._now_ms + int(self.span.data) * MINUTE_MS if self.span.data else NEVER

    def validate_reason(self, field: Field) -> None:
        """Refuse control characters, line breaks included."""
        try:
            check_reason((field.data or "")[:LONGEST_REASON])
        except ValueError:
            raise ValidationError(gettext("A reason cannot have control characters.")) from None

    def validate_until(self, field: Field) -> None:
        """Refuse a time in the past, or together with a duration."""
        if not field.data:
            return
        if self.span.data:
            raise ValidationError(gettext("Choose either a duration or a time."))
        is_near = field.data.year <= _LAST_YEAR
        if not is_near or _epoch_ms(field.data, self._zone) <= self._now_ms:
            raise ValidationError(gettext("Choose a time in the future."))

    def show(self, pause: PauseRow) -> None:
        """Fill in an existing pause."""
        self.reason.data = pause.reason
        if pause.until_at:
            self.until.data = datetime.fromtimestamp(pause.until_at / 1000, self._zone)


def _epoch_ms(entered: datetime, zone: ZoneInfo) -> int:
    return int(entered.replace(tzinfo=zone).timestamp() * 1000)

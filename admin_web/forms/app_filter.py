"""A filter whose first field is an app, chosen from those that the visitor may see."""

from collections.abc import Iterable

from flask_babel import lazy_gettext
from wtforms import SelectField

from warren.admin_web.forms.choices import ALL, select_choices
from warren.admin_web.forms.console_form import ConsoleForm


class AppFilterForm(ConsoleForm):
    """Filters by app; a deleted app stays selected and matches nothing."""

    app = SelectField(lazy_gettext("App"), default="", validate_choice=False)

    def set_apps(self, names: Iterable[str]) -> None:
        """Set the apps to choose from."""
        asked = {self.app.data} - {"", None}
        names = sorted({*names, *asked})
        self.app.choices = select_choices([ALL, *((name, name) for name in names)])

"""Limits that jobs share: how full they are, who holds them, and who waits."""

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.wrappers import Response
from wtforms import Field, StringField, ValidationError
from wtforms.validators import InputRequired, Optional, Regexp

from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm
from warren.admin_web.language.labels import problem_text
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.broker.durations import seconds_of, whole_seconds
from warren.scheduler.actor import Right
from warren.scheduler.limits.specs import LimitSpec
from warren.scheduler.problems import Refused
from warren.scheduler.views import limit_view
from warren.sql.errors import LookupFailed

_NUMBER = Regexp(r"^[0-9]{1,9}\Z", message=lazy_gettext("Enter a whole number."))


class LimitForm(ConsoleForm):
    """The fields of a limit; the rules for them are those of the command."""

    limit_name = StringField(lazy_gettext("Name"), [InputRequired(REQUIRED)])
    at_once = StringField(lazy_gettext("At once"), [Optional(), _NUMBER])
    rate = StringField(lazy_gettext("Rate"), [Optional(), _NUMBER])
    per = StringField(lazy_gettext("Per"), [Optional()])

    def validate_per(self, field: Field) -> None:
        """Reject durations that are not whole seconds."""
        if whole_seconds(field.data or "") is None:
            raise ValidationError(gettext("Enter a duration such as 30s, 1m or 1h."))

    @property
    def spec(self) -> LimitSpec:
        """The limit in this form, once it is valid."""
        return LimitSpec(
            name=(self.limit_name.data or "").strip(),
            at_once=int(self.at_once.data) if self.at_once.data else None,
            rate=int(self.rate.data) if self.rate.data else None,
            per=whole_seconds(self.per.data or ""),
        )


class LimitPages:
    """Everybody sees the limits; administrators change them."""

    name = "limits"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/limits", Right.VIEW)
    def index(self) -> str:
        """Show the limits by name, and the form that adds or changes one."""
        return self._page(LimitForm())

    @route("/limits/save", Right.ADMINISTER, methods=("POST",))
    def save(self) -> Response | tuple[str, int]:
        """Add a limit, or change the one of that name."""
        form = LimitForm(request.form)
        if form.validate():
            try:
                self._services.commands(visitor().actor).limits.apply(form.spec)
            except Refused as refused:
                for problem in refused.problems:
                    form.add_error(problem_text(problem))
            else:
                flash(gettext("Saved."))
                return redirect(url_for("limits.index"), 303)
        return self._page(form), 422

    @route("/limits/<limit>/delete", Right.ADMINISTER, methods=("POST",))
    def delete(self, limit: str) -> Response:
        """Delete a limit that no job names and no run holds."""
        try:
            self._services.commands(visitor().actor).limits.delete(limit)
        except LookupFailed:
            raise
        except Refused as refused:
            flash(problem_text(refused.problems[0]), "error")
        else:
            flash(gettext("Limit %(name)s deleted.", name=limit))
        return redirect(url_for("limits.index"), 303)

    def _page(self, form: LimitForm) -> str:
        now_ms, actor = self._services.now_ms(), visitor().actor
        views = self._services.database.read(
            lambda session: limit_view.read(session, actor, now_ms=now_ms)
        )
        return render_template("pages/limits.html", form=form, limits=views, seconds_of=seconds_of)

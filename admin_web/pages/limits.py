"""Limits that jobs share: how full they are, who holds them, and who waits."""

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.forms.limits import LimitForm
from warren.admin_web.language.labels import problem_text
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.problems import Refused
from warren.scheduler.views import limit_view
from warren.sql.errors import LookupFailed


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
        return render_template("pages/limits.html", form=form, limits=views)

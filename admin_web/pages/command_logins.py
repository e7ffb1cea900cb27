"""The pages on which a user allows `warren login` on a machine to act for them."""

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.wrappers import Response
from wtforms import HiddenField, SelectMultipleField, StringField
from wtforms.validators import InputRequired, Length

from warren.admin_web.access.gate import POLICY, origin
from warren.admin_web.access.sign_ins import network_of
from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm
from warren.admin_web.language import labels
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.resources.operation import Scope
from warren.scheduler.actor import Right
from warren.scheduler.commands.command_logins import CommandLogins, Shown, TooManyLogins
from warren.scheduler.commands.token_commands import RIGHTS
from warren.scheduler.problems import Code, Problem

Answer = str | Response | tuple[str, int] | tuple[str, int, dict[str, str]]


class CodeForm(ConsoleForm):
    """Asks for the code that the command shows."""

    code = StringField(
        lazy_gettext("Code"),
        [InputRequired(REQUIRED), Length(max=100, message=lazy_gettext("Too long."))],
    )


class DecisionForm(ConsoleForm):
    """What the command may do; the choices are what its user may."""

    key = HiddenField()
    scopes = SelectMultipleField(lazy_gettext("It may"), choices=[])


class CommandLoginPages:
    """Where `warren login` sends its user, signed in as they are."""

    name = "command_logins"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._logins = CommandLogins(services.database, services.now_ms)

    @route("/cli", Right.VIEW)
    def show(self) -> Answer:
        """Ask for a code; or, on the link of a command, for the decision."""
        key = request.args.get("request", "")
        if not key:
            return render_template("pages/cli.html", form=CodeForm())
        login = self._logins.find(key)
        return _over() if login is None else self._ask(login)

    @route("/cli/code", Right.VIEW, methods=("POST",))
    def claim(self) -> Answer:
        """Take a code, and ask for the decision."""
        form = CodeForm(request.form)
        if not form.validate():
            return render_template("pages/cli.html", form=form), 422
        typed = form.code.data or ""
        login = self._logins.claim(typed, visitor().user_id, network=network_of(origin()))
        if isinstance(login, TooManyLogins):
            form.add_error(gettext("Too many attempts. Try again in %(s)s s.", s=login.seconds))
            headers = {"Retry-After": str(login.seconds)}
            return render_template("pages/cli.html", form=form), 429, headers
        if login is None:
            form.code.errors = (
                gettext("No command waits with this code. A code is valid for ten minutes."),
            )
            return render_template("pages/cli.html", form=form), 422
        return self._ask(login)

    @route("/cli/allow", Right.VIEW, methods=("POST",))
    def allow(self) -> Answer:
        """Give the command a token."""
        form = self._form(request.form)
        chosen = [Scope(word) for word in form.scopes.data or ()] if form.validate() else []
        known = visitor()
        if not chosen:
            flash(gettext("Nothing was allowed: choose at least one."), "error")
            return redirect(self._again(form.key.data or ""), 303)
        context = self._services.context(known.actor)
        try:
            back = self._logins.allow(context, form.key.data or "", known.user_id, chosen)
        except Problem as problem:
            return _refused(problem)
        return redirect(back or url_for("command_logins.done", outcome="allowed"), 303)

    @route("/cli/refuse", Right.VIEW, methods=("POST",))
    def refuse(self) -> Answer:
        """Give the command nothing."""
        known = visitor()
        context = self._services.context(known.actor)
        try:
            back = self._logins.refuse(context, request.form.get("key", ""), known.user_id)
        except Problem as problem:
            return _refused(problem)
        return redirect(back or url_for("command_logins.done", outcome="refused"), 303)

    @route("/cli/done", Right.VIEW)
    def done(self) -> str:
        """Tell the user to go back to the terminal."""
        is_allowed = request.args.get("outcome") == "allowed"
        return render_template(
            "pages/cli_done.html", outcome="allowed" if is_allowed else "refused"
        )

    def _ask(self, login: Shown) -> Response:
        form = self._form()
        form.key.data = login.key
        form.scopes.data = [scope.value for scope in _scopes_of(visitor())]
        page = render_template("pages/cli_ask.html", form=form, login=login)
        # The form's answer sends the browser to the command, which this page may allow for once.
        policy = POLICY.replace("form-action 'self'", f"form-action 'self' {login.origin}".strip())
        return Response(
            page,
            content_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": policy},
        )

    def _form(self, given: object = None) -> DecisionForm:
        form, mine = DecisionForm(given), _scopes_of(visitor())
        form.scopes.choices = [(scope.value, labels.SCOPE[scope.value]) for scope in mine]
        return form

    def _again(self, key: str) -> str:
        is_link = self._logins.find(key) is not None
        return url_for("command_logins.show", request=key if is_link else None)


def _scopes_of(known: Visitor) -> list[Scope]:
    return [scope for scope in Scope if known.actor.may(RIGHTS[scope])]


def _over() -> tuple[str, int]:
    return render_template("pages/cli_done.html", outcome="over"), 404


def _refused(problem: Problem) -> tuple[str, int]:
    if problem.code is not Code.NO_LOGIN:
        raise problem
    return _over()

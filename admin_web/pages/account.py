"""The account page: password, language, time zone, theme and sessions."""

from flask import abort, flash, redirect, render_template, request, session, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from warren.admin_web.access.gate import TOKEN, local_path
from warren.admin_web.access.sign_ins import SignIns, TooManyAttempts
from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.forms.account import PasswordForm, PreferencesForm
from warren.admin_web.forms.console_form import select_choices
from warren.admin_web.language import labels
from warren.admin_web.language.catalogues import LANGUAGES
from warren.admin_web.local_times import zones
from warren.admin_web.template_globals import THEMES
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.passwords import password_problem
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import sessions, users
from warren.sql.models import User

_AS_BROWSER = lazy_gettext("browser default")
_THEMES = {"light": lazy_gettext("light"), "dark": lazy_gettext("dark")}


class AccountPages:
    """What users may change about themselves."""

    name = "account"

    def __init__(self, services: ConsoleServices, sign_ins: SignIns) -> None:
        self._services = services
        self._sign_ins = sign_ins

    @route("/account", Right.ACCOUNT)
    def show(self) -> str:
        """Show the account."""
        return self._page(PasswordForm(), _preferences(visitor()))

    @route("/account/password", Right.ACCOUNT, methods=("POST",))
    def change_password(self) -> Response | tuple[str, int]:
        """Change the password; all other sign-ins of this user end."""
        known, form = visitor(), PasswordForm(request.form)
        user = self._checked(known, form) if form.validate() else None
        if user is None or not _is_fit(known, form):
            return self._page(form, _preferences(known)), 422
        generation = self._change(known, user, form.fresh.data or "")
        token = self._sign_ins.reopen(known, generation, agent=request.user_agent.string)
        session.clear()
        if token is None:
            return redirect(url_for("sign_in.login"), 303)
        session[TOKEN] = token
        flash(gettext("Password changed. Your other sessions have ended."))
        if not known.must_change_password:
            return redirect(url_for("account.show"), 303)
        return redirect(local_path(request.args.get("next")), 303)

    @route("/account/preferences", Right.ACCOUNT, methods=("POST",))
    def change_preferences(self) -> Response | tuple[str, int]:
        """Change language, zone and theme."""
        known = visitor()
        form = _preferences(known, submitted=True)
        if not form.validate():
            return self._page(PasswordForm(), form), 422

        def unit(found: Session) -> None:
            users.set_preferences(
                users.find(found, known.name),
                locale=form.language.data,
                timezone=form.timezone.data,
                theme=form.theme.data,
            )

        self._services.database.write(unit)
        flash(gettext("Saved."))
        return redirect(url_for("account.show"), 303)

    @route("/account/theme", Right.ACCOUNT, methods=("POST",))
    def change_theme(self) -> Response:
        """Change only the theme; used by the switch beside the menu."""
        known, wanted = visitor(), request.form.get("theme", "")
        if wanted not in THEMES:
            abort(400)

        def unit(found: Session) -> None:
            users.find(found, known.name).theme = None if wanted == "auto" else wanted

        self._services.database.write(unit)
        return redirect(url_for("account.show"), 303)

    @route("/account/sign-ins/<id:sign_in_id>/end", Right.ACCOUNT, methods=("POST",))
    def end_sign_in(self, sign_in_id: int) -> Response:
        """End one of the visitor's own sign-ins."""
        self._sign_ins.end(visitor(), sign_in_id)
        return redirect(url_for("account.show"), 303)

    def _checked(self, known: Visitor, form: PasswordForm) -> User | None:
        """Return the user if the current password is right, with the same limits as at sign-in."""
        answer = self._sign_ins.check(
            known.name, form.present.data or "", origin=known.actor.origin
        )
        if isinstance(answer, User):
            return answer
        problem = gettext("This is not your current password.")
        if isinstance(answer, TooManyAttempts):
            problem = gettext("Too many attempts. Try again in %(s)s s.", s=answer.seconds)
        form.present.errors = (problem,)
        return None

    def _change(self, known: Visitor, checked: User, fresh: str) -> int:
        """Set the password and return the user's new generation.

        Aborts with 401 if the user has changed since the check: that has ended this sign-in too.
        """
        commands = self._services.commands(known.actor).users
        try:
            return commands.set_password(known.user_id, fresh, generation=checked.generation)
        except Problem as problem:
            if problem.code is not Code.USER_CHANGED:
                raise
            abort(401)

    def _page(self, password: PasswordForm, preferences: PreferencesForm) -> str:
        known = visitor()
        found = self._services.database.read(
            lambda reader: sessions.of_user(reader, users.find(reader, known.name))
        )
        return render_template(
            "pages/account.html", password=password, preferences=preferences, sign_ins=found
        )


def _is_fit(known: Visitor, form: PasswordForm) -> bool:
    """Return whether the new password may be taken; if not, its field says why."""
    fresh = form.fresh.data or ""
    if fresh == form.present.data:
        form.fresh.errors = (gettext("This is already your password."),)
        return False
    flaw = password_problem(fresh, known.name)
    if flaw is not None:
        form.fresh.errors = (labels.PASSWORD_FLAW[flaw],)
    return flaw is None


def _preferences(known: Visitor, *, submitted: bool = False) -> PreferencesForm:
    form = PreferencesForm(
        request.form if submitted else None,
        data={"language": known.locale, "timezone": known.timezone, "theme": known.theme},
    )
    browser = ("", _AS_BROWSER)
    form.language.choices = select_choices(
        [browser, *((tag, name) for tag, (_, name) in LANGUAGES.items())]
    )
    form.timezone.choices = select_choices([browser, *((zone, zone) for zone in sorted(zones()))])
    form.theme.choices = select_choices([browser, *_THEMES.items()])
    return form

"""Signing in and out; the account page: password, preferences, sessions, saved filters.

Another page lets a user allow `warren login` on a machine to act for them.
"""

from collections.abc import Sequence
from contextlib import suppress

from flask import (
    abort,
    flash,
    g,
    make_response,
    redirect,
    render_template,
    request,
    session,
    url_for,
)
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import HiddenField, SelectMultipleField, StringField
from wtforms.validators import InputRequired, Length

from warren.admin_web import template_globals
from warren.admin_web.access.gate import LAPSED, POLICY, TOKEN, local_path, origin
from warren.admin_web.access.sign_ins import SignedIn, SignIns, TooManyAttempts, network_of
from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm, select_choices
from warren.admin_web.identity_provider import ProviderError
from warren.admin_web.language import catalogues, labels
from warren.admin_web.language.catalogues import LANGUAGES
from warren.admin_web.links import page_of
from warren.admin_web.local_times import zones
from warren.admin_web.pages.users import PasswordForm, PreferencesForm, SignInForm
from warren.admin_web.services import ConsoleServices
from warren.admin_web.template_globals import THEMES
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.resources.operation import Scope
from warren.scheduler.actor import Right
from warren.scheduler.commands.account_commands import RIGHTS
from warren.scheduler.commands.command_logins import CommandLogins, Shown, TooManyLogins
from warren.scheduler.commands.passwords import password_problem
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import identities, preferences, sign_ins, users
from warren.sql.listings import job_search
from warren.sql.models import Identity, SignIn, User

#: How long a browser keeps its language and theme.
COOKIE_SECONDS = 365 * 86_400


class SignInPages:
    name = "sign_in"

    def __init__(self, services: ConsoleServices, sign_ins: SignIns) -> None:
        self._is_https = services.is_https
        self._services = services
        self._sso = services.sso
        self._is_limited = services.local_names is not None
        self._sign_ins = sign_ins

    @route("/login", Right.ANYONE, methods=("GET", "POST"))
    def login(self) -> str | Response | tuple[str, int] | tuple[str, int, dict[str, str]]:
        """Sign in, then redirect to the page the visitor wanted."""
        form = SignInForm(request.form)
        if request.method != "POST":
            return self._page(form, has_lapsed=bool(session.pop(LAPSED, None)))
        if not form.validate():
            return self._page(form), 422
        answer = self._sign_ins.open(
            form.username.data or "",
            form.password.data or "",
            origin=origin(),
            agent=request.user_agent.string,
            instead_of=str(session.get(TOKEN, "")),
        )
        if isinstance(answer, SignedIn):
            target = local_path(request.args.get("next"))
            return start_session(answer.token, page_of(target) or target)
        if isinstance(answer, TooManyAttempts):
            form.add_error(gettext("Too many attempts. Try again in %(s)s s.", s=answer.seconds))
            headers = {"Retry-After": str(answer.seconds)}
            return self._page(form), 429, headers
        form.add_error(gettext("Wrong user name or password."))
        return self._page(form), 401

    @route("/logout", Right.ACCOUNT, methods=("POST",))
    def logout(self) -> Response | str:
        """End this sign-in, and that at the provider; copies of its cookie become invalid too."""
        known = visitor()
        place = self._end_at_provider(known) if known.is_sso else None
        self._sign_ins.end(known, known.sign_in_id)
        session.clear()
        if place is not None:
            # A redirect would not do: browsers apply the policy for forms to it.
            return render_template("pages/sso_leave.html", url=place, signs_out=True)
        return redirect(url_for("sign_in.login"), 303)

    @route("/browser", Right.ANYONE, methods=("POST",))
    def browser(self) -> Response:
        """Store a language or theme in the browser of a visitor who is not signed in."""
        answer = make_response(redirect(local_path(request.args.get("next")), 303))
        wanted = (
            (catalogues.COOKIE, request.form.get("language"), catalogues.LANGUAGES),
            (template_globals.THEME_COOKIE, request.form.get("theme"), template_globals.THEMES),
        )
        for cookie, value, known in wanted:
            if value is not None and value in known:
                answer.set_cookie(
                    cookie,
                    value,
                    max_age=COOKIE_SECONDS,
                    secure=self._is_https,
                    httponly=True,
                    samesite="Lax",
                )
        return answer

    def _page(self, form: SignInForm, *, has_lapsed: bool = False) -> str:
        return render_template(
            "pages/login.html",
            form=form,
            has_sso=self._sso is not None,
            is_limited=self._is_limited,
            has_lapsed=has_lapsed,
        )

    def _end_at_provider(self, known: Visitor) -> str | None:
        """Return where the visitor's sign-in at the provider is ended; None if nowhere."""
        sealed = self._sign_ins.id_token(known)
        if self._sso is None or sealed is None:
            return None
        owner = self._services.database.read(
            lambda reader: identities.of_user(reader, known.user_id)
        )
        token = self._sso.provider.unseal(sealed, owner.key_hash) if owner is not None else None
        with suppress(ProviderError), self._sso.asked() as provider:
            return provider.sign_out_url(token or "", self._sso.signed_out_url)
        return None


def start_session(token: str, target: str) -> Response:
    """Return a redirect with a new session's cookie."""
    # Drop the previous session: another person may have planted its cookie.
    session.clear()
    session[TOKEN] = token
    g.pop("visitor", None)
    return redirect(target, 303)


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
        return self._page(PasswordForm(), _preferences(visitor()))

    @route("/account/password", Right.ACCOUNT, methods=("POST",))
    def change_password(self) -> Response | tuple[str, int]:
        """Change the password; all other sign-ins of this user end."""
        known, form = visitor(), PasswordForm(request.form)
        user = self._checked(known, form) if form.validate() else None
        if user is None or not _is_acceptable(known, form):
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

        def unit(session_: Session) -> None:
            users.set_preferences(
                users.find(session_, known.name),
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

        def unit(session_: Session) -> None:
            users.find(session_, known.name).theme = None if wanted == "auto" else wanted

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

        def read(reader: Session) -> tuple[Sequence[SignIn], Identity | None]:
            user = users.find(reader, known.name)
            is_linked = user.sso_until is not None
            identity = identities.of_user(reader, user.id) if is_linked else None
            return sign_ins.sessions_of_user(reader, user), identity

        own, identity = self._services.database.read(read)
        return render_template(
            "pages/account.html",
            password=password,
            preferences=preferences,
            sign_ins=own,
            has_sso=self._services.sso is not None,
            identity=identity,
        )


def _is_acceptable(known: Visitor, form: PasswordForm) -> bool:
    """Return whether the new password is acceptable; if not, its field says why."""
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


#: The lists whose filters can be saved, by the name of their page.
PAGES = {"jobs": "jobs.index", "runs": "runs.index"}
MAX_NAME_LENGTH, MAX_QUERY_LENGTH = 64, 1_024


class PreferencePages:
    """Saves and deletes a user's own filters and favourites."""

    name = "preferences"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/filters/save", Right.VIEW, methods=("POST",))
    def save_filter(self) -> Response:
        """Save the filter of a list under a name."""
        page, query = request.form.get("page", ""), request.form.get("query", "").lstrip("?")
        name = " ".join(request.form.get("name", "").split())
        if page not in PAGES:
            abort(400)
        is_query = len(query) <= MAX_QUERY_LENGTH and query.isprintable()
        back = url_for(PAGES[page]) + (f"?{query}" if query and is_query else "")
        if not name or len(name) > MAX_NAME_LENGTH:
            flash(gettext("Enter a name of up to %(n)s characters.", n=MAX_NAME_LENGTH), "error")
        elif not is_query:
            flash(gettext("This filter is too long to be saved."), "error")
        elif self._services.database.write(
            lambda s: preferences.save_filter(s, visitor().user_id, page, name, query)
        ):
            flash(gettext("Filter saved."))
        else:
            most = preferences.MAX_FILTERS
            flash(gettext("You have %(n)s saved filters. Delete one first.", n=most), "error")
        return redirect(back, 303)

    @route("/filters/forget", Right.VIEW, methods=("POST",))
    def forget_filter(self) -> Response:
        """Delete a saved filter."""
        page, filter_id = request.form.get("page", ""), request.form.get("id", type=int)
        if page not in PAGES or filter_id is None or not 0 < filter_id < 2**63:
            abort(400)
        user_id = visitor().user_id
        self._services.database.write(lambda s: preferences.forget_filter(s, user_id, filter_id))
        flash(gettext("Filter deleted."))
        return redirect(url_for(PAGES[page]), 303)

    @route("/jobs/<id:job_id>/favourite", Right.VIEW, methods=("POST",))
    def set_favourite(self, job_id: int) -> Response:
        """Add or remove a favourite job."""
        known, is_on = visitor(), request.form.get("on") == "1"
        now_ms = self._services.now_ms()
        self._services.database.read(
            lambda s: job_search.show(s, job_id, known.app_ids, now_ms=now_ms)
        )
        if not self._services.database.write(
            lambda s: preferences.set_favourite(s, known.user_id, job_id, is_on=is_on)
        ):
            most = preferences.MAX_FAVOURITES
            flash(gettext("You have %(n)s favourites. Remove one first.", n=most), "error")
        back = local_path(request.form.get("back") or url_for("jobs.show", job_id=job_id))
        return redirect(back, 303)


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
                gettext("No command is waiting with this code. A code is valid for ten minutes."),
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

"""Signing in and out, and the language and theme of browsers that have not signed in."""

from flask import g, make_response, redirect, render_template, request, session, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web import template_globals
from warren.admin_web.access.gate import TOKEN, local_path, origin
from warren.admin_web.access.sign_ins import SignedIn, SignIns, TooManyAttempts
from warren.admin_web.forms.users import SignInForm
from warren.admin_web.language import catalogues
from warren.admin_web.links import page_of
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right

#: How long a browser keeps its language and theme.
COOKIE_SECONDS = 365 * 86_400


class SignInPages:
    """Signing in and out."""

    name = "sign_in"

    def __init__(self, services: ConsoleServices, sign_ins: SignIns) -> None:
        self._is_https = services.is_https
        self._sign_ins = sign_ins

    @route("/login", Right.ANYONE, methods=("GET", "POST"))
    def login(self) -> str | Response | tuple[str, int] | tuple[str, int, dict[str, str]]:
        """Sign in, then redirect to the page the visitor wanted."""
        form = SignInForm(request.form)
        if request.method != "POST":
            return render_template("pages/login.html", form=form)
        if not form.validate():
            return render_template("pages/login.html", form=form), 422
        answer = self._sign_ins.open(
            form.username.data or "",
            form.password.data or "",
            origin=origin(),
            agent=request.user_agent.string,
            instead_of=str(session.get(TOKEN, "")),
        )
        if isinstance(answer, SignedIn):
            target = local_path(request.args.get("next"))
            return _start_session(answer.token, page_of(target) or target)
        if isinstance(answer, TooManyAttempts):
            form.add_error(gettext("Too many attempts. Try again in %(s)s s.", s=answer.seconds))
            headers = {"Retry-After": str(answer.seconds)}
            return render_template("pages/login.html", form=form), 429, headers
        form.add_error(gettext("Wrong user name or password."))
        return render_template("pages/login.html", form=form), 401

    @route("/logout", Right.ACCOUNT, methods=("POST",))
    def logout(self) -> Response:
        """End this sign-in; copies of its cookie become invalid too."""
        known = visitor()
        self._sign_ins.end(known, known.sign_in_id)
        session.clear()
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


def _start_session(token: str, target: str) -> Response:
    # Drop the previous session: somebody else may have planted its cookie.
    session.clear()
    session[TOKEN] = token
    g.pop("visitor", None)
    return redirect(target, 303)

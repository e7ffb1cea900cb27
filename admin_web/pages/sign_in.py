"""Signing in and out, and the choices that a browser has before that: language and theme."""

from flask import g, make_response, redirect, render_template, request, session, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from admin_web import language, looks
from admin_web.forms import SignInForm
from admin_web.gate import TOKEN, local_path, origin
from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.sign_ins import SignIns, Wait, Welcome
from admin_web.visitors import Right, visitor

#: How long a browser remembers its language and theme.
COOKIE_SECONDS = 365 * 86_400


class SignInPages:
    """The way in and the way out."""

    name = "sign_in"

    def __init__(self, parts: Parts, sign_ins: SignIns) -> None:
        self._is_https = parts.is_https
        self._sign_ins = sign_ins

    @route("/login", Right.ANYONE, methods=("GET", "POST"))
    def login(self) -> str | Response | tuple[str, int] | tuple[str, int, dict[str, str]]:
        """Ask for name and password; go on to where the visitor wanted to be."""
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
        if isinstance(answer, Welcome):
            return _let_in(answer.token, local_path(request.args.get("next")))
        if isinstance(answer, Wait):
            form.complain(
                gettext("Too many tries. Wait %(s)s s, then try again.", s=answer.seconds)
            )
            headers = {"Retry-After": str(answer.seconds)}
            return render_template("pages/login.html", form=form), 429, headers
        form.complain(gettext("The name or the password is wrong."))
        return render_template("pages/login.html", form=form), 401

    @route("/logout", Right.ACCOUNT, methods=("POST",))
    def logout(self) -> Response:
        """End this sign-in, in every copy of its cookie."""
        known = visitor()
        self._sign_ins.end(known, known.sign_in_id)
        session.clear()
        return redirect(url_for("sign_in.login"), 303)

    @route("/browser", Right.ANYONE, methods=("POST",))
    def browser(self) -> Response:
        """Keep a language or a theme in the browser, for whoever has not signed in."""
        answer = make_response(redirect(local_path(request.args.get("next")), 303))
        wanted = (
            (language.COOKIE, request.form.get("language"), language.LANGUAGES),
            (looks.THEME_COOKIE, request.form.get("theme"), looks.THEMES),
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


def _let_in(token: str, target: str) -> Response:
    # A cookie that was there before, given by whomever, is worth nothing from here on.
    session.clear()
    session[TOKEN] = token
    g.pop("visitor", None)
    return redirect(target, 303)

"""Checks before every view who the visitor is and whether they have the right."""

from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from flask import Flask, abort, current_app, g, redirect, request, session, url_for
from flask.sessions import SecureCookieSessionInterface
from itsdangerous import BadSignature, SignatureExpired
from werkzeug.wrappers import Response

from warren.admin_web.access.sign_ins import SignIns
from warren.admin_web.access.sub_path import here_with_query, home
from warren.admin_web.visitors import Visitor
from warren.scheduler.actor import Right


def is_present() -> bool:
    """Return whether a request has a session cookie that no console signed; Flask ignores it."""
    interface = current_app.session_interface
    assert isinstance(interface, SecureCookieSessionInterface)
    serializer = interface.get_signing_serializer(current_app)
    sent = request.cookies.get(interface.get_cookie_name(current_app))
    if not sent or serializer is None:
        return False
    longest = int(current_app.permanent_session_lifetime.total_seconds())
    try:
        serializer.loads(sent, max_age=longest)
    except SignatureExpired:
        return False
    except BadSignature:
        return True
    return False


#: The key of the sign-in's token in the signed cookie.
TOKEN = "sign_in"  # noqa: S105 - a key, not a secret
#: Sent by tables that refresh themselves: these requests do not keep a sign-in alive.
LIVE_HEADER = "Warren-Live"


class Gate:
    """Lets a request through if its caller has the right that its route requires."""

    def __init__(self, sign_ins: SignIns, rights: Mapping[str, Right]) -> None:
        self._sign_ins = sign_ins
        self._rights = rights

    def guard(self, app: Flask) -> None:
        """Check every request from now on.

        Raises:
            LookupError: a route has no right.

        """
        unknown = {rule.endpoint for rule in app.url_map.iter_rules()} - set(self._rights)
        if unknown:
            raise LookupError(f"routes without a right: {', '.join(sorted(unknown))}")
        app.before_request(self.admit)

    def admit(self) -> Response | None:
        """Return None to let the request through; otherwise where the visitor must go first."""
        right = self._rights.get(request.endpoint or "")
        if right is None or right is Right.ANYONE:
            return None
        visitor = self._identify()
        if visitor is None:
            if is_present():
                self._sign_ins.record_forgery(origin())
                abort(401)
            return _to_sign_in()
        if visitor.may(right):
            return None
        if visitor.must_change_password:
            return redirect(url_for("account.show", next=_wanted_page()), 303)
        return abort(403)

    def _identify(self) -> Visitor | None:
        """Return the visitor, also as `g.visitor`; None if nobody is signed in."""
        token = session.get(TOKEN)
        g.visitor = None
        if isinstance(token, str):
            g.visitor = self._sign_ins.find(
                token, origin=origin(), is_click=LIVE_HEADER not in request.headers
            )
        if g.visitor is None and token is not None:
            session.pop(TOKEN)
        visitor: Visitor | None = g.visitor
        return visitor


def origin() -> str:
    """Return the IP address that the request comes from."""
    return request.remote_addr or ""


def parts_of(url: str) -> SplitResult:
    """Split a URL that a client sent; all parts are empty if it is not a URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def local_path(target: str | None) -> str:
    """Return a path of this console to redirect to; its first page for anything that is not one."""
    path = target or ""
    if not path.startswith(home()) or path.startswith("//") or "\\" in path:
        return home()
    if any(ord(character) <= ord(" ") for character in path):
        return home()
    return path


def _to_sign_in() -> Response:
    if LIVE_HEADER in request.headers or request.method not in ("GET", "HEAD"):
        abort(401)
    return redirect(url_for("sign_in.login", next=_wanted_page()), 303)


def _wanted_page() -> str | None:
    """Return the path to return to; None for the first page, and where a form was sent."""
    wanted = here_with_query()
    return None if wanted == home() or request.method not in ("GET", "HEAD") else wanted

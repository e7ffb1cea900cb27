"""The checks before every view: host and origin, sign-in and right, the form's token.

Also the security headers of every answer.
"""

import base64
import binascii
import ipaddress
import re
import secrets
import socket
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

import structlog
from flask import Flask, abort, current_app, g, redirect, request, session, url_for
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFProtect, generate_csrf
from itsdangerous import BadSignature, SignatureExpired
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Response

from warren.admin_web.access.sign_ins import Lapsed, SignIns
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import here_with_query, home
from warren.admin_web.visitors import Visitor, known_visitor
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
#: Set when a session by single sign-on has ended by itself, until the page of the sign-in says so.
LAPSED = "lapsed"
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
        """Return the visitor, also as `g.visitor`; None without a sign-in."""
        token = session.get(TOKEN)
        g.visitor = None
        if isinstance(token, str):
            found = self._sign_ins.find(
                token, origin=origin(), is_click=LIVE_HEADER not in request.headers
            )
            if isinstance(found, Lapsed):
                session[LAPSED] = True
            else:
                g.visitor = found
        if g.visitor is None and token is not None:
            session.pop(TOKEN)
        visitor: Visitor | None = g.visitor
        return visitor


def origin() -> str:
    """Return the IP address that the request comes from."""
    return request.remote_addr or ""


def parts_of(url: str) -> SplitResult:
    """Split a URL that a client sent; all parts are empty if it is invalid."""
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


#: No inline script or style, nothing from other hosts, not in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "object-src 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
#: For consoles behind https: browsers use nothing else for a year.
HTTPS_ONLY = ("Strict-Transport-Security", "max-age=31536000")
#: More than any of our forms needs: a script has up to 512 kB.
BODY_BYTES = 1_000_000
FORM_FIELDS = 1_000
#: More than any of our URLs has; each argument costs time before sign-in.
ARGUMENTS = 100
#: The content types of forms; nothing else is read.
_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", ""})
#: Programs read these under any host name; the views use no cookie.
_FOR_PROGRAMS = frozenset({"health.healthz", "health.metrics"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Control characters that HTML does not allow.
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")

log = structlog.get_logger()


def escape_controls(response: Response) -> Response:
    """Write control characters in pages, such as escapes of terminals, as references.

    The browser shows the same, and forms send them back unchanged.
    """
    if response.mimetype == "text/html" and not response.is_streamed:
        page = response.get_data()
        if _CONTROLS.search(page):
            response.set_data(_CONTROLS.sub(lambda found: b"&#%d;" % found[0][0], page))
    return response


class Security:
    """Refuses unknown hosts and cross-site requests, and sets the headers of every answer."""

    def __init__(self, services: ConsoleServices) -> None:
        own = {"localhost", socket.gethostname().lower(), services.host.lower()}
        console = urlsplit(services.console_url)
        self._hosts = own | ({console.hostname.lower()} if console.hostname else set())
        self._public, self._scheme = console.netloc, console.scheme
        self._is_https = services.is_https

    def guard(self, app: Flask) -> None:
        """Check every request, and complete every answer."""
        app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES
        app.config["MAX_FORM_MEMORY_SIZE"] = BODY_BYTES
        app.config["MAX_FORM_PARTS"] = FORM_FIELDS
        app.before_request(self.check)
        app.after_request(self.set_headers)
        app.after_request(self.log_refusal)
        app.after_request(escape_controls)

    def check(self) -> None:
        """Refuse a host name that is not ours (DNS rebinding), and cross-site requests."""
        if request.query_string.count(b"&") >= ARGUMENTS:
            abort(400, "arguments")
        if request.endpoint in _FOR_PROGRAMS:
            return
        if not self._is_own(request.host):
            abort(400, "host")
        if request.method not in _SAFE and not self._is_own_page():
            abort(403, "origin")
        if request.method not in _SAFE and request.mimetype not in _FORMS:
            abort(415)

    def set_headers(self, response: Response) -> Response:
        """Set the security headers and Cache-Control."""
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if self._is_https:
            response.headers.setdefault(*HTTPS_ONLY)
        if _is_immutable():
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        else:
            response.headers.setdefault("Cache-Control", "no-store")
        response.headers.pop("Server", None)
        return response

    def log_refusal(self, response: Response) -> Response:
        """Log a 403: a right, token or origin was missing."""
        if response.status_code == Forbidden.code:
            known = known_visitor()
            log.warning(
                "request_refused",
                method=request.method,
                path=request.path[:200],
                who=known.name if known else "",
                origin=request.remote_addr,
            )
        return response

    def _is_own(self, host: str) -> bool:
        name = parts_of(f"//{host}").hostname or ""
        return name in self._hosts or _is_address(name)

    def _is_own_page(self) -> bool:
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = request.headers.get("Origin")
        if origin is None:
            return True
        page = parts_of(origin)
        if page.netloc == self._public != "":
            # A page that came by http may have been changed on its way to the browser.
            return page.scheme == self._scheme
        return page.netloc == request.host


def _is_immutable() -> bool:
    """Whether the answer is a file whose URL changes whenever its content does."""
    name = str((request.view_args or {}).get("filename", ""))
    return request.endpoint == "static" and ("v" in request.args or name.startswith("bundle/"))


def _is_address(name: str) -> bool:
    # A literal address involves no DNS, so it cannot be rebound to us.
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class MaskedTokens(CSRFProtect):  # type: ignore[misc] # has no types
    """Checks CSRF tokens, which are masked differently in each answer."""

    def init_app(self, app: Flask) -> None:
        """Check every form, and give templates the token to put into theirs."""
        super().init_app(app)
        # Macros see globals only; in templates, the context processor of CSRFProtect would win.
        app.jinja_env.globals["csrf_token"] = masked_token
        app.context_processor(lambda: {"csrf_token": masked_token})

    def _get_csrf_token(self) -> str | None:
        """Return the unmasked token of this request."""
        sent = super()._get_csrf_token()
        return unmasked(sent) if sent else sent


def masked_token() -> str:
    """Return the masked token of this answer; all its forms share it."""
    if "masked_token" not in g:
        token = generate_csrf().encode()
        mask = secrets.token_bytes(len(token))
        g.masked_token = base64.urlsafe_b64encode(mask + _xor(token, mask)).decode()
    return str(g.masked_token)


def unmasked(sent: str) -> str:
    """Return the token that was masked; empty if `sent` is not a masked token."""
    try:
        both = base64.urlsafe_b64decode(sent.encode())
        half = len(both) // 2
        return _xor(both[half:], both[:half]).decode()
    except (binascii.Error, ValueError):
        return ""


def _xor(byte: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(byte, other, strict=True))

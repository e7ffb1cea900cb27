"""Builds the console's Flask application; nothing of it lives at module level."""

import hashlib
import hmac

from flask import Flask
from flask_wtf.csrf import CSRFProtect
from werkzeug.middleware.proxy_fix import ProxyFix

from admin_web import language, looks, menu, moments, said
from admin_web.errors import ErrorPages
from admin_web.gate import Gate
from admin_web.keys import IdConverter
from admin_web.last_known import LastKnown
from admin_web.pages import page_groups
from admin_web.parts import Parts
from admin_web.routes import mount
from admin_web.security import Security
from admin_web.sign_ins import LONGEST_SECONDS, SignIns


def create_app(parts: Parts) -> Flask:
    """Return the console; a WSGI server serves it.

    The order of what stands before a view: host and origin, who it is and whether they may, the
    form's token.
    """
    app = Flask("admin_web")
    app.config.update(
        SECRET_KEY=_cookie_key(parts.secret),
        # Browsers keep a cookie of this prefix from other hosts and from plain http.
        SESSION_COOKIE_NAME="__Host-warren" if parts.is_https else "warren",
        SESSION_COOKIE_SECURE=parts.is_https,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        WTF_CSRF_TIME_LIMIT=LONGEST_SECONDS,
        WTF_CSRF_SSL_STRICT=False,  # Security compares the origin, behind proxies too
    )
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.url_map.converters["id"] = IdConverter
    sign_ins = SignIns(parts.database, parts.now_ms)
    rights = mount(app, page_groups(parts, sign_ins))
    Security(parts).guard(app)
    Gate(sign_ins, rights).guard(app)
    CSRFProtect(app)
    last_known = LastKnown(parts.now_ms)
    last_known.install(app)
    ErrorPages(last_known).install(app)
    language.install(app)
    said.install(app)
    moments.install(app, parts)
    looks.install(app)
    menu.install(app)
    app.jinja_env.globals["broker_answers"] = parts.is_broker_up
    if parts.trusted_proxies:
        count = parts.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=count, x_proto=count)  # type: ignore[method-assign]
    return app


def _cookie_key(secret: str) -> bytes:
    """Return a key that tells nothing of the secret, which also signs messages."""
    return hmac.new(secret.encode(), b"warren console cookies", hashlib.sha256).digest()

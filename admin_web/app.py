"""Builds the console's Flask application; there is no application at module level."""

import hashlib
import hmac

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from warren.admin_web import links, local_times, template_globals
from warren.admin_web.access.gate import Gate, MaskedTokens, Security
from warren.admin_web.access.sign_ins import LONGEST_SECONDS, CookiePerPort, SignIns
from warren.admin_web.cached_counts import TroubleCounts
from warren.admin_web.compression import Compression
from warren.admin_web.downloads import DownloadPlaces
from warren.admin_web.errors import ErrorPages, PageCache
from warren.admin_web.language import catalogues, labels
from warren.admin_web.pages import page_groups
from warren.admin_web.pages.conditions import ClusterConditions, ConditionPages, PausePages
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import BelowPath, IdConverter, mount


def create_app(services: ConsoleServices) -> Flask:
    """Return the console as a WSGI application.

    Checks before a view, in order: host and origin, sign-in and right, the user's place for a
    download, the form's token.
    """
    app = Flask("warren.admin_web")
    app.session_interface = CookiePerPort()
    app.config.update(
        SECRET_KEY=_cookie_key(services.secret),
        SECRET_KEY_FALLBACKS=[
            _cookie_key(secret) for secret in (services.secret_previous,) if secret
        ],
        # Browsers accept cookies with this prefix only over https and only for this host.
        SESSION_COOKIE_NAME="__Host-warren" if services.is_https else "warren",
        SESSION_COOKIE_SECURE=services.is_https,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        WTF_CSRF_TIME_LIMIT=LONGEST_SECONDS,
        WTF_CSRF_SSL_STRICT=False,  # Security compares the origin, behind proxies too
    )
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.url_map.converters["id"] = IdConverter
    sign_ins = SignIns(services.database, services.now_ms, services.local_names)
    conditions = ConditionPages(ClusterConditions(services))
    conditions.install(app)
    TroubleCounts(services).install(app)
    # Flask calls the first of these last, so it sees an answer as it will be sent.
    Compression(template_globals.STATIC).install(app)
    rights = mount(app, [*page_groups(services, sign_ins), conditions, PausePages(services)])
    Security(services).guard(app)
    Gate(sign_ins, rights).guard(app)
    DownloadPlaces().guard(app)
    MaskedTokens(app)
    page_cache = PageCache(services.now_ms, services.page_cache)
    page_cache.install(app)
    ErrorPages(page_cache).install(app)
    catalogues.install(app)
    labels.install(app)
    local_times.install(app, services)
    template_globals.install(app)
    links.install(app)
    app.wsgi_app = BelowPath(app.wsgi_app, services.console_url)  # type: ignore[method-assign]
    if services.trusted_proxies:
        count = services.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=count, x_proto=count)  # type: ignore[method-assign]
    return app


def _cookie_key(secret: str) -> bytes:
    """Return a key derived from the secret, which also signs messages and must not leak."""
    return hmac.new(secret.encode(), b"warren console cookies", hashlib.sha256).digest()

"""Error pages: what went wrong, in plain words, without traces, queries or addresses.

Also maps what commands refuse to an HTTP status, for pages and the API alike.

While the database is unavailable, recently seen pages are shown. A sign-in sees only pages that
this console has shown it before, so no one learns anything new. They are kept only for as long as
rights may be out of date. Pages with forms are not kept, because whatever is typed there would be
lost at each reload.
"""

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from flask import Flask, g, get_flashed_messages, render_template, request, session
from flask_babel import LazyString, gettext, lazy_gettext
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from warren.admin_web.access.gate import TOKEN
from warren.admin_web.api.problem_answers import HTTP_STATUS
from warren.admin_web.links import came_from
from warren.admin_web.services import PageCacheLimits
from warren.admin_web.visitors import Visitor, known_visitor
from warren.scheduler.problems import Refused
from warren.sql.errors import DatabaseUnavailable, NotFound

#: Pages without forms, except the audit log.
ENDPOINTS = frozenset(
    {
        "board.show",
        "dashboard.show",
        "jobs.index",
        "jobs.show",
        "runs.index",
        "runs.show",
        "runs.log",
        "apps.index",
        "executors.index",
        "schedulers.index",
        "ledger.index",
    }
)
#: The notice goes after this, at the beginning of the content in `layout.html`.
_MAIN = '<main id="main" tabindex="-1">'


@dataclass(frozen=True, slots=True)
class _Page:
    html: str
    visitor: Visitor
    shown_at_ms: int
    until: float


class PageCache:
    """Keeps a few pages for each sign-in; thread-safe.

    Args:
        now_ms: the database's clock.
        limits: how much is kept.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        limits: PageCacheLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now_ms = now_ms
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: OrderedDict[tuple[str, str], _Page] = OrderedDict()

    def install(self, app: Flask) -> None:
        """Store the pages that an app serves."""
        app.after_request(self.store)

    def store(self, response: Response) -> Response:
        """Store a page that may be shown again; return the response unchanged."""
        known, key = known_visitor(), _key()
        if known is None or key is None or response.status_code != 200:  # noqa: PLR2004 - OK
            return response
        if response.is_streamed:
            return response
        html = response.get_data(as_text=True)
        page = _Page(html, known, self._now_ms(), self._clock() + self._limits.seconds)
        # A page with a flashed message is not stored: the message is shown only once.
        is_stored = (
            _MAIN in html and len(html) <= self._limits.characters and not get_flashed_messages()
        )
        with self._lock:
            self._pages.pop(key, None)
            if is_stored:
                self._pages[key] = page
            while len(self._pages) > self._limits.pages:
                self._pages.popitem(last=False)
        return response

    def find(self) -> str | None:
        """Return the last version of the requested page with a notice; None if there is none."""
        key = _key()
        with self._lock:
            page = self._pages.get(key) if key else None
        if page is None or page.until < self._clock():
            return None
        g.visitor = page.visitor  # for language and zone; no view follows
        notice = render_template("cached_notice.html", shown_at_ms=page.shown_at_ms)
        return page.html.replace(_MAIN, _MAIN + notice, 1)


def _key() -> tuple[str, str] | None:
    """Return the sign-in and the page of this request; None if it is not cached."""
    token = session.get(TOKEN)
    if request.method != "GET" or request.endpoint not in ENDPOINTS or not isinstance(token, str):
        return None
    return hashlib.sha256(token.encode()).hexdigest(), request.full_path


#: Seconds after which the page about a lost database reloads.
RETRY_SECONDS = 5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ErrorText:
    """A title, and what to do."""

    title: LazyString
    advice: LazyString


ERROR_TEXTS = {
    400: ErrorText(
        lazy_gettext("Invalid request"),
        lazy_gettext("Go back, reload the page and try again."),
    ),
    401: ErrorText(
        lazy_gettext("Session expired"),
        lazy_gettext("Sign in, then try again. Nothing was changed."),
    ),
    403: ErrorText(
        lazy_gettext("Permission denied"),
        lazy_gettext("Your role does not allow it, or the form has expired. Nothing was changed."),
    ),
    404: ErrorText(
        lazy_gettext("Page not found"),
        lazy_gettext(
            "It may have been deleted, or it belongs to an app that you have no access to."
        ),
    ),
    405: ErrorText(
        lazy_gettext("Method not allowed"),
        lazy_gettext("Use the buttons on the pages. Nothing was changed."),
    ),
    413: ErrorText(
        lazy_gettext("Request too large"),
        lazy_gettext("A form can have up to 1 MB. Nothing was changed."),
    ),
    429: ErrorText(
        lazy_gettext("Too many attempts"),
        lazy_gettext("Wait a moment, then try again."),
    ),
    500: ErrorText(
        lazy_gettext("Console error"),
        lazy_gettext("Scheduling is not affected. Give your administrator this error number."),
    ),
    503: ErrorText(
        lazy_gettext("Database unavailable"),
        lazy_gettext(
            "Running jobs continue, and their results are saved later. "
            "This page reloads automatically."
        ),
    ),
}

#: Instead of 503's, for a form: the browser must not submit it again by itself.
_NOT_DONE = ErrorText(
    lazy_gettext("Database unavailable"),
    lazy_gettext("This probably had no effect. Check before you submit it again."),
)


class ErrorPages:
    """Shows a page for every error, including those of libraries."""

    def __init__(self, page_cache: PageCache) -> None:
        self._page_cache = page_cache

    def install(self, app: Flask) -> None:
        """Handle an app's errors."""
        app.register_error_handler(HTTPException, self.http_error)
        app.register_error_handler(NotFound, self.not_found)
        app.register_error_handler(Refused, self.refused)
        app.register_error_handler(DatabaseUnavailable, self.database_lost)
        app.register_error_handler(Exception, self.internal_error)

    def http_error(self, error: HTTPException) -> Response | tuple[str, int]:
        if error.code is None or error.code < 400:  # noqa: PLR2004 - a redirect is no error
            return error.get_response()
        # The library answers 400 to a missing or expired token; it is a refusal.
        code = 403 if type(error).__name__ == "CSRFError" else error.code
        return _page(code if code in ERROR_TEXTS else 400, code)

    def not_found(self, _error: NotFound) -> tuple[str, int]:
        """Show that something does not exist, or belongs to an app the visitor may not see."""
        return _page(404, 404)

    def refused(self, error: Refused) -> tuple[str, int]:
        """Show that a command refused something, if its page does not show why."""
        code = HTTP_STATUS[error.problems[0].code.kind]
        return _page(code if code in ERROR_TEXTS else 400, code)

    def database_lost(self, error: DatabaseUnavailable) -> tuple[str, int, dict[str, str]]:
        """Show the last cached page if there is one, else that the database is unavailable."""
        number = _number()
        log.warning("page_not_served", path=_path(), number=number, error=str(error))
        headers = {"Retry-After": str(RETRY_SECONDS)}
        if request.method != "GET":
            return _shown(_NOT_DONE, 503, number), 503, headers
        headers["Refresh"] = str(RETRY_SECONDS)
        page = self._page_cache.find() or _shown(ERROR_TEXTS[503], 503, number)
        return page, 503, headers

    def internal_error(self, error: Exception) -> tuple[str, int]:
        """Show a number that is in the log too."""
        number = _number()
        log.error("page_failed", path=_path(), number=number, exc_info=error)
        return _page(500, 500, number)


def _page(which: int, code: int, number: str = "") -> tuple[str, int]:
    return _shown(ERROR_TEXTS[which], code, number), code


def _shown(words: ErrorText, code: int, number: str) -> str:
    # Do not query the database here for the visitor: it may be what failed.
    g.setdefault("visitor", None)
    detail = gettext("Error number: %(number)s", number=number) if number else ""
    return render_template(
        "error.html", words=words, code=code, detail=detail, came_from=came_from()
    )


def _number() -> str:
    """Return the number that leads from a page to its line in the log."""
    return secrets.token_hex(4)


def _path() -> str:
    return request.path[:200]

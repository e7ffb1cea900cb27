"""Keeps recently seen pages, to show them while the database is unavailable.

A sign-in sees only pages that this console has shown it before, so nobody learns anything new. They
are kept only for as long as rights may be out of date. Pages with forms are not kept, because
whatever is typed there would be lost at each reload.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, g, get_flashed_messages, render_template, request, session
from werkzeug.wrappers import Response

from warren.admin_web.access.gate import TOKEN
from warren.admin_web.services import PageCacheLimits
from warren.admin_web.visitors import Visitor, known_visitor

#: Pages without forms, except the audit log.
ENDPOINTS = frozenset(
    {
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

"""Keeps pages as somebody last saw them, to show them while the database is away.

A sign-in is shown only what this console has shown to it before, so nobody learns what they did not
know; and only for so long as their rights may be out of date. Forms of their own are not kept: what
is typed there would be lost at each new try.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, g, get_flashed_messages, render_template, request, session
from werkzeug.wrappers import Response

from admin_web.access.gate import TOKEN
from admin_web.console_services import PageCacheLimits
from admin_web.visitors import Visitor, known_visitor

#: Lists and pages of one thing; the rest has forms, or tells who did what.
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
#: Where the notice goes: the beginning of `layout.html`'s content.
_MAIN = '<main id="main" tabindex="-1">'


@dataclass(frozen=True, slots=True)
class _Page:
    html: str
    visitor: Visitor
    shown_at_ms: int
    until: float


class PageCache:
    """Keeps pages, a few for each sign-in; thread-safe.

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
        """Look at every answer of an app."""
        app.after_request(self.store)

    def store(self, response: Response) -> Response:
        """Keep a page that may be shown again; return it as it is."""
        known, key = known_visitor(), _key()
        if known is None or key is None or response.status_code != 200:  # noqa: PLR2004 - OK
            return response
        if response.is_streamed:
            return response
        html = response.get_data(as_text=True)
        page = _Page(html, known, self._now_ms(), self._clock() + self._limits.seconds)
        # What was said once, about what has just been done, is not said again.
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
        """Return the page that is asked for as it was last, with a notice; None = not known."""
        key = _key()
        with self._lock:
            page = self._pages.get(key) if key else None
        if page is None or page.until < self._clock():
            return None
        g.visitor = page.visitor  # for language and zone; no view follows
        notice = render_template("cached_notice.html", shown_at_ms=page.shown_at_ms)
        return page.html.replace(_MAIN, _MAIN + notice, 1)


def _key() -> tuple[str, str] | None:
    """Return the sign-in and the page of the present request, None where none is kept."""
    token = session.get(TOKEN)
    if request.method != "GET" or request.endpoint not in ENDPOINTS or not isinstance(token, str):
        return None
    return hashlib.sha256(token.encode()).hexdigest(), request.full_path

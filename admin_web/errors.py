"""Error pages: what went wrong, in words for people, and never a trace, a query or an address."""

import secrets
from dataclasses import dataclass

import structlog
from flask import Flask, g, render_template, request
from flask_babel import LazyString, gettext, lazy_gettext
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from admin_web.last_known import LastKnown
from sql.errors import DatabaseUnavailable, NotFound

#: Seconds after which the page about a lost database asks again.
RETRY_SECONDS = 5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Words:
    """A title and what to do."""

    title: LazyString
    advice: LazyString


WORDS = {
    400: Words(
        lazy_gettext("The request cannot be understood"),
        lazy_gettext("Go back, load the page again and try once more."),
    ),
    401: Words(
        lazy_gettext("You are not signed in any more"),
        lazy_gettext("Sign in, then try again. Nothing was changed."),
    ),
    403: Words(
        lazy_gettext("You may not do that"),
        lazy_gettext(
            "Your role does not include it, or the form was too old. Nothing was changed."
        ),
    ),
    404: Words(
        lazy_gettext("There is nothing here"),
        lazy_gettext("It may have been deleted, or it belongs to an app that is not yours."),
    ),
    405: Words(
        lazy_gettext("This cannot be called like that"),
        lazy_gettext("Use the buttons of the pages. Nothing was changed."),
    ),
    413: Words(
        lazy_gettext("That is too much at once"),
        lazy_gettext("A form may hold up to 1 MB. Nothing was changed."),
    ),
    429: Words(
        lazy_gettext("Too many tries"),
        lazy_gettext("Wait a moment, then try again."),
    ),
    500: Words(
        lazy_gettext("Something went wrong in the console"),
        lazy_gettext("Scheduling goes on. Tell your administrator the number of this error."),
    ),
    503: Words(
        lazy_gettext("The database does not answer"),
        lazy_gettext("Jobs at work go on and their reports wait. This page tries again by itself."),
    ),
}

#: Instead of 503's, for a form: it is not sent a second time by itself.
_NOT_DONE = Words(
    lazy_gettext("The database does not answer"),
    lazy_gettext("Look whether it was done before you send it again; most likely it was not."),
)


class ErrorPages:
    """Answers every error, foreign ones included, with a page of its own."""

    def __init__(self, last_known: LastKnown) -> None:
        self._last_known = last_known

    def install(self, app: Flask) -> None:
        """Answer an app's errors."""
        app.register_error_handler(HTTPException, self.known)
        app.register_error_handler(NotFound, self.absent)
        app.register_error_handler(DatabaseUnavailable, self.database_lost)
        app.register_error_handler(Exception, self.unexpected)

    def known(self, error: HTTPException) -> Response | tuple[str, int]:
        """Show what HTTP has a number for."""
        if error.code is None or error.code < 400:  # noqa: PLR2004 - a redirect is no error
            return error.get_response()
        # A missing or old token is a refusal, whatever its library calls it.
        code = 403 if type(error).__name__ == "CSRFError" else error.code
        return _page(code if code in WORDS else 400, code)

    def absent(self, _error: NotFound) -> tuple[str, int]:
        """Show that there is no such thing, also for what belongs to somebody else's app."""
        return _page(404, 404)

    def database_lost(self, error: DatabaseUnavailable) -> tuple[str, int, dict[str, str]]:
        """Show that the database is away, and what is last known; it comes back by itself."""
        number = _number()
        log.warning("page_not_served", path=_path(), number=number, error=str(error))
        headers = {"Retry-After": str(RETRY_SECONDS)}
        if request.method != "GET":
            return _shown(_NOT_DONE, 503, number), 503, headers
        headers["Refresh"] = str(RETRY_SECONDS)
        page = self._last_known.again() or _shown(WORDS[503], 503, number)
        return page, 503, headers

    def unexpected(self, error: Exception) -> tuple[str, int]:
        """Show a number that the log has too."""
        number = _number()
        log.error("page_failed", path=_path(), number=number, exc_info=error)
        return _page(500, 500, number)


def _page(which: int, code: int, number: str = "") -> tuple[str, int]:
    return _shown(WORDS[which], code, number), code


def _shown(words: Words, code: int, number: str) -> str:
    # No database may be asked here: who it is, is known or unknown by now.
    g.setdefault("visitor", None)
    detail = gettext("Error number: %(number)s", number=number) if number else ""
    return render_template("error.html", words=words, code=code, detail=detail)


def _number() -> str:
    """Return what leads from a page to its line in the log."""
    return secrets.token_hex(4)


def _path() -> str:
    return request.path[:200]

"""Limits downloads of logs and lists to one at a time for each user.

A download occupies a thread for as long as the client reads.
"""

import threading
from urllib.parse import parse_qsl

from flask import Flask, g, request
from flask_babel import gettext
from werkzeug.wrappers import Response

from warren.admin_web.visitors import known_visitor

#: The query argument that asks for a list as a file, and its values.
FORMAT, FORMATS = "format", ("csv", "json")
_LOG = "/log/download"
#: A request with more arguments than this is refused anyway.
_MAX_ARGUMENTS = 100


def is_for_file(path: str, query: str) -> bool:
    """Return whether a request asks for a whole log or for a list as a file."""
    return path.endswith(_LOG) or any(
        name == FORMAT and value in FORMATS for name, value in _arguments(query)
    )


def _arguments(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, max_num_fields=_MAX_ARGUMENTS)
    except ValueError:
        return []


#: After this many seconds, a refused download may be tried again.
RETRY_SECONDS = 5


class DownloadPlaces:
    """The users who are downloading; thread-safe."""

    def __init__(self) -> None:
        self._users: set[int] = set()
        self._lock = threading.Lock()

    def guard(self, app: Flask) -> None:
        """Limit an app's downloads from now on; to be called after what identifies the visitor."""
        app.before_request(self.take)
        app.after_request(self.give_back_at_end)

    def take(self) -> Response | None:
        """Take the visitor's place if a file is asked for; return a refusal if it is occupied."""
        known = known_visitor()
        if known is None or not is_for_file(request.path, request.query_string.decode("latin-1")):
            return None
        with self._lock:
            if known.user_id in self._users:
                return _refusal()
            self._users.add(known.user_id)
        g.download_of = known.user_id
        return None

    def give_back_at_end(self, response: Response) -> Response:
        """Give the place back when the file has been sent, or at once if there is none to send."""
        user_id: int | None = g.pop("download_of", None)
        if user_id is None:
            return response
        if response.is_streamed:
            response.call_on_close(lambda: self._give_back(user_id))
        else:
            self._give_back(user_id)
        return response

    def _give_back(self, user_id: int) -> None:
        with self._lock:
            self._users.discard(user_id)


def _refusal() -> Response:
    text = gettext("You are downloading another file. Try again when it is complete.")
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return Response(
        f"{text}\n", status=429, headers=headers, content_type="text/plain; charset=utf-8"
    )

"""A console at a path of its host, such as https://example.com/warren, behind a reverse proxy.

Inside the application, paths begin below that path. All that leaves the process has it: links,
redirects, assets.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import request


class BelowPath:
    """Serves an application below a path, whether or not the proxy has removed it.

    Args:
        app: what is served.
        console_url: where people reach it.

    """

    def __init__(self, app: WSGIApplication, console_url: str) -> None:
        self._app = app
        self._root = urlsplit(console_url).path.rstrip("/")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        environ["SCRIPT_NAME"] = self._root
        environ["PATH_INFO"] = below(self._root, environ.get("PATH_INFO", "")) or "/"
        return self._app(environ, start_response)


def below(root: str, path: str) -> str:
    """Return what follows a root in a path; the path itself if it is not below the root."""
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else path


def here() -> str:
    """Return the path of this page as browsers know it."""
    return request.script_root + request.path


def here_with_query() -> str:
    """Return the path of this page as browsers know it, with its query if it has one."""
    return request.script_root + request.full_path.rstrip("?")


def home() -> str:
    """Return the path of the first page."""
    return f"{request.script_root}/"

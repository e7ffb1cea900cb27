"""Sends pages and files compressed: pages as they are made, files as they were compressed before.

Secrets and what a stranger chose may stand on one page, and a compressed answer's length could tell
whether they agree (BREACH). So tokens of forms are masked anew in each answer, cookies do not come
along with requests of foreign pages, and an answer to a POST, which may show a new secret, is sent
as it is.
"""

import gzip
from pathlib import Path

from flask import Flask, request
from werkzeug.wrappers import Response

#: Shorter answers gain nothing; longer ones would hold a thread for too long.
SHORTEST_BYTES, LONGEST_BYTES = 1_000, 4_000_000
LEVEL = 5
_TEXTS = ("text/", "application/json", "application/javascript", "image/svg+xml")
#: What was made at build time, by its ending, the smaller first.
_MADE_BEFORE = (("br", ".br"), ("gzip", ".gz"))


class Compression:
    """Compresses what a browser accepts compressed.

    Args:
        static: the folder of files, with compressed ones beside some.

    """

    def __init__(self, static: Path) -> None:
        self._static = static

    def install(self, app: Flask) -> None:
        """Stand behind every route, before those that were installed earlier."""
        app.after_request(self.compress)

    def compress(self, response: Response) -> Response:
        """Return an answer, compressed if that is worth it."""
        if not _may_be_compressed(response):
            return response
        response.vary.add("Accept-Encoding")
        if request.endpoint == "static" and self._put_file(response):
            return response
        is_whole = request.endpoint == "static" or not response.is_streamed
        if is_whole and _accepts("gzip"):
            body = _body(response)
            if SHORTEST_BYTES <= len(body) <= LONGEST_BYTES:
                _put(response, gzip.compress(body, LEVEL, mtime=0), "gzip")
        return response

    def _put_file(self, response: Response) -> bool:
        """Take the file that was compressed when the console was built."""
        name = (request.view_args or {}).get("filename", "")
        for encoding, ending in _MADE_BEFORE:
            made = self._static / f"{name}{ending}"
            if _accepts(encoding) and made.is_file():
                _put(response, made.read_bytes(), encoding)
                return True
        return False


def _may_be_compressed(response: Response) -> bool:
    return (
        request.method in ("GET", "HEAD")
        and response.status_code in (200, 503)
        and "Content-Encoding" not in response.headers
        and (response.content_type or "").startswith(_TEXTS)
    )


def _accepts(encoding: str) -> bool:
    return request.accept_encodings.quality(encoding) > 0


def _body(response: Response) -> bytes:
    response.direct_passthrough = False
    return response.get_data()


def _put(response: Response, body: bytes, encoding: str) -> None:
    response.direct_passthrough = False
    response.set_data(body)
    response.headers["Content-Encoding"] = encoding
    # The bytes are others than those of the file, and parts of them mean nothing.
    response.headers.pop("Accept-Ranges", None)
    if "ETag" in response.headers:
        tag, _is_weak = response.get_etag()
        response.set_etag(f"{tag}-{encoding}", weak=True)

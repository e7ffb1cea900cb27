"""Compresses answers: pages on the fly, files when the console is built or when first asked for.

The length of a compressed answer could tell whether a secret on the page equals a text that an
attacker chose (BREACH). So tokens in forms are masked differently in each answer, cookies are not
sent along with cross-site requests, and answers to POSTs, which may show a new secret, are not
compressed.
"""

import gzip
from functools import lru_cache
from pathlib import Path

from flask import Flask, request
from werkzeug.wrappers import Response

#: Shorter answers gain nothing; longer ones would occupy a thread for too long.
MIN_BYTES, MAX_BYTES = 1_000, 4_000_000
LEVEL = 5
_TEXTS = ("text/", "application/json", "application/javascript", "image/svg+xml")
#: Encodings of files made at build time, with their suffixes; the smaller one first.
_MADE_BEFORE = (("br", ".br"), ("gzip", ".gz"))


class Compression:
    """Compresses answers if the browser accepts that.

    Args:
        static: the folder of static files, some with compressed ones beside them.

    """

    def __init__(self, static: Path) -> None:
        self._static = static

    def install(self, app: Flask) -> None:
        """Compress every answer, after all handlers that are installed later."""
        app.after_request(self.compress)

    def compress(self, response: Response) -> Response:
        """Return an answer, compressed if that is worthwhile."""
        if not _may_be_compressed(response):
            return response
        response.vary.add("Accept-Encoding")
        if request.endpoint == "static" and self._put_file(response):
            return response
        is_static = request.endpoint == "static"
        if (is_static or not response.is_streamed) and _accepts("gzip"):
            body = _body(response)
            if MIN_BYTES <= len(body) <= MAX_BYTES:
                _put(response, _compressed_file(body) if is_static else _compressed(body), "gzip")
        return response

    def _put_file(self, response: Response) -> bool:
        """Send the file compressed at build time instead; return whether there is one."""
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


def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)


#: The files that have no compressed one beside them are the style sheets.
_compressed_file = lru_cache(maxsize=32)(_compressed)


def _put(response: Response, body: bytes, encoding: str) -> None:
    response.direct_passthrough = False
    response.set_data(body)
    response.headers["Content-Encoding"] = encoding
    # Ranges of compressed bytes would be useless.
    response.headers.pop("Accept-Ranges", None)
    if "ETag" in response.headers:
        tag, _is_weak = response.get_etag()
        response.set_etag(f"{tag}-{encoding}", weak=True)

"""Sends packed logs to where schedulers say: to a URL of S3, or into a shared folder."""

import html
import http.client
import re
import ssl
import threading
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from warren.broker.log_folder import write_log
from warren.broker.messages import LogPlace

#: How long a server may take to connect, to take a piece, or to answer.
SEND_SECONDS = 30.0
_COPY_BYTES = 262_144
_FINE = range(200, 300)
_ANSWER_BYTES = 2_000
_SAID = re.compile(r"<(Code|Message)>([^<]{1,200})</")


class NotSent(Exception):
    """A log could not be sent; the text says why, and names no URL: that has a signature."""


class LogSender:
    """Sends logs; each thread keeps its connection to a server.

    Args:
        app: the executor's.
        folder: the shared folder; None = none is known here.

    """

    def __init__(self, app: str, folder: Path | None) -> None:
        self._app = app
        self._folder = folder
        self._kept = threading.local()
        #: The connections of all threads, to close them at the end.
        self._all: list[http.client.HTTPConnection] = []
        self._tls: ssl.SSLContext | None = None

    def send(self, log: BinaryIO, size: int, place: LogPlace) -> None:
        """Send `size` bytes of a file from its beginning.

        Raises:
            NotSent: it did not get there.

        """
        log.seek(0)
        try:
            if place.url:
                self._put(log, size, place.url)
            else:
                self._write(log, place.key)
        except OSError as error:
            raise NotSent(_server(place.url) + _words(error)) from error
        except (http.client.HTTPException, ValueError) as error:
            raise NotSent(f"{_server(place.url)}{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close the connections; what is being sent fails."""
        for connection in self._all:
            connection.close()

    def _write(self, log: BinaryIO, key: str) -> None:
        if self._folder is None:
            raise NotSent("WARREN_LOG_STORE is not set here; a shared folder has to be")

        def copy(file: BinaryIO) -> None:
            while text := log.read(_COPY_BYTES):
                file.write(text)

        write_log(self._folder, self._app, key, copy)

    def _put(self, log: BinaryIO, size: int, url: str) -> None:
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}"
        headers = {"Content-Length": str(size)}
        for is_kept in (True, False):
            connection = self._connection(parts.scheme, parts.netloc, is_kept=is_kept)
            is_new = connection.sock is None
            try:
                log.seek(0)
                connection.request("PUT", path, body=log, headers=headers)
                answer = connection.getresponse()
                said = answer.read(_ANSWER_BYTES)
                if answer.will_close or not answer.isclosed():
                    connection.close()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                # A connection that was kept may have been closed meanwhile.
                if is_new:
                    raise
        if answer.status not in _FINE:
            raise NotSent(f"{parts.netloc} answered {answer.status} {_reason(said, answer.reason)}")

    def _connection(self, scheme: str, netloc: str, *, is_kept: bool) -> http.client.HTTPConnection:
        known: dict[tuple[str, str], http.client.HTTPConnection]
        known = self._kept.__dict__.setdefault("connections", {})
        connection = known.get((scheme, netloc))
        if connection is not None and is_kept:
            return connection
        if scheme == "https":
            self._tls = self._tls or ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                netloc, timeout=SEND_SECONDS, context=self._tls
            )
        elif scheme == "http":
            connection = http.client.HTTPConnection(netloc, timeout=SEND_SECONDS)
        else:
            raise NotSent(f"expected a URL of http or https, got: {scheme[:20]}")
        known.clear()  # one server is used at a time
        self._all = [each for each in self._all if each.sock is not None] + [connection]
        known[scheme, netloc] = connection
        return connection


def _reason(said: bytes, reason: str) -> str:
    """Return what a server of S3 says is wrong, or its HTTP reason."""
    found = dict(_SAID.findall(said.decode(errors="replace")))
    words = " ".join(filter(None, (found.get("Code"), found.get("Message"))))
    return html.unescape(words) or reason


def _server(url: str) -> str:
    """Return the server of a URL as the beginning of what is wrong with it; "" without one."""
    return f"{urlsplit(url).netloc}: " if url else ""


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"

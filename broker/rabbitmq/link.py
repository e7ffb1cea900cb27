"""One connection to RabbitMQ and the thread that owns it; restored when it is lost.

Everything in pika happens in that thread. Other threads only post callbacks (`call`), whose data
belongs to the link's owner. An error in a callback ends the connection, never the thread.
"""

import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
import structlog
from pika.adapters.select_connection import IOLoop  # type: ignore[import-untyped]

from warren.broker.transport import BrokerSettings, is_loopback

#: Reply codes: the queue or exchange is missing; another connection has the queue for itself.
NOT_FOUND = 404
LOCKED = 405
_WORDS: dict[type[BaseException], str] = {
    pika.exceptions.ProbableAuthenticationError: "access refused: wrong user or password",
    pika.exceptions.ProbableAccessDeniedError: (
        "access refused: virtual host not found, or not for this user"
    ),
    pika.exceptions.AMQPHeartbeatTimeout: "no heartbeat from the broker",
    pika.exceptions.ConnectionBlockedTimeout: "blocked by the broker for too long",
    pika.exceptions.StreamLostError: "connection lost",
    ConnectionRefusedError: "connection refused: nothing listens there",
    TimeoutError: "no answer in time",
}
log = structlog.get_logger()
#: After a connection that lasted this long, the next one is tried without a long wait.
STABLE_SECONDS = 2.0
#: How long closing a link may take. A frozen broker does not answer, and then pika leaves the
#: socket to the garbage collector.
CLOSE_SECONDS = 1.0
#: How long sent bytes may stay unacknowledged before the peer counts as gone; otherwise a pulled
#: cable would be noticed only after two heartbeats.
TCP_USER_TIMEOUT_MS = 8_000


def reason_of(error: BaseException) -> str:
    """Return why a connection could not be made or was lost, without the password."""
    for cause in _causes(error):
        text = _explain(cause)
        if text:
            return text
    return _one_line(f"{type(error).__name__} {error}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of one of pika's errors, deepest first."""
    nested = [*getattr(error, "exceptions", ()), getattr(error, "exception", None)]
    for inner in [*nested, *error.args]:
        if isinstance(inner, BaseException):
            yield from _causes(inner)
    yield error


def _explain(error: BaseException) -> str:
    if type(error) in _WORDS:
        return _WORDS[type(error)]
    match error:
        case pika.exceptions.ConnectionClosed() | pika.exceptions.ChannelClosed():
            return _one_line(f"{error.reply_code} {error.reply_text}")
        case ssl.SSLError():
            return _one_line(f"TLS failed: {getattr(error, 'reason', None) or error.strerror}")
        case OSError():
            return _one_line(error.strerror or str(error))
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


class LinkOwner(Protocol):
    """What a link calls on its owner, always in the link's thread."""

    def connected(self, connection: Any) -> None:
        """Start using a new connection."""

    def blocked(self, *, is_blocked: bool) -> None:
        """Publish nothing while the broker is short of memory or disk."""

    def lost(self, reason: str) -> None:
        """Give up everything that depended on the connection."""


class Link:
    """Keeps a connection open until `close`; `reason` says why there is none."""

    def __init__(self, name: str, settings: BrokerSettings, owner: LinkOwner) -> None:
        self._name = name
        self._backoff = settings.backoff_seconds
        self._parameters = parameters_of(settings, name)
        self._owner = owner
        self._lock = threading.Lock()
        self._loop: Any = None
        self._connection: Any = None
        self._closing = threading.Event()
        self._is_up = False
        self._stood_since: float | None = None
        self.reason = "not connected yet"
        self._thread = threading.Thread(target=self._run, name=f"link {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called in the link's thread; return False if there is no connection.

        It is not called if the connection is lost first; then the owner's `lost` is called, always
        afterwards. So no callback is accepted during an attempt to connect: if that fails, `lost`
        is not called.
        """
        with self._lock:
            if self._is_up:
                self._loop.add_callback_threadsafe(callback)
            return self._is_up

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Have `callback` called later; only from the link's thread."""
        self._loop.call_later(seconds, callback)

    def reset(self) -> None:
        """Drop the connection or the attempt to connect, and start again."""
        with self._lock:
            if self._loop is not None:
                self._loop.add_callback_threadsafe(self._hang_up)

    def close(self) -> None:
        """Close the connection and end the thread; callbacks posted before are still called."""
        self._closing.set()
        self.reset()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS + 1)

    # -- in the link's thread ---------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                good = any(self._serve(parameters) for parameters in self._parameters)
            except Exception:  # without a free descriptor, there is not even a loop
                log.exception("broker_link_failed", link=self._name)
                good = False
            failures = 0 if good else failures + 1
            first, longest = self._backoff
            self._closing.wait(random.uniform(0, min(longest, first * 2 ** min(failures, 20))))  # noqa: S311 - jitter

    def _serve(self, parameters: Any) -> bool:
        """Connect, stay until the connection is lost, and return whether it was stable."""
        loop = IOLoop()
        self._stood_since = None
        with self._lock:  # from here on `close` finds the loop; an earlier `close` is noticed here
            if self._closing.is_set():
                loop.close()
                return True
            self._loop = loop
        try:
            self._connection = self._connect(parameters, loop)
            loop.start()
        except Exception:
            log.exception("broker_link_failed", link=self._name)
            self.reason = "an error of our own, see the log"
            self._abandon(loop)
        with self._lock:
            self._is_up = False
            self._loop = None
        if self._stood_since is not None:
            self._owner.lost(self.reason)
        loop.close()
        stood = self._stood_since
        return stood is not None and time.monotonic() - stood >= STABLE_SECONDS

    def _connect(self, parameters: Any, loop: Any) -> Any:
        return pika.SelectConnection(
            parameters,
            on_open_callback=self._on_open,
            on_open_error_callback=self._on_end,
            on_close_callback=self._on_end,
            custom_ioloop=loop,
        )

    def _on_open(self, connection: Any) -> None:
        if self._closing.is_set():
            self._hang_up()
            return
        self._stood_since = time.monotonic()
        self.reason = ""
        log.info("broker_link_connected", link=self._name)
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        with self._lock:
            self._is_up = True
        self._owner.connected(connection)

    def _on_blocked(self, _connection: Any, _method: Any) -> None:
        log.warning("broker_link_blocked", link=self._name)
        self._owner.blocked(is_blocked=True)

    def _on_unblocked(self, _connection: Any, _method: Any) -> None:
        log.info("broker_link_unblocked", link=self._name)
        self._owner.blocked(is_blocked=False)

    def _on_end(self, _connection: Any, error: BaseException) -> None:
        reason = "closed by us" if self._closing.is_set() else reason_of(error)
        if self._stood_since is not None:
            log.info("broker_link_lost", link=self._name, reason=reason)
        elif reason != self.reason and not self._closing.is_set():
            log.warning("broker_link_refused", link=self._name, reason=reason)
        self.reason = reason
        self._loop.stop()

    def _hang_up(self) -> None:
        connection = self._connection
        if connection is None or not connection.is_open:
            self._loop.stop()
            return
        self._loop.call_later(CLOSE_SECONDS, self._loop.stop)
        connection.close()

    def _abandon(self, loop: Any) -> None:
        """Close a connection whose callback failed, so that its socket does not stay open."""
        try:
            if self._connection is not None and self._connection.is_open:
                loop.call_later(CLOSE_SECONDS, loop.stop)
                self._connection.close()
                loop.start()
        except Exception:
            log.exception("broker_link_failed", link=self._name)


# -- pika's parameters, from our settings ------------------------------------------------------


def parameters_of(settings: BrokerSettings, name: str) -> list[Any]:
    """Return pika's parameters for each URL; `name` shows in the broker's list of connections.

    Raises:
        ValueError: a URL is not amqp or amqps, there is none, or the certificates are missing.

    """
    if not settings.urls:
        raise ValueError("expected broker URLs to be at least one, got none")
    return [_parameters(url, settings, name) for url in settings.urls]


def warn_of_plaintext(settings: BrokerSettings) -> None:
    """Log a warning for each URL that would send messages across a network unencrypted."""
    for url in settings.urls:
        parts = urlsplit(url)
        if parts.scheme == "amqp" and not is_loopback(parts.hostname or ""):
            log.warning("broker_link_unencrypted", host=parts.hostname)


def without_password(url: str) -> str:
    return re.sub(r"//([^:@/]*):.*@", r"//\1:***@", url)


def _parameters(url: str, settings: BrokerSettings, name: str) -> Any:
    if urlsplit(url).scheme not in {"amqp", "amqps"}:
        raise ValueError(f"expected broker URL to be amqp(s)://…, got: {without_password(url)!r}")
    try:
        parameters = pika.URLParameters(url)
    except Exception as error:
        shown = without_password(url)
        raise ValueError(f"expected broker URL to be amqp(s)://…, got: {shown!r}") from error
    if urlsplit(url).scheme == "amqps":
        parameters.ssl_options = pika.SSLOptions(_tls(settings), parameters.host)
    parameters.heartbeat = settings.heartbeat_seconds
    parameters.blocked_connection_timeout = settings.blocked_timeout_seconds
    parameters.socket_timeout = settings.connect_timeout_seconds
    parameters.stack_timeout = settings.connect_timeout_seconds
    parameters.connection_attempts = 1
    parameters.tcp_options = {"TCP_USER_TIMEOUT": TCP_USER_TIMEOUT_MS}
    parameters.client_properties = {"connection_name": name, "product": "warren"}
    return parameters


def _tls(settings: BrokerSettings) -> ssl.SSLContext:
    """Return a context that requires a certificate for the host in the URL."""
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        text = f"expected broker certificates to be a PEM file, got: {settings.ca_file!r}"
        raise ValueError(text) from error

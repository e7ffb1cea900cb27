"""From our settings to pika's, and from pika's errors to one line that a user understands."""

import ipaddress
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
import pika.spec  # type: ignore[import-untyped]
import structlog

from broker.transport import BrokerSettings

log = structlog.get_logger()

#: How long sent bytes may stay unacknowledged before the peer counts as gone; without it a pulled
#: cable is seen after twice the heartbeat.
TCP_USER_TIMEOUT_MS = 8_000

_BASIC_CLASS = 60


class TolerantProperties(pika.spec.BasicProperties):  # type: ignore[misc]
    """Properties that decode to none where pika cannot read them (a NaN, a far timestamp).

    Else that error would end the connection, the message would come again, and so for ever.
    """

    def decode(self, encoded: bytes, offset: int = 0) -> Any:
        """Read the properties, or leave them all empty."""
        try:
            return super().decode(encoded, offset)
        except Exception:  # noqa: BLE001 - whatever a stranger's bytes make pika raise
            self.__init__()  # type: ignore[misc]
            return self


def tolerate_strange_properties() -> None:
    """Let pika, in this process, read messages with `TolerantProperties`."""
    pika.spec.props[_BASIC_CLASS] = TolerantProperties


def parameters_of(settings: BrokerSettings, name: str) -> list[Any]:
    """Return pika's parameters for each URL; `name` shows in the broker's list of connections.

    Raises:
        ValueError: a URL is none of amqp or amqps, or there is none.

    """
    if not settings.urls:
        raise ValueError("expected broker URLs to be at least one, got none")
    return [_parameters(url, settings, name) for url in settings.urls]


def warn_of_plaintext(settings: BrokerSettings) -> None:
    """Log a warning for each URL over which messages would cross a network unencrypted."""
    for url in settings.urls:
        parts = urlsplit(url)
        if parts.scheme == "amqp" and not _is_loopback(parts.hostname or ""):
            log.warning("broker_link_unencrypted", host=parts.hostname)


def without_password(url: str) -> str:
    """Return a URL that can be shown."""
    return re.sub(r"//([^:@/]*):.*@", r"//\1:***@", url)


def string_headers(properties: Any) -> Mapping[str, str]:
    """Return those of a message's headers that are text named by text."""
    headers = properties.headers or {}
    return {
        name: value
        for name, value in headers.items()
        if isinstance(name, str) and isinstance(value, str)
    }


def reason_of(error: BaseException) -> str:
    """Say in a few words why a connection could not be made or was lost; never the password."""
    for cause in _causes(error):
        text = _explain(cause)
        if text:
            return text
    return _one_line(f"{type(error).__name__} {error}")


def _parameters(url: str, settings: BrokerSettings, name: str) -> Any:
    if urlsplit(url).scheme not in {"amqp", "amqps"}:
        raise ValueError(f"expected broker URL to be amqp(s)://…, got: {without_password(url)!r}")
    try:
        parameters = pika.URLParameters(url)
    except Exception as error:
        shown = without_password(url)
        raise ValueError(f"expected broker URL to be amqp(s)://…, got: {shown!r}") from error
    if urlsplit(url).scheme == "amqps":
        context = ssl.create_default_context(cafile=settings.ca_file)
        parameters.ssl_options = pika.SSLOptions(context, parameters.host)
    parameters.heartbeat = settings.heartbeat_seconds
    parameters.blocked_connection_timeout = settings.blocked_timeout_seconds
    parameters.socket_timeout = settings.connect_timeout_seconds
    parameters.stack_timeout = settings.connect_timeout_seconds
    parameters.connection_attempts = 1
    parameters.tcp_options = {"TCP_USER_TIMEOUT": TCP_USER_TIMEOUT_MS}
    parameters.client_properties = {"connection_name": name, "product": "warren"}
    return parameters


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk from an error of pika's to what lies under it, the deepest first."""
    nested = [*getattr(error, "exceptions", ()), getattr(error, "exception", None)]
    for inner in [*nested, *error.args]:
        if isinstance(inner, BaseException):
            yield from _causes(inner)
    yield error


def _explain(error: BaseException) -> str:  # noqa: PLR0911 - one line for each kind of refusal
    match error:
        case pika.exceptions.ProbableAuthenticationError():
            return "access refused: wrong user or password"
        case pika.exceptions.ProbableAccessDeniedError():
            return "access refused: virtual host not found, or not for this user"
        case pika.exceptions.ConnectionClosedByBroker():
            return _one_line(f"closed by the broker: {error.reply_code} {error.reply_text}")
        case ssl.SSLError():
            return _one_line(f"TLS failed: {error.reason or error}")
        case ConnectionRefusedError():
            return "connection refused: nothing listens there"
        case TimeoutError():
            return "no answer in time"
        case OSError():
            return _one_line(error.strerror or str(error))
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]

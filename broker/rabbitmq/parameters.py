"""Converts our settings to pika's."""

import re
import ssl
from typing import Any
from urllib.parse import urlsplit

import pika  # type: ignore[import-untyped]
import structlog

from warren.broker.loopback import is_loopback
from warren.broker.transport import BrokerSettings

log = structlog.get_logger()

#: How long sent bytes may stay unacknowledged before the peer counts as gone; otherwise a pulled
#: cable would be noticed only after two heartbeats.
TCP_USER_TIMEOUT_MS = 8_000


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
    """Return a URL without its password."""
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

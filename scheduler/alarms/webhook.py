"""Alarms by HTTP: one POST, to an address that was looked at, with no redirect followed."""

import http.client
import socket
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from scheduler.alarms import webhook_style
from scheduler.alarms.fuse import Fuse
from scheduler.alarms.message import Message
from scheduler.alarms.sender import SEND_SECONDS
from scheduler.alarms.webhook_url import check_webhook, may_be_reached
from sql.models import Alarm

#: How long the other side may be silent.
SILENCE_SECONDS = 10.0
_PORTS = {"http": 80, "https": 443}
_ANSWER_BYTES = 65_536
_GOOD = range(200, 300)
_REDIRECTS = range(300, 400)


class _Address(NamedTuple):
    family: int
    sockaddr: Any


class Webhook:
    """Sends each alarm in a connection of its own; `send_seconds` is the limit for all of it."""

    def __init__(self, *, send_seconds: float = SEND_SECONDS) -> None:
        self._send_seconds = send_seconds

    def send(self, alarm: Alarm, message: Message) -> None:
        """Post one alarm, or raise OSError or ValueError, whose words do not hold the URL."""
        try:
            check_webhook(alarm.target)
        except ValueError as error:
            raise ValueError("the URL may not be a webhook's") from error
        url = urlsplit(alarm.target)
        content = webhook_style.body(alarm.channel, message, alarm.id)
        try:
            with Fuse(self._send_seconds) as fuse:
                status, answer = _post(url, content, fuse.watch)
        except http.client.HTTPException as error:
            raise OSError(f"it does not speak HTTP: {type(error).__name__}") from error
        if status in _REDIRECTS:
            raise OSError(f"it answered {status}; redirects are not followed")
        if status not in _GOOD:
            raise OSError(f"it answered {status}")
        if words := webhook_style.complaint(alarm.channel, answer):
            raise OSError(words)


def _post(
    url: SplitResult, content: bytes, watch: Callable[[socket.socket], None]
) -> tuple[int, bytes]:
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
    connection = http.client.HTTPConnection(host, port, timeout=SILENCE_SECONDS)
    try:
        connection.sock = _connect(url.scheme, host, port, watch)
        headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "warren"}
        connection.request("POST", _path(url), content, headers | {"Host": _host(url)})
        answer = connection.getresponse()
        return answer.status, answer.read(_ANSWER_BYTES)
    finally:
        connection.close()


def _connect(
    scheme: str, host: str, port: int, watch: Callable[[socket.socket], None]
) -> socket.socket:
    """Connect to the first address that answers, each judged before; names are looked up once."""
    failure: OSError | None = None
    for family, sockaddr in _addresses(host, port):
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(SILENCE_SECONDS)
        try:
            watch(connection)
            connection.connect(sockaddr)
            if scheme == "https":
                return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure or OSError(f"{host} has no address")


def _addresses(host: str, port: int) -> list[_Address]:
    found = [
        _Address(family, sockaddr)
        for family, _, _, _, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]
    for address in found:
        if not may_be_reached(str(address.sockaddr[0])):
            raise OSError(f"{host} leads to {address.sockaddr[0]}, where no webhook may be")
    return found


def _path(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _host(url: SplitResult) -> str:
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    return f"{host}:{url.port}" if url.port else host

"""Connections of `warren.http`: only to addresses that are allowed, and only up to a deadline.

A name is resolved here, and the very address that was checked is connected to: what the name
resolves to a moment later does not matter.
"""

import socket
import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from warren.broker.destinations import AddressRefused, Destinations


class HttpHosts(Destinations):
    """The hosts that `warren.http` may call."""

    setting = "WARREN_HTTP_HOSTS"
    without_list = "public addresses"


class Deadline:
    """When all of an exchange must be over, `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        """Return the seconds that are left, at most `most`.

        Raises:
            httpx.ReadTimeout: none are.

        """
        self.check()
        left = self._at - time.monotonic()
        return max(left if most is None else min(left, most), 0.001)

    def check(self) -> None:
        """Raise httpx.ReadTimeout if it has passed."""
        if time.monotonic() >= self._at:
            raise httpx.ReadTimeout("the deadline has passed")


class CheckedTransport(httpx.HTTPTransport):
    """A transport without proxies that connects where the rules allow."""

    def __init__(self, trust: ssl.SSLContext, rules: HttpHosts, deadline: Deadline) -> None:
        super().__init__(verify=trust, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=trust, network_backend=_CheckedBackend(rules, deadline)
        )


class _CheckedBackend(httpcore.NetworkBackend):
    def __init__(self, rules: HttpHosts, deadline: Deadline) -> None:
        self._rules = rules
        self._deadline = deadline
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception | None = None
        for address in self._addresses(host, port):
            try:
                stream = self._plain.connect_tcp(
                    address, port, self._deadline.left(timeout), local_address, socket_options
                )
            except httpcore.NetworkError as error:
                failure = error
                continue
            self._rules.admit(host, port, str(stream.get_extra_info("server_addr")[0]))
            return _TimedStream(stream, self._deadline)
        raise failure or httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(self, *_args: Any, **_kwargs: Any) -> httpcore.NetworkStream:
        raise AddressRefused("sockets of this machine are not called")

    def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host; raises AddressRefused unless all may be called."""
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            words = getattr(error, "strerror", None) or "its name is invalid"
            raise httpcore.ConnectError(f"cannot find {host[:100]}: {words}") from None
        addresses = list(dict.fromkeys(str(info[4][0]) for info in answers))
        for address in addresses:
            self._rules.admit(host, port, address)
        return addresses


class _TimedStream(httpcore.NetworkStream):
    """A stream that no slow peer keeps open beyond the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, left)
        return _TimedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

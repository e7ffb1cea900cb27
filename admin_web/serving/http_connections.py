"""Connections to the console, with timeouts, and limits per address.

waitress closes silent connections, but would wait forever for one that sends a byte now and then or
does not read its answer; 200 of those would lock out everybody. When all places are taken, the
connection that has been idle longest is closed, of the address that has most; when none is idle,
a few extra connections serve only health checks.
"""

import contextlib
import socket
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from waitress.parser import ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask
from waitress.utilities import Error

from warren.admin_web.access.security import HEADERS, HTTPS_ONLY
from warren.admin_web.serving.held_requests import HoldableChannel, HoldableRequest

HEALTH_PATHS = frozenset({"/healthz", "/metrics"})
#: Extra connections that serve only health checks.
HEALTH_CONNECTIONS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections there may be in total, and per address; a proxy is one address.

    Connections with held requests do not count.
    """

    total: int = 200
    of_one_address: int = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """How long the console waits for a client.

    Attributes:
        head_seconds: for a request's head to arrive.
        request_seconds: for the whole request to arrive.
        answer_seconds: for an answer to be read, which may be a file of up to 60 MB.
        speed_seconds: over which a client must read `least_speed` bytes a second.
        silent_seconds: after which a client that neither sends nor reads is dropped.
        check_seconds: between two checks of all connections.

    """

    head_seconds: float = 10.0
    request_seconds: float = 40.0
    answer_seconds: float = 900.0
    speed_seconds: float = 30.0
    least_speed: int = 20_000
    silent_seconds: int = 30
    check_seconds: int = 2


class SlowRequest(Error):
    """A request that did not arrive in time."""

    code = 408
    reason = "Request Timeout"


class TooManyConnections(Error):
    """A request on an extra connection that is not a health check."""

    code = 503
    reason = "Service Unavailable"


class TimedRequest(HoldableRequest):
    """A request with the time at which it began to arrive; proxies cannot read it differently."""

    def __init__(self, adj: Any) -> None:
        super().__init__(adj)
        self.began_at = time.time()

    def parse_header(self, header_plus: bytes) -> None:
        """Parse the head; refuse what a proxy in front might read differently (RFC 9112).

        Raises:
            ParsingError: it has two lengths, so it could be taken for two requests; or no single
                host. It is answered 400, and the connection is closed.

        """
        super().parse_header(header_plus)
        is_coded = self.chunked or "TRANSFER_ENCODING" in self.headers
        if is_coded and ("CONTENT_LENGTH" in self.headers or self.version != "1.1"):
            raise ParsingError("Content-Length and Transfer-Encoding exclude each other")
        hosts = self.headers.get("HOST", "").split(",")
        if len(hosts) > 1 or (self.version == "1.1" and not hosts[0].strip()):
            raise ParsingError("expected one Host")

    def is_late(self, now: float, timeouts: ConnectionTimeouts) -> bool:
        """Return whether it should have arrived by now."""
        seconds = timeouts.request_seconds if self.headers_finished else timeouts.head_seconds
        return now - self.began_at > seconds

    def give_up(self) -> None:
        """Mark it as complete and failed."""
        if not self.headers_finished:
            self.parse_header(b"GET / HTTP/1.0\r\n")
        self.error = SlowRequest("the request did not arrive in time")
        self.completed = True


class RefusedRequest(ErrorTask):
    """Answers requests that never reach the application, with the usual headers."""

    response_headers: Any
    channel: Any

    def execute(self) -> None:
        """Write the answer."""
        self.response_headers.extend([*HEADERS.items(), ("Cache-Control", "no-store")])
        if self.channel.server.application.config["SESSION_COOKIE_SECURE"]:
            self.response_headers.append(HTTPS_ONLY)
        super().execute()


class TimedChannel(HoldableChannel):
    """A connection that is closed when its request or its reader takes too long."""

    parser_class = TimedRequest
    error_task_class = RefusedRequest
    request: TimedRequest | None
    #: Since when there have been unread bytes.
    unread_since: float | None = None
    #: Bytes read by the client, and the time and their number at the last speed check.
    fetched = 0
    speed_seen: tuple[float, int] = (0.0, 0)

    def __init__(self, server: Any, *args: Any, **kwargs: Any) -> None:
        self.is_for_health: bool = server.next_is_for_health
        super().__init__(server, *args, **kwargs)

    @property
    def path(self) -> str:
        """The requested path; empty if it could not be parsed."""
        return str(getattr(self.requests[0], "path", ""))

    @property
    def query(self) -> str:
        """What follows the `?` of the URL; empty if it could not be parsed."""
        return str(getattr(self.requests[0], "query", ""))

    @property
    def is_waiting(self) -> bool:
        """Whether it has neither a complete request nor unread bytes of an answer."""
        return not self.requests and not self.total_outbufs_len

    def service(self) -> None:
        """Answer a request; on an extra connection only health checks."""
        request = self.requests[0]
        if self.is_for_health and not request.error and self.path not in HEALTH_PATHS:
            request.error = TooManyConnections("all connections are taken; try again in a moment")
        super().service()

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send what fits, and count it: the client has read what made room for it."""
        sent = int(super().send(data, do_close))
        self.fetched += sent
        return sent

    def end_if_late(self, now: float) -> None:
        """Answer a request that does not arrive, and drop a client that does not read."""
        if self._is_left_unread(now):
            self.will_close = True
            # Otherwise the loop would not notice that this connection needs closing.
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
            return
        with self.requests_lock:
            late = self.request
            if late is None or not late.is_late(now, self.server.timeouts):
                return
            late.give_up()
            self.request = None
            self.requests.append(late)
            if len(self.requests) == 1:
                self.server.add_task(self)

    def _is_left_unread(self, now: float) -> bool:
        if not self.total_outbufs_len:
            self.unread_since = None
            return False
        if self.unread_since is None:
            self.unread_since, self.speed_seen = now, (now, self.fetched)
        is_stuck = now - self.last_activity > self.adj.channel_timeout
        is_over = now - self.unread_since > self.server.timeouts.answer_seconds
        return is_stuck or is_over or self._is_too_slow(now)

    def _is_too_slow(self, now: float) -> bool:
        since, before = self.speed_seen
        timeouts: ConnectionTimeouts = self.server.timeouts
        if now - since < timeouts.speed_seconds:
            return False
        self.speed_seen = now, self.fetched
        return self.fetched - before < timeouts.least_speed * (now - since)


class TimedServer(TcpWSGIServer):
    """The server of these connections."""

    channel_class = TimedChannel
    effective_port: int
    active_channels: Any
    trigger: Any
    #: Whether the connection that is being accepted gets an extra place.
    next_is_for_health = False

    def __init__(
        self,
        app: Any,
        channels: dict[int, Any],
        timeouts: ConnectionTimeouts,
        limits: ConnectionLimits,
        **how: Any,
    ) -> None:
        self.timeouts = timeouts
        self.limits = limits
        super().__init__(app, channels, **how)

    def add_task(self, task: Any) -> None:
        """Serve a connection's next request, or put the connection aside if it is held."""
        if task.is_next_held:
            self.trigger.pull_trigger(task.put_aside)
        else:
            super().add_task(task)

    def maintenance(self, now: Any) -> None:
        """Close silent and slow connections."""
        super().maintenance(now)
        for channel in self._channels():
            channel.end_if_late(now)

    def accept(self) -> Any:
        """Accept a connection if there is a place or one can be freed."""
        taken = super().accept()
        if taken is None:
            return None
        connection, address = taken
        if self._find_place(address[0]):
            return taken
        connection.close()
        return None

    def _find_place(self, host: str) -> bool:
        """Return whether there is room for a new connection; sets `next_is_for_health`."""
        channels = self._channels()
        usual = Counter(channel.addr[0] for channel in channels if not channel.is_for_health)
        self.next_is_for_health = usual[host] >= self.limits.of_one_address or (
            usual.total() >= self.limits.total
            and not self._close_idle(_of_busiest_host(channels, usual))
        )
        if not self.next_is_for_health:
            return True
        extra = [channel for channel in channels if channel.is_for_health]
        return len(extra) < HEALTH_CONNECTIONS or self._close_idle(extra)

    def _close_idle(self, channels: Iterable[TimedChannel]) -> bool:
        """Close the connection that has been idle longest; return False if none is idle."""
        waiting = [channel for channel in channels if channel.is_waiting]
        if not waiting:
            return False
        min(waiting, key=lambda channel: channel.last_activity).handle_close()
        return True

    def _channels(self) -> list[TimedChannel]:
        return list(self.active_channels.values())


def _of_busiest_host(channels: list[TimedChannel], usual: Counter[str]) -> Iterable[TimedChannel]:
    """Return the normal connections of the address that has the most, if one is idle."""
    waiting = Counter(
        channel.addr[0] for channel in channels if not channel.is_for_health and channel.is_waiting
    )
    most = max(waiting, key=lambda host: usual[host], default=None)
    return [
        channel for channel in channels if channel.addr[0] == most and not channel.is_for_health
    ]

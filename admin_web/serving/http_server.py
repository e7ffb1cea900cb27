"""Serves the console or the API: waitress with a bounded number of threads.

A console never slows down scheduling: it has few database connections of its own, each statement
has a time limit, and its queries are short. Slow requests of one kind do not delay others: health
checks (`/healthz` and `/metrics`) have their own pool of threads, and so have downloads of logs and
lists, which occupy a thread for as long as the client reads.

Connections have timeouts, and limits per address. waitress closes silent connections, but would
wait forever for one that sends a byte now and then or does not read its answer; 200 of those would
lock out everybody. When all places are taken, the connection that has been idle longest is closed,
of the address that has most; when none is idle, a few extra connections serve only health checks.

A request that waits needs no thread. It is queued again on its connection, as a copy. When the
copy's turn comes, the connection leaves the server's loop, which would otherwise check all of them
in each round. When it is resumed, it joins the loop again, and the copy is served like any other
request.
"""

import contextlib
import copy
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from flask import Flask
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask
from waitress.utilities import Error

from warren.admin_web.access.gate import HEADERS, HTTPS_ONLY
from warren.admin_web.api.run_answers import HELD, HOLD, HeldRequest
from warren.admin_web.downloads import is_for_file


class HoldableRequest(HTTPRequestParser):
    """A request, or the copy of a held one."""

    held: HeldRequest | None = None
    #: The WSGI environment for the application's second call.
    given: dict[str, Any] | None = None
    is_put_aside = False

    def held_copy(self, held: HeldRequest, given: dict[str, Any]) -> "HoldableRequest":
        """Return the copy that is queued while it is held; the body has been read."""
        again = copy.copy(self)
        again.body_rcv = None
        again.held, again.given, again.is_put_aside = held, given | {HELD: held}, True
        return again


class HoldingTask(WSGITask):
    """Calls the application, which may hold the request; then nothing is sent."""

    channel: Any
    request: Any
    _held: HeldRequest | None = None
    _given: dict[str, Any] | None = None

    def get_environment(self) -> dict[str, Any]:
        """Return the WSGI environment, with the function that holds the request."""
        given: dict[str, Any] = self.request.given or super().get_environment()
        self._given = dict(given)
        given[HOLD] = self._hold
        return given

    def execute(self) -> None:
        """Call the application, and queue the request again if it is held."""
        try:
            super().execute()
        except BaseException:
            if self._held is not None:
                self._held.cancel()
            raise
        if self._held is not None:
            assert self._given is not None
            self.channel.queue_next(self.request.held_copy(self._held, self._given))

    def write(self, data: bytes) -> None:
        """Send a part of the answer, unless the request is held."""
        if self._held is None:
            super().write(data)

    def _hold(self, held: HeldRequest) -> None:
        self._held = held


class HoldableChannel(HTTPChannel):
    """A connection that can be put aside and resumed."""

    task_class = HoldingTask
    # Attributes that the types of waitress omit.
    requests: Any
    requests_lock: Any
    server: Any
    socket: socket.socket
    _fileno: int

    @property
    def is_next_held(self) -> bool:
        return bool(self.requests) and bool(getattr(self.requests[0], "is_put_aside", False))

    def queue_next(self, request: HoldableRequest) -> None:
        """Queue a request right after the one that is being served."""
        with self.requests_lock:
            self.requests.insert(1, request)

    def put_aside(self) -> None:
        """Leave the loop until the request is resumed; called in the loop's thread."""
        held: HeldRequest = self.requests[0].held
        if not self.connected:
            held.cancel()
            return
        self.del_channel()
        held.begin(AsideConnection(self))

    def rejoin(self) -> None:
        """Join the loop and serve the request; called in the loop's thread."""
        self._fileno = self.socket.fileno()
        self.add_channel()
        self.requests[0].is_put_aside = False
        self.server.add_task(self)


class AsideConnection:
    """A connection that was put aside, for the thread that watches it."""

    def __init__(self, channel: HoldableChannel) -> None:
        self._channel = channel
        self._in_loop: Callable[[Callable[[], None]], None] = channel.server.trigger.pull_trigger

    def fileno(self) -> int:
        return self._channel.socket.fileno()

    def has_left(self) -> bool:
        """Return whether the client has closed it."""
        try:
            return not self._channel.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def resume(self) -> None:
        """Serve its request soon."""
        self._in_loop(self._channel.rejoin)

    def drop(self) -> None:
        """Close it soon."""
        self._in_loop(self._channel.handle_close)


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


#: Requests at a time in each pool; more are queued.
PAGE_THREADS, FILE_THREADS, HEALTH_THREADS = 6, 8, 2


class Task(Protocol):
    """A connection with a request to serve."""

    @property
    def path(self) -> str:
        """The requested path."""

    @property
    def query(self) -> str:
        """What follows the `?` of the URL."""

    @property
    def is_for_health(self) -> bool:
        """Whether its place is reserved for health checks."""

    def service(self) -> None:
        """Serve the request."""

    def cancel(self) -> None:
        """Drop the request."""


class ThreadPools:
    """The dispatcher for waitress; `pages` threads serve all but downloads and health checks."""

    def __init__(self, pages: int = PAGE_THREADS) -> None:
        self._pages = _pool(pages)
        self._files = _pool(FILE_THREADS)
        self._health = _pool(HEALTH_THREADS)

    def add_task(self, task: Task) -> None:
        """Serve a request as soon as a thread of its pool is free."""
        if task.is_for_health or task.path in HEALTH_PATHS:
            self._health.add_task(task)
        elif is_for_file(task.path, task.query):
            self._files.add_task(task)
        else:
            self._pages.add_task(task)

    def shutdown(self, *, cancel_pending: bool, timeout: float) -> None:
        """Wait up to `timeout` seconds in total for requests to finish."""
        end_at = time.monotonic() + timeout
        pools = (self._pages, self._files, self._health)
        for lane in pools:
            lane.set_thread_count(0)
        for lane in pools:
            lane.shutdown(cancel_pending, max(0.0, end_at - time.monotonic()))


def _pool(threads: int) -> Any:  # the types of waitress ask for tasks of its own class
    lane = ThreadedTaskDispatcher()
    lane.set_thread_count(threads)
    return lane


HEADER_BYTES = 32_768
#: More than a form may have, so that the application can show its own error page.
BODY_BYTES = 2_000_000
#: How long running requests may take when the server stops.
ENDING_SECONDS = 5
_BACKLOG = 128
_TIMEOUTS = ConnectionTimeouts()
_LIMITS = ConnectionLimits()


class ConsoleServer:
    """A listening socket and its threads.

    Args:
        app: the application.
        host: an address or name of this machine.
        port: 0 = any free one.
        timeouts: for clients.
        limits: on connections.
        threads: requests at a time, not counting downloads and health checks.
        body_bytes: of a request at most.

    Raises:
        OSError: the port is taken, or the address does not belong to this machine.

    """

    def __init__(
        self,
        app: Flask,
        *,
        host: str,
        port: int,
        timeouts: ConnectionTimeouts = _TIMEOUTS,
        limits: ConnectionLimits = _LIMITS,
        threads: int = PAGE_THREADS,
        body_bytes: int = BODY_BYTES,
    ) -> None:
        self._map: dict[int, Any] = {}
        self._stopping = threading.Lock()
        listener = _listen(host, port)
        adjustments = Adjustments(
            sockets=[listener],
            # Never reached: TimedServer accepts fewer. The server's own sockets count too.
            connection_limit=limits.total + HEALTH_CONNECTIONS + 10,
            channel_timeout=timeouts.silent_seconds,
            cleanup_interval=timeouts.check_seconds,
            max_request_header_size=HEADER_BYTES,
            max_request_body_size=body_bytes,
            ident="",
            # select() fails at descriptor 1,024.
            asyncore_use_poll=True,
            # The application decides which proxies to trust.
            clear_untrusted_proxy_headers=False,
        )
        pools: Any = ThreadPools(threads)
        self._server: Any = TimedServer(
            app,
            self._map,
            timeouts,
            limits,
            _sock=listener,
            dispatcher=pools,
            adj=adjustments,
            sockinfo=(listener.family, listener.type, listener.proto, listener.getsockname()),
            bind_socket=False,
        )
        self.port: int = self._server.effective_port
        self._thread = threading.Thread(target=self._server.run, name="console", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def check(self, now: float) -> None:
        """Let the server's thread drop the connections that are silent or too slow at `now`.

        It does so every `check_seconds` by itself.
        """
        self._server.trigger.pull_trigger(partial(self._server.maintenance, now))

    def stop(self) -> None:
        """Let running requests finish, then close everything."""
        if not self._thread.is_alive():
            return
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=ENDING_SECONDS)
        with self._stopping:
            self._server.trigger.pull_trigger(self._close_all)
        self._thread.join(ENDING_SECONDS)

    def _close_all(self) -> None:
        # Called in the server's own thread, which ends when no socket is left. The end of a request
        # may have woken it before `stop` does; the pipe stays open until `stop` has written to it.
        with self._stopping:
            for channel in list(self._map.values()):
                channel.close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to the first address of a host."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener

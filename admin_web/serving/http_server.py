"""Serves the console or the API: waitress with a bounded number of threads.

A console never slows down scheduling: it has few database connections of its own, each statement
has a time limit, and its queries are short. Slow requests of one kind do not delay others: health
checks (`/healthz` and `/metrics`) have their own pool of threads, and so have downloads of logs and
lists, which occupy a thread for as long as the client reads.
"""

import socket
import threading
import time
from functools import partial
from typing import Any, Protocol

from flask import Flask
from waitress.adjustments import Adjustments
from waitress.task import ThreadedTaskDispatcher

from warren.admin_web.downloads import is_for_file
from warren.admin_web.serving.http_connections import (
    HEALTH_CONNECTIONS,
    HEALTH_PATHS,
    ConnectionLimits,
    ConnectionTimeouts,
    TimedServer,
)

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
        """Start serving."""
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

"""Serves the console, or the API: waitress with a bounded number of threads.

A console is never in scheduling's way: it has a few connections of its own, each statement a time
limit, and what it reads is short.
"""

import socket
import threading
from typing import Any

from flask import Flask
from waitress.adjustments import Adjustments

from admin_web.serving.http_connections import (
    HEALTH_CONNECTIONS,
    ConnectionLimits,
    ConnectionTimeouts,
    TimedServer,
)
from admin_web.serving.thread_pools import PAGE_THREADS, ThreadPools

HEADER_BYTES = 32_768
#: Above what a form may hold: the page that says so is the application's.
BODY_BYTES = 2_000_000
#: How long requests at work may take when the console ends.
ENDING_SECONDS = 5
_BACKLOG = 128
_TIMEOUTS = ConnectionTimeouts()
_LIMITS = ConnectionLimits()


class ConsoleServer:
    """A listening socket, its threads, and their end.

    Args:
        app: what answers.
        host: an address or name of this machine.
        port: 0 = any that is free.
        timeouts: with clients.
        limits: on connections.
        threads: requests at a time, those for files and for health not counted.
        body_bytes: most bytes of a body.

    Raises:
        OSError: the port is taken, or the address is none of this machine's.

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
        listener = _listen(host, port)
        adjustments = Adjustments(
            sockets=[listener],
            # Never met, as the server lets fewer in; its own sockets count here.
            connection_limit=limits.total + HEALTH_CONNECTIONS + 10,
            channel_timeout=timeouts.silent_seconds,
            cleanup_interval=timeouts.look_seconds,
            max_request_header_size=HEADER_BYTES,
            max_request_body_size=body_bytes,
            ident="",
            # select() would end at descriptor 1,024.
            asyncore_use_poll=True,
            # Whether a proxy is believed is the application's setting.
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
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Let requests at work end, then close everything."""
        if not self._thread.is_alive():
            return
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=ENDING_SECONDS)
        self._server.trigger.pull_trigger(self._close_all)
        self._thread.join(ENDING_SECONDS)

    def _close_all(self) -> None:
        # In the server's own thread; without a socket left to watch it ends.
        for channel in list(self._map.values()):
            channel.close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a bound socket of the first address that a host has here."""
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

"""Serves the console: waitress with a bounded number of threads.

A console is never in scheduling's way: it has a few connections of its own, each statement a time
limit, and what it reads is short.
"""

import socket
import threading
from typing import Any

import structlog
from flask import Flask
from waitress.adjustments import Adjustments
from waitress.task import ThreadedTaskDispatcher

from admin_web.channels import LOOK_SECONDS, TimedServer

#: Requests at a time; more wait in line, up to CONNECTIONS.
THREADS = 6
CONNECTIONS = 200
#: A client that sends or takes nothing for so long is left.
CHANNEL_SECONDS = 30
HEADER_BYTES = 32_768
#: Above what a form may hold: the page that says so is the application's.
BODY_BYTES = 2_000_000
#: How long requests at work may take when the console ends.
ENDING_SECONDS = 5
_BACKLOG = 128

log = structlog.get_logger()


class ConsoleServer:
    """A listening socket, its threads, and their end.

    Args:
        app: what answers.
        host: an address or name of this machine.
        port: 0 = any that is free.

    Raises:
        OSError: the port is taken, or the address is none of this machine's.

    """

    def __init__(self, app: Flask, *, host: str, port: int) -> None:
        self._map: dict[int, Any] = {}
        listener = _listen(host, port)
        limits = Adjustments(
            sockets=[listener],
            connection_limit=CONNECTIONS,
            channel_timeout=CHANNEL_SECONDS,
            cleanup_interval=LOOK_SECONDS,
            max_request_header_size=HEADER_BYTES,
            max_request_body_size=BODY_BYTES,
            ident="",
            # Whether a proxy is believed is the application's setting.
            clear_untrusted_proxy_headers=False,
        )
        threads = ThreadedTaskDispatcher()
        threads.set_thread_count(THREADS)
        self._server: Any = TimedServer(
            app,
            self._map,
            _sock=listener,
            dispatcher=threads,
            adj=limits,
            sockinfo=(listener.family, listener.type, listener.proto, listener.getsockname()),
            bind_socket=False,
        )
        self.port: int = self._server.effective_port
        self._thread = threading.Thread(target=self._server.run, name="console", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        log.info("console_started", port=self.port)

    def stop(self) -> None:
        """Let requests at work end, then close everything."""
        if not self._thread.is_alive():
            return
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=ENDING_SECONDS)
        self._server.trigger.pull_trigger(self._close_all)
        self._thread.join(ENDING_SECONDS)
        log.info("console_stopped")

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

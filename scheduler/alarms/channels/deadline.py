"""A limit on the total time of a connection to an unknown server.

A socket's own timeout counts from byte to byte: a server that sends one every few seconds would
block the thread forever.
"""

import socket
import threading
from contextlib import suppress
from typing import Self


class Deadline:
    """Cuts the connections it watches after `seconds`, and raises TimeoutError."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._watched: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self.is_over = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._timer.cancel()
        with self._lock:
            for connection in self._watched:
                connection.close()
            self._watched.clear()
            if self.is_over:
                raise TimeoutError(f"it took longer than {self._seconds:g} s") from error

    def watch(self, connection: socket.socket) -> None:
        """Watch a connection; with TLS, pass the underlying socket before the handshake."""
        with self._lock:
            # A second descriptor, because TLS takes over the first; shutdown works on both.
            self._watched.append(connection.dup())
            if self.is_over:
                self._cut()

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            self._cut()

    def _cut(self) -> None:
        for connection in self._watched:
            with suppress(OSError):  # it is already closed
                connection.shutdown(socket.SHUT_RDWR)

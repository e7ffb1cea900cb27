"""A real HTTP server on 127.0.0.1 that stores requests and gives a prepared answer."""

import json
import select
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class WebhookServer:
    """`status`, `answer` and `headers` are its answer to everything; `posts` are the requests."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.status = 200
        self.answer = b"ok"
        self.headers: dict[str, str] = {}
        self.posts: list[Any] = []
        self.bodies: list[bytes] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                hook.bodies.append(body)
                hook.posts.append(json.loads(body))
                self._answer()

            def do_GET(self) -> None:
                self._answer()

            def _answer(self) -> None:
                hook.requests.append((self.command, self.path, dict(self.headers)))
                self.send_response(hook.status)
                for name, value in hook.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(hook.answer)))
                self.end_headers()
                self.wfile.write(hook.answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = (
            f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}/hook?token=hush"
        )

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Silence:
    """A server that accepts connections and sends nothing, or one byte at a time."""

    def __init__(self, *, drip: bytes = b"") -> None:
        self._drip = drip
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.taken: list[socket.socket] = []
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        # Closing alone would not wake a thread in accept().
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(30)
        for connection in self.taken:
            connection.close()

    def waiting(self) -> list[socket.socket]:
        """Return the connections whose other end has not given up, the eldest first."""
        poll = select.poll()
        for connection in self.taken:
            poll.register(connection, select.POLLRDHUP)
        ended = {descriptor for descriptor, _ in poll.poll(0)}
        return [connection for connection in self.taken if connection.fileno() not in ended]

    def _take(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.taken.append(connection)
            if self._drip:
                threading.Thread(target=self._trickle, args=(connection,), daemon=True).start()

    def _trickle(self, connection: socket.socket) -> None:
        try:
            while not self._closed.wait(0.05):
                connection.sendall(self._drip)
        except OSError:
            return

"""A TCP proxy in front of a service, to cut, to freeze and to speak TLS."""

import select
import socket
import ssl
import threading
from contextlib import suppress
from typing import Self


class Proxy:
    """Forwards 127.0.0.1:`port` to a port of this machine; with `tls`, decrypts on the way."""

    def __init__(self, target_port: int, tls: ssl.SSLContext | None = None) -> None:
        self._target_port = target_port
        self._tls = tls
        self._server = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flow = threading.Event()
        self._flow.set()
        self._frozen: list[threading.Event] = []
        self.accepted = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        port: int = self._server.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End every connection with a reset, in the middle of whatever it carries."""
        pairs, self._pairs = self._pairs, []
        for client, target in pairs:
            for one in (client, target):
                with suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def lead_to(self, target_port: int) -> None:
        """Forward new connections to another port, and end those that stand."""
        self._target_port = target_port
        self.cut()

    def freeze(self) -> None:
        """Forward nothing on the connections that stand, as if a cable were pulled."""
        frozen, self._flow = self._flow, threading.Event()
        frozen.clear()
        self._flow.set()
        self._frozen.append(frozen)

    def thaw(self) -> None:
        """Forward everywhere again."""
        for frozen in self._frozen:
            frozen.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self.accepted += 1
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
            target = socket.create_connection(("127.0.0.1", self._target_port))
        except OSError:
            client.close()
            return
        self._pairs.append((client, target))
        with suppress(OSError, ValueError):
            self._forward(client, target)
        client.close()
        target.close()

    def _forward(self, client: socket.socket, target: socket.socket) -> None:
        flow = self._flow
        other = {client: target, target: client}
        while True:
            pending = isinstance(client, ssl.SSLSocket) and client.pending()
            ready = [client] if pending else select.select([client, target], [], [])[0]
            flow.wait()
            for one in ready:
                data = one.recv(65_536)
                if not data:
                    return
                other[one].sendall(data)

"""Many clients of an HTTP server in one process, each with a persistent connection."""

import multiprocessing
import os
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks import cpu

_PIECE = 65_536
_TIMEOUT_SECONDS = 90.0
_NICEST = 19


@dataclass(frozen=True, slots=True)
class Load:
    """Answers per second, and the median and 99th percentile of their milliseconds."""

    per_second: float
    p50: float
    p99: float
    count: int


class Connection:
    """One connection to a server, opened when needed."""

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url)
        self._where = (parts.hostname or "", parts.port or 80)
        self._head = f"Host: {self._where[0]}\r\n"
        if token:
            self._head += f"Authorization: Bearer {token}\r\n"
        self._socket: socket.socket | None = None

    def ask(self, method: str, path: str, more: str = "", json: str = "") -> tuple[int, bytes]:
        """Return status and raw bytes of an answer; `more` are lines of the request's head."""
        if self._socket is None:
            self._socket = socket.create_connection(self._where, _TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        length = f"Content-Length: {len(json)}\r\n" if method == "POST" else ""
        length += "Content-Type: application/json\r\n" if json else ""
        request = f"{method} {path} HTTP/1.1\r\n{self._head}{length}{more}\r\n{json}"
        self._socket.sendall(request.encode())
        return self._answer(self._socket)

    def close(self) -> None:
        """Close it; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _answer(self, connection: socket.socket) -> tuple[int, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more(connection)
        head, _, body = data.partition(b"\r\n\r\n")
        fields = head.lower().split(b"\r\n")
        length = next(int(one[15:]) for one in fields if one.startswith(b"content-length:"))
        while len(body) < length:
            body += self._more(connection)
        if b"connection: close" in fields:
            self.close()
        return int(head[9:12]), head + b"\r\n\r\n" + body

    def _more(self, connection: socket.socket) -> bytes:
        piece = connection.recv(_PIECE)
        if not piece:
            self.close()
            raise ConnectionResetError
        return piece


def load(ask: Sequence[Callable[[], int]], seconds: float) -> Load:
    """Let each client send requests for some seconds; return the result.

    Raises:
        AssertionError: an answer had a status other than 200 to 299.

    """
    times: list[list[float]] = [[] for _ in ask]
    wrong: set[int] = set()
    end_at = time.perf_counter() + seconds

    def work(number: int) -> None:
        while (began := time.perf_counter()) < end_at:
            status = ask[number]()
            times[number].append((time.perf_counter() - began) * 1000)
            if not 200 <= status < 300:
                wrong.add(status)

    began = time.perf_counter()
    together([lambda number=number: work(number) for number in range(len(ask))])  # type: ignore[misc]
    took = time.perf_counter() - began
    assert not wrong, f"answers with status {sorted(wrong)}"
    every = [one for part in times for one in part]
    p99 = statistics.quantiles(every, n=100, method="inclusive")[-1]
    return Load(len(every) / took, statistics.median(every), p99, len(every))


@contextmanager
def asked_meanwhile(url: str, token: str, path: str, clients: int) -> Iterator[None]:
    """Have clients read a path during the block.

    They are a process of their own that gives way to all others: elsewhere they have machines of
    their own.
    """
    process = multiprocessing.get_context("spawn").Process(
        target=_ask_on, args=(url, token, path, clients), daemon=True
    )
    process.start()
    try:
        yield
        assert process.is_alive(), "the clients have ended"
    finally:
        process.kill()
        process.join()


def _ask_on(url: str, token: str, path: str, clients: int) -> None:
    os.setsid()
    cpu.give_way(os.getpid(), _NICEST)

    def work() -> None:
        connection = Connection(url, token)
        while True:
            connection.ask("GET", path)

    together([work] * clients)


def together(work: Sequence[Callable[[], None]]) -> None:
    """Run all functions concurrently and wait for all of them."""
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

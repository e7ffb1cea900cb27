"""The console's server against clients that mean it no good: slow, large, malformed, very many.

A real server at a real port; its timeouts is short here, so that tests are.
"""

import contextlib
import itertools
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask import Flask

from tests.support.console import Clock, make_app
from tests.support.eventually import eventually
from warren.admin_web.access.gate import HEADERS
from warren.admin_web.serving import http_server
from warren.admin_web.serving.http_server import ConnectionLimits, ConnectionTimeouts, ConsoleServer
from warren.sql.engine import Database

#: Other loopback addresses stand for other people.
ATTACKER, OTHER, USER = "127.0.0.2", "127.0.0.3", "127.0.0.1"
MEGABYTE = 1_000_000
LIMITS = ConnectionLimits()
#: Seconds that no test lasts.
NEVER = 1_000_000

#: Ends what is slow soon, so that the tests do.
SHORT = ConnectionTimeouts(head_seconds=0.5, request_seconds=1.0, silent_seconds=1, check_seconds=0)


@pytest.fixture
def timeouts() -> ConnectionTimeouts:
    return ConnectionTimeouts()


@pytest.fixture
def console(app: Flask, timeouts: ConnectionTimeouts) -> Iterator[ConsoleServer]:
    console = ConsoleServer(app, host="127.0.0.1", port=0, timeouts=timeouts)
    console.start()
    yield console
    console.stop()


@pytest.fixture
def port(console: ConsoleServer) -> int:
    return console.port


class Client:
    """A connection by hand."""

    def __init__(self, port: int, source: str = USER) -> None:
        self.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=20, source_address=(source, 0)
        )

    def send(self, data: bytes) -> None:
        """Send, whether or not anybody still listens."""
        with contextlib.suppress(OSError):
            self.socket.sendall(data)

    def fetch(self, count: int) -> None:
        """Read so many bytes of an answer."""
        while count > 0:
            part = self.socket.recv(min(count, MEGABYTE))
            assert part, "the other side has closed the connection"
            count -= len(part)

    def answer(self) -> bytes:
        """Return all that comes until the other side closes."""
        found = b""
        self.socket.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            while part := self.socket.recv(65_536):
                found += part
        return found

    def status(self) -> int:
        """Return the status of the answer, 0 when the connection ends without one."""
        self.socket.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            line = self.socket.recv(65_536).partition(b"\r\n")[0].split()
            return int(line[1]) if line else 0
        return 0

    @property
    def is_held(self) -> bool:
        """Whether the other side has neither answered nor closed it."""
        self.socket.settimeout(0.001)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        except OSError:
            return False
        return False

    @property
    def is_closed(self) -> bool:
        """Whether the other side has closed it, which frees its place; reads what it answered."""
        self.socket.settimeout(0.001)
        try:
            while self.socket.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        self.socket.close()


def is_served(port: int) -> bool:
    """Whether somebody else gets a page before he has waited for long."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/login", timeout=30) as answer:
        status: int = answer.status
        return status == 200


def endless_answer(app: Flask) -> list[bool]:
    """Let a route answer without end; return a list that has an item once it was told to stop."""
    ended: list[bool] = []

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * MEGABYTE
        finally:
            ended.append(True)

    app.view_functions["health.healthz"] = lambda: app.response_class(endless())
    return ended


class TestSlow:
    @pytest.fixture
    def timeouts(self, request: pytest.FixtureRequest) -> ConnectionTimeouts:
        return replace(SHORT, **getattr(request, "param", {}))

    def test_a_head_that_does_not_end_is_answered_408(self, port: int) -> None:
        client = Client(port)
        client.send(b"GET /login HTTP/1.1\r\nHost: localhost\r\n")

        def drip() -> bool:
            client.send(b"X-A: b\r\n")
            return client.is_held

        assert drip()
        eventually(lambda: not drip(), every=0.05)

        assert client.status() == 408

    def test_a_body_that_does_not_end_is_answered_408(self, port: int) -> None:
        client = Client(port)
        client.send(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")

        def drip() -> bool:
            client.send(b"a")
            return client.is_held

        eventually(lambda: not drip(), every=0.05)

        assert client.status() == 408

    def test_who_says_nothing_is_left(self, port: int) -> None:
        client = Client(port)

        eventually(lambda: not client.is_held, every=0.05)

    def test_who_does_not_fetch_an_answer_is_left(self, app: Flask, port: int) -> None:
        ended = endless_answer(app)
        client = Client(port)
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")

        eventually(lambda: ended, every=0.05)
        client.close()

    @pytest.mark.parametrize(
        "timeouts",
        [
            pytest.param({"answer_seconds": 1.5}, id="drop-by-drop"),
            pytest.param({"speed_seconds": 1.0, "least_speed": 1_000_000_000}, id="too-slowly"),
        ],
        indirect=True,
    )
    def test_who_never_comes_to_its_end_is_left(self, app: Flask, port: int) -> None:
        ended = endless_answer(app)
        client = Client(port)
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")

        def sip() -> list[bool]:
            with contextlib.suppress(OSError):
                client.socket.recv(200_000)
            return ended

        eventually(sip, every=0.05)
        client.close()

    @pytest.mark.parametrize(
        "timeouts",
        [{"answer_seconds": NEVER, "silent_seconds": NEVER, "check_seconds": NEVER}],
        indirect=True,
    )
    def test_who_fetches_it_fast_enough_is_left_only_when_it_stops(
        self, app: Flask, console: ConsoleServer, timeouts: ConnectionTimeouts
    ) -> None:
        ended = endless_answer(app)
        client = Client(console.port)
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        checks = itertools.count(time.time(), timeouts.speed_seconds + 1)

        for _ in range(5):
            client.fetch(20 * MEGABYTE)  # more than both ends' buffers hold
            console.check(next(checks))
        client.fetch(20 * MEGABYTE)
        assert ended == []

        def is_left() -> list[bool]:
            console.check(next(checks))
            return ended

        eventually(is_left, every=0.05)
        client.close()

    def test_one_address_that_holds_all_it_can_keeps_nobody_else_out(self, port: int) -> None:
        flood = [Client(port, ATTACKER) for _ in range(LIMITS.total + 20)]
        for client in flood:
            client.send(b"GET /login HTTP/1.1\r\nX-A: ")

        assert is_served(port)
        eventually(lambda: all(client.is_closed for client in flood), every=0.1)
        again = Client(port, ATTACKER)
        again.send(b"GET /login HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert again.status() == 200


def health(port: int, source: str = USER, path: str = "/healthz") -> int:
    """Ask how the console is, and return the status of the answer."""
    client = Client(port, source)
    client.send(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    status = client.status()
    client.close()
    return status


class TestTaken:
    """No timeout is short here: what is held stays held for longer than a test lasts."""

    @pytest.fixture
    def timeouts(self) -> ConnectionTimeouts:
        return ConnectionTimeouts(head_seconds=NEVER, request_seconds=NEVER, silent_seconds=NEVER)

    def test_health_is_told_while_two_addresses_hold_all_connections(self, port: int) -> None:
        flood = [Client(port, source) for source in (ATTACKER, OTHER) for _ in range(150)]
        for client in flood:
            client.send(b"GET /login HTTP/1.1\r\nX-A: ")

        assert health(port) == health(port, ATTACKER) == 503  # of these tests: no scheduler lives
        assert health(port, path="/metrics") == 403  # of these tests: no token comes with it
        assert is_served(port)
        assert sum(client.is_held for client in flood) > LIMITS.total - 5

    def test_the_one_that_is_silent_for_longest_makes_room(self, port: int) -> None:
        flood = [Client(port, ATTACKER) for _ in range(LIMITS.of_one_address)]
        kept = [Client(port, OTHER) for _ in range(LIMITS.total - len(flood))]
        for client in (*flood, *kept):
            client.send(b"GET /login HTTP/1.1\r\nX-A: ")
        assert all(client.is_held for client in (*flood, *kept))

        assert is_served(port)

        assert [client.is_held for client in flood] == [False] + [True] * (len(flood) - 1)
        assert all(client.is_held for client in kept)

    def at_work(self, port: int, request: bytes) -> Client | None:
        """Return a connection whose request was read before the next one knocked, else None."""
        client = Client(port)
        client.send(request)
        assert health(port) == 503
        return client if client.is_held else None

    def test_health_is_told_while_every_page_waits_and_all_connections_are_at_work(
        self, app: Flask, port: int
    ) -> None:
        gate, waiting = threading.Event(), []

        def wait() -> str:
            waiting.append(True)
            return "late" if gate.wait(60) else ""

        app.view_functions["sign_in.login"] = wait
        whole = b"GET /login HTTP/1.0\r\nHost: localhost\r\n\r\n"
        usual = [Client(port, ATTACKER) for _ in range(LIMITS.of_one_address)]
        usual += [Client(port, OTHER) for _ in range(LIMITS.total - len(usual) - 1)]
        for client in usual:
            client.send(whole)
        assert health(port) == 503  # of these tests: no scheduler lives; and all others are read
        last = eventually(lambda: self.at_work(port, whole))  # has the last usual place
        late = [Client(port) for _ in range(20)]
        for client in late:
            client.send(whole)

        assert all(b"all connections are taken" in client.answer() for client in late)
        assert last.is_held
        assert health(port) == 503
        assert len(waiting) == http_server.PAGE_THREADS
        gate.set()
        assert [client.status() for client in usual] == [200] * len(usual)


class TestAmbiguous:
    """What a proxy in front might read as another request, or as one for another host."""

    @pytest.mark.parametrize(
        "head",
        [
            (
                "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
                "Transfer-Encoding: chunked\r\n"
            ),
            (
                "POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                "Content-Length: 0\r\n"
            ),
            "POST /login HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n",
            "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\n",
            "GET /login HTTP/1.1\r\n",
            "GET /login HTTP/1.1\r\nHost:\r\n",
            "GET /login HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n",
        ],
    )
    def test_it_is_refused_once_and_the_connection_closed(self, port: int, head: str) -> None:
        client = Client(port)
        smuggled = "0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

        client.send(f"{head}\r\n{smuggled}".encode())

        answer = client.answer()
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
        assert answer.count(b"HTTP/1.") == 1


class TestLarge:
    def test_a_hundred_megabytes_are_refused_before_they_are_read(self, port: int) -> None:
        size = 100 * MEGABYTE
        head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        client = Client(port)
        client.send(head.encode())

        assert client.status() == 413
        assert is_served(port)

    def test_so_are_those_that_do_not_say_their_size(self, port: int) -> None:
        client = Client(port)
        client.send(
            b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        client.socket.settimeout(20)
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 100 * MEGABYTE:
                client.socket.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                sent += 0x10000

        assert sent < 20 * MEGABYTE
        assert is_served(port)

    def test_a_form_above_its_bound_gets_the_consoles_own_page(self, port: int) -> None:
        size = MEGABYTE + 500_000
        head = (
            f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n"
        )
        client = Client(port)
        client.send(head.encode() + b"a" * size)

        answer = client.answer()

        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"Request too large" in answer

    def test_ten_thousand_arguments_are_refused(self, port: int) -> None:
        short = "&".join("a" for _ in range(10_000))
        long = "&".join(f"a{number}=1" for number in range(10_000))
        found = []
        for query in (short, long):
            client = Client(port)
            client.send(f"GET /login?{query} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            found.append(client.status())

        assert found == [400, 431]
        assert is_served(port)


class TestMalformed:
    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
            (b"GET\r\n\r\n", 400),
            (b"GET /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
            (b"GET /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400),
            (b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
            (b"GET /login HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400),
            (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
            (b"GET /login HTTP/1.1\r\nHost : localhost\r\nA\x00: b\r\n\r\n", 400),
        ],
    )
    def test_it_is_refused_with_the_headers_of_every_answer(
        self, port: int, request_bytes: bytes, status: int
    ) -> None:
        client = Client(port)
        client.send(request_bytes)
        with contextlib.suppress(OSError):  # it may have answered and left already
            client.socket.shutdown(socket.SHUT_WR)

        answer = client.answer().decode("latin-1")

        head, _, body = answer.partition("\r\n\r\n")
        assert head.split()[1] == str(status)
        for name, value in HEADERS.items():
            assert f"{name}: {value}".lower() in head.lower()
        assert "no-store" in head
        assert "Strict-Transport-Security" not in head
        assert "waitress" not in answer.lower()
        assert "Traceback" not in body

    def test_with_https_it_says_so(self, database: Database, clock: Clock) -> None:
        app = make_app(database, clock, console_url="https://jobs.example.com")
        console = ConsoleServer(app, host="127.0.0.1", port=0)
        console.start()
        client = Client(console.port)
        client.send(b"GET\r\n\r\n")

        answer = client.answer()

        console.stop()
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert b"Strict-Transport-Security: max-age=" in answer


def test_a_server_that_is_woken_before_it_is_told_to_stop_stops_all_the_same(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = ConsoleServer(app, host="127.0.0.1", port=0)
    console.start()
    wake = console._server.trigger._physical_pull

    def wake_late() -> None:
        wake()  # as the end of a request does
        console._thread.join(0.2)
        wake()

    monkeypatch.setattr(console._server.trigger, "_physical_pull", wake_late)

    console.stop()

    assert not console._thread.is_alive()

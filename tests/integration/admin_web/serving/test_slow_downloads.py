"""Lists that are downloaded slowly from a real server: nobody waits for a page because of them."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest
from flask import Flask

from tests.support.console import add_user, signed_in
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import PAGE_THREADS, ConsoleServer
from warren.sql.accounts.users import Role
from warren.sql.engine import Database

#: More than the server keeps for a client that does not read, and the sockets hold.
JOBS, PARAM_BYTES = 500, 60_000


class SlowReader:
    """A client that asks for a list as a file and reads only its first bytes."""

    def __init__(self, port: int, cookie: str, path: str) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._socket.settimeout(30)
        self._socket.connect(("127.0.0.1", port))
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: warren={cookie}\r\n\r\n"
        self._socket.sendall(head.encode())

    def status(self) -> int:
        """Return the status of the answer when it begins."""
        return int(self._socket.recv(100).split()[1])

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def readers(database: Database) -> list[str]:
    """As many users as the server has threads for pages."""
    names = [f"reader-{number}" for number in range(PAGE_THREADS)]
    for name in names:
        add_user(database, name, Role.VIEWER, "reports")
    return names


@pytest.fixture
def long_list(database: Database) -> None:
    rows = Rows(database.url.render_as_string(hide_password=False))
    rows.jobs(JOBS, param="x" * PARAM_BYTES)
    rows.database.close()


@pytest.fixture
def port(app: Flask) -> Iterator[int]:
    console = ConsoleServer(app, host="127.0.0.1", port=0)
    console.start()
    yield int(console.port)
    console.stop()


@pytest.mark.usefixtures("long_list")
@pytest.mark.parametrize("query", ["format=csv", "format=json", "form%61t=js%6Fn"])
def test_pages_are_answered_while_many_users_read_long_lists_slowly(
    app: Flask, readers: list[str], port: int, query: str
) -> None:
    cookies = [signed_in(app, name).cookie() for name in readers]
    clients = [SlowReader(port, cookie, f"/jobs?{query}") for cookie in cookies]

    assert [client.status() for client in clients] == [200] * PAGE_THREADS
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/login", timeout=10) as page:
        assert page.status == 200
    for client in clients:
        client.close()


@pytest.mark.usefixtures("long_list")
def test_a_user_who_stops_reading_a_list_may_ask_for_another(app: Flask, port: int) -> None:
    cookie = signed_in(app, "admin").cookie()
    first = SlowReader(port, cookie, "/jobs?format=csv")
    assert first.status() == 200

    refused = SlowReader(port, cookie, "/jobs?format=csv")
    assert refused.status() == 429
    first.close()

    def is_admitted() -> bool:
        again = SlowReader(port, cookie, "/runs?format=csv")
        status = again.status()
        again.close()
        return status == 200

    eventually(is_admitted)
    refused.close()

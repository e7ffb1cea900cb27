"""Requests that wait for a run, at a real server: they take no thread, and each gets its answer."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from flask import Flask

from tests.support.acting import NamedUsers, acting
from tests.support.api import BASE, MANY, make_api, make_token
from tests.support.console import Clock
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren.admin_web.api.run_answers import LongPolling
from warren.admin_web.services import ApiLimits
from warren.admin_web.serving.http_server import ConnectionLimits, ConsoleServer
from warren.sql.accounts import tokens
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.models import Run

#: More than would ever be served if each took a thread.
CROWD = 300
THREADS = 3
SECONDS = 60.0


class Caller:
    """A program with a connection that it keeps."""

    def __init__(self, port: int, token: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\n"
        self._received = b""

    def send(self, path: str, wait: str = "", method: str = "GET") -> None:
        """Ask without looking for an answer."""
        more = f"Prefer: wait={wait}\r\n" if wait else ""
        more += "Content-Length: 0\r\n" if method == "POST" else ""
        self._socket.sendall(f"{method} {BASE}{path} HTTP/1.1\r\n{self._head}{more}\r\n".encode())

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and body of the next answer."""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        length = int(headers["content-length"])
        while len(self._received) < length:
            self._receive()
        body, self._received = self._received[:length], self._received[length:]
        return int(lines[0].split()[1]), headers, msgspec.json.decode(body)

    def ask(self, path: str, wait: str = "", method: str = "GET") -> Any:
        """Return the answer's status, headers and body."""
        self.send(path, wait, method)
        return self.answer()

    def leave(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive(self) -> None:
        piece = self._socket.recv(65_536)
        assert piece, "the connection was closed"
        self._received += piece


@pytest.fixture
def limits() -> ApiLimits:
    return MANY


@pytest.fixture
def api(database: Database, clock: Clock, limits: ApiLimits) -> Flask:
    return make_api(database, clock, limits=limits)


@pytest.fixture
def polling(api: Flask) -> LongPolling:
    found: LongPolling = api.extensions["warren_polling"]
    return found


@pytest.fixture
def server(api: Flask) -> Iterator[ConsoleServer]:
    server = ConsoleServer(
        api,
        host="127.0.0.1",
        port=0,
        threads=THREADS,
        limits=ConnectionLimits(total=400, of_one_address=400),
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture
def caller(server: ConsoleServer, database: Database, clock: Clock) -> Callable[..., Caller]:
    tokens: dict[str, str] = {}

    def make(owner: str = "admin") -> Caller:
        if owner not in tokens:
            tokens[owner] = make_token(database, clock, owner)
        return Caller(server.port, tokens[owner])

    return make


@pytest.fixture
def run(rows: Rows, clock: Clock) -> int:
    return rows.run(rows.job("nightly"), clock.now)


def held(polling: LongPolling, count: int) -> None:
    eventually(lambda: polling.count == count, SECONDS)


def test_hundreds_wait_while_others_are_served_and_all_hear_the_end(
    caller: Callable[..., Caller], polling: LongPolling, rows: Rows, run: int
) -> None:
    crowd = [caller() for _ in range(CROWD)]
    for one in crowd:
        one.send(f"/runs/{run}", "60")
    held(polling, CROWD)

    other = caller()
    reads = [other.ask(f"/runs/{run}")[0] for _ in range(20)]
    rows.set_run(run, status="SUCCEEDED")
    answers = [one.answer() for one in crowd]

    assert reads == [200] * 20
    assert {status for status, _, _ in answers} == {200}
    assert {body["tick"]["status"] for _, _, body in answers} == {"SUCCEEDED"}
    assert {headers["preference-applied"] for _, headers, _ in answers} == {"wait=60"}
    held(polling, 0)


def test_a_trigger_that_waits_makes_one_run_and_tells_how_its_whole_tick_ended(
    caller: Callable[..., Caller], polling: LongPolling, rows: Rows
) -> None:
    job_id = rows.job("nightly")
    one = caller()
    one.send("/jobs/reports/nightly/runs", "60", "POST")
    held(polling, 1)
    first = rows.newest_run(job_id)
    rows.set_run(first, status="RUNNING")
    rows.end_and_retry(first)
    rows.set_run(rows.newest_run(job_id), status="SUCCEEDED")

    status, headers, body = one.answer()

    assert (status, headers["location"]) == (200, f"{BASE}/runs/{first}".lower())
    assert (body["id"], body["status"], body["tick"]["status"]) == (first, "FAILED", "SUCCEEDED")
    assert len(body["tick"]["run_ids"]) == 2


def test_who_waits_for_lines_of_a_log_is_told_that_it_was_held(
    caller: Callable[..., Caller], run: int, rows: Rows, polling: LongPolling
) -> None:
    one = caller()
    one.send(f"/runs/{run}/log", "60")
    held(polling, 1)
    rows.set_run(run, status="SUCCEEDED")

    status, headers, _ = one.answer()

    assert (status, headers["preference-applied"]) == (200, "wait=60")


def test_who_has_waited_long_enough_is_told_how_it_stands(
    caller: Callable[..., Caller], run: int
) -> None:
    status, headers, body = caller().ask(f"/runs/{run}", "1")

    assert (status, headers["preference-applied"]) == (200, "wait=1")
    assert body["tick"]["is_over"] is False


def test_a_connection_is_of_use_after_it_has_waited(
    caller: Callable[..., Caller], polling: LongPolling, rows: Rows, run: int
) -> None:
    one = caller()
    for _ in range(2):
        one.send(f"/runs/{run}", "60")
        held(polling, 1)
        one.send("/jobs")  # comes before its time, and is answered in turn
        rows.set_run(run, status="SUCCEEDED")

        assert one.answer()[2]["status"] == "SUCCEEDED"
        assert "items" in one.answer()[2]
        rows.set_run(run, status="PLANNED")


def test_a_client_that_goes_away_frees_its_place(
    caller: Callable[..., Caller], polling: LongPolling, run: int
) -> None:
    crowd = [caller() for _ in range(10)]
    for one in crowd:
        one.send(f"/runs/{run}", "60")
    held(polling, 10)

    for one in crowd[:7]:
        one.leave()

    held(polling, 3)


class TestFewPlaces:
    @pytest.fixture
    def limits(self) -> ApiLimits:
        return ApiLimits(waiting=3, waiting_of_user=2)

    def test_who_finds_no_place_is_answered_at_once_and_nobody_takes_all(
        self, caller: Callable[..., Caller], polling: LongPolling, run: int
    ) -> None:
        eager = [caller(), caller()]
        for count, one in enumerate(eager, 1):
            one.send(f"/runs/{run}", "60")
            held(polling, count)

        one_too_many = caller().ask(f"/runs/{run}", "60")
        another = caller("operator")
        another.send(f"/runs/{run}", "60")
        held(polling, 3)
        full = caller("viewer").ask(f"/runs/{run}", "60")

        for status, headers, _ in (one_too_many, full):
            assert status == 200
            assert "preference-applied" not in headers


def test_a_server_that_ends_answers_all_that_wait(
    caller: Callable[..., Caller], polling: LongPolling, server: ConsoleServer, run: int
) -> None:
    crowd = [caller() for _ in range(50)]
    for one in crowd:
        one.send(f"/runs/{run}", "60")
    held(polling, 50)

    assert polling.stop(SECONDS)
    late = caller().ask(f"/runs/{run}", "60")
    server.stop()

    assert {one.answer()[2]["status"] for one in crowd} == {"PLANNED"}
    assert late[2]["status"] == "PLANNED"


def test_who_waits_for_lines_of_a_log_is_answered_when_the_run_has_ended(
    caller: Callable[..., Caller], polling: LongPolling, rows: Rows, run: int
) -> None:
    one, impatient = caller(), caller()
    one.send(f"/runs/{run}/log", "60")
    held(polling, 1)

    assert impatient.ask(f"/runs/{run}/log", "2")[2]["is_end"] is False
    rows.set_run(run, status="FAILED", log_tail="the last line\n")

    assert one.answer()[2]["text"] == "the last line\n"


def test_a_run_that_is_deleted_while_somebody_waits_is_unknown(
    caller: Callable[..., Caller], polling: LongPolling, rows: Rows, run: int
) -> None:
    one = caller()
    one.send(f"/runs/{run}", "60")
    held(polling, 1)

    rows.database.write(lambda session: session.delete(session.get_one(Run, run)))

    assert one.answer()[0] == 404
    held(polling, 0)


@pytest.mark.parametrize("path", ["/runs/{}", "/runs/{}/log"])
def test_who_waits_with_a_token_that_is_revoked_hears_nothing_of_the_run(
    caller: Callable[..., Caller], polling: LongPolling, rows: Rows, run: int, path: str
) -> None:
    one = caller()
    one.send(path.format(run), "60")
    held(polling, 1)

    [listed] = rows.database.read(tokens.listing)
    acting(rows.database).tokens.revoke(listed.token.id)
    rows.set_run(run, status="SUCCEEDED", message="a secret")

    status, _, body = one.answer()
    assert (status, body["detail"]) == (401, "the token was revoked")
    held(polling, 0)


def test_who_waits_for_a_run_of_an_app_that_is_withdrawn_meanwhile_finds_no_run(
    caller: Callable[..., Caller], polling: LongPolling, rows: Rows, run: int
) -> None:
    one = caller("operator")
    one.send(f"/runs/{run}", "60")
    held(polling, 1)

    NamedUsers(rows.database, who="cli").set_rights(
        "operator", role=Role.OPERATOR, app_names=["mails"]
    )
    rows.set_run(run, status="SUCCEEDED", message="a secret")

    assert one.answer()[0] == 404
    held(polling, 0)

"""The gateway's port and thread: what executors are answered, and how it ends."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

import pytest
from structlog.testing import capture_logs

from tests.support.ports import free_port
from warren.executor.gateway.allow_list import AccessTokens
from warren.executor.gateway.gateway import Gateway
from warren.executor.gateway.protocol import BadRequest, NotRecorded

TOKEN = "a-token-of-one-app"
REGISTRATION = {
    "registryGroup": "EXECUTOR",
    "registryKey": "demo",
    "registryValue": "http://jobs:9999",
}


class ScriptedRemotes:
    """Stands in for `Remotes`: raises what a test has put here."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.tick_failure: Exception | None = None
        self.calls = 0
        self.registered: list[tuple[str, str]] = []
        self.signed_off: list[tuple[str, str]] = []
        self.was_closed = False
        self.is_empty = True

    async def restore(self) -> None:
        """Nothing was served before."""

    async def register(self, app: str, url: str, _appname: str) -> None:
        self._fail()
        self.registered.append((app, url))

    async def sign_off(self, app: str, url: str, *, is_passed_on: bool) -> None:
        assert not is_passed_on
        self._fail()
        self.signed_off.append((app, url))

    async def call_back(self, *_: object) -> None:
        self._fail()

    async def end(self) -> None:
        """There are no connections to end."""

    def run_round(self) -> None:
        if self.tick_failure is not None:
            raise self.tick_failure

    def close(self, *, hurry: bool) -> None:
        self.was_closed = not hurry

    def _fail(self) -> None:
        self.calls += 1
        if self.failure is not None:
            raise self.failure


class Case:
    def __init__(self, body_seconds: float = 60) -> None:
        self.remotes = ScriptedRemotes()
        self.port = free_port()
        tokens = AccessTokens.parse(f"demo: {TOKEN}")
        self.gateway = Gateway(
            "127.0.0.1",
            self.port,
            tokens=tokens,
            remotes=self.remotes,  # type: ignore[arg-type]
            body_seconds=body_seconds,
        )

    def call(
        self, name: str, body: Any, token: str = TOKEN, appname: str = ""
    ) -> tuple[int, str | None]:
        request = Request(f"http://127.0.0.1:{self.port}/api/{name}", json.dumps(body).encode())
        request.add_header("XXL-JOB-ACCESS-TOKEN", token)
        request.add_header("XXL-JOB-APPNAME", appname)
        with urlopen(request, timeout=90) as response:
            reply = json.load(response)
        return reply["code"], reply["msg"]

    def send(self, request: str) -> bytes:
        """Send something that need not be HTTP, and return what came back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request.encode("latin-1"))
            return connection.recv(65_536)


@contextmanager
def started(case: Case) -> Iterator[Case]:
    case.gateway.start()
    try:
        yield case
    finally:
        case.gateway.stop(hurry=True)
        assert case.gateway.join(60)


@pytest.fixture
def case() -> Iterator[Case]:
    with started(Case()) as case:
        yield case


def test_executor_registers(case: Case) -> None:
    assert case.call("registry", REGISTRATION) == (200, None)
    assert case.remotes.registered == [("demo", "http://jobs:9999")]


def test_call_that_does_not_exist_is_refused_in_the_words_of_the_protocol(case: Case) -> None:
    code, words = case.call("beat", {})

    assert code == 500
    assert words == "there is no such call; expected registry, registryRemove or callback"


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (BadRequest("not now"), "not now"),
        (KeyError("a bug"), "it failed here"),
    ],
)
def test_what_failed_is_answered_with_code_500(case: Case, failure: Exception, words: str) -> None:
    case.remotes.failure = failure

    assert case.call("callback", [{"logId": 1, "handleCode": 200}]) == (500, words)


def test_result_that_is_not_recorded_is_not_answered_so_that_it_comes_again(case: Case) -> None:
    case.remotes.failure = NotRecorded("call back again")
    result = [{"logId": 1, "handleCode": 200}]

    with capture_logs() as logged, pytest.raises(ConnectionError):
        case.call("callback", result)
    case.remotes.failure = None

    assert case.call("callback", result) == (200, None)
    assert [(line["event"], line["why"]) for line in logged] == [
        ("remote_request_refused", "call back again")
    ]


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("another-token-here", "the access token is wrong"),
        ("t\xfcken-of-one-app", "the access token is wrong"),
        ("", "XXL-JOB-ACCESS-TOKEN to have the app's access token, it is empty"),
        ("default_token", "default_token is refused: everybody knows it"),
    ],
)
@pytest.mark.parametrize("call", ["registry", "registryRemove", "callback"])
def test_wrong_token_is_refused(case: Case, call: str, token: str, words: str) -> None:
    code, problem = case.call(call, REGISTRATION, token)

    assert code == 500
    assert str(problem).endswith(words)
    assert case.remotes.calls == 0


@pytest.mark.parametrize(
    ("call", "body", "words"),
    [
        ("registry", {"registryGroup": "EXECUTOR"}, "missing required field `registryKey`"),
        ("registry", REGISTRATION | {"registryKey": 5}, "Expected `str`, got `int`"),
        ("registry", REGISTRATION | {"registryValue": None}, "Expected `str`, got `null`"),
        ("registry", [REGISTRATION], "Expected `object`, got `array`"),
        ("registry", REGISTRATION | {"registryKey": "x" * 65_536}, "larger than 65,536 bytes"),
        ("registry", REGISTRATION | {"registryKey": "other"}, "is not that of app other"),
        ("registryRemove", REGISTRATION | {"registryKey": "other"}, "is not that of app other"),
        ("registryRemove", REGISTRATION | {"registryGroup": "ADMIN"}, "expected registryGroup"),
        ("callback", {"logId": 1}, "missing required field `callbackList`"),
        ("callback", [{"logId": "1"}], "Expected `int`, got `str` - at `$[0].logId`"),
        ("callback", [{"logId": 1, "handleCode": "200"}], "got `str` - at `$[0].handleCode`"),
        ("callback", ["x" * 67_108_864], "the request is larger than 67,108,864 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_malformed_request_is_refused_by_what_is_wrong(
    case: Case, call: str, body: Any, words: str
) -> None:
    code, problem = case.call(call, body)

    assert code == 500
    assert words in str(problem)
    assert case.remotes.calls == 0


def test_body_that_is_not_as_it_says_is_refused(case: Case) -> None:
    headers = f"XXL-JOB-ACCESS-TOKEN: {TOKEN}\r\nContent-Encoding: gzip\r\nContent-Length: 4"

    answer = case.send(f"POST /api/registry HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\nnone")

    assert b'"code":500,"msg":"cannot read the request: 400, message: Can not decode' in answer


def test_what_is_no_request_of_ours_is_logged_in_a_line(case: Case) -> None:
    with capture_logs() as logged:
        answer = case.send(f"POST /api/registry HTTP/1.1\r\nX: {'x' * 9_000}\r\n\r\n")

    assert answer.startswith(b"HTTP/1.0 400 Bad Request")
    assert [line["event"] for line in logged] == ["remote_request_refused"]
    assert logged[0]["why"].startswith("400, message: Got more than 8190 bytes")
    assert case.send("\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.0 400 Bad Request")
    assert case.call("registry", REGISTRATION) == (200, None)


def test_request_of_which_a_part_does_not_come_is_refused() -> None:
    headers = f"XXL-JOB-ACCESS-TOKEN: {TOKEN}\r\nContent-Length: 40"

    with started(Case(body_seconds=1)) as case:
        answer = case.send(f"POST /api/registry HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{{")

    assert b"the request took longer than 1 s" in answer


def test_executor_signs_off(case: Case) -> None:
    assert case.call("registryRemove", REGISTRATION) == (200, None)
    assert case.remotes.signed_off == [("demo", "http://jobs:9999")]


@pytest.mark.parametrize("appname", ["\xff", "x" * 256])
def test_name_that_cannot_be_sent_back_is_refused(case: Case, appname: str) -> None:
    refused = (500, "expected the header XXL-JOB-APPNAME to be an app's name")

    assert case.call("registry", REGISTRATION, appname=appname) == refused
    assert case.remotes.registered == []
    assert case.call("callback", [{"logId": 1, "handleCode": 200}], appname=appname)[0] == 200


def test_ordered_end_is_no_failure(case: Case) -> None:
    case.gateway.stop(hurry=False)

    assert case.gateway.join(60)
    assert case.remotes.was_closed
    assert case.gateway.exit_status == 0


def test_thread_that_dies_is_a_failure(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    case.remotes.tick_failure = KeyError("a bug")

    assert case.gateway.join(60)
    assert case.gateway.exit_status == 1

"""The gateway's port and thread: what executors are answered, and how it ends."""

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from executor.gateway.access_tokens import AccessTokens
from executor.gateway.errors import BadRequest, NotRecorded
from executor.gateway.gateway import Gateway
from tests.support.ports import free_port

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
        self.registered: list[tuple[str, str]] = []
        self.was_closed = False
        self.is_empty = True

    async def restore(self) -> None:
        """Nothing was served before."""

    async def register(self, app: str, url: str, _appname: str) -> None:
        self._fail()
        self.registered.append((app, url))

    async def call_back(self, *_: object) -> None:
        self._fail()

    def tick(self) -> None:
        if self.tick_failure is not None:
            raise self.tick_failure

    def close(self, *, hurry: bool) -> None:
        self.was_closed = not hurry

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


class Case:
    def __init__(self) -> None:
        self.remotes = ScriptedRemotes()
        self.port = free_port()
        tokens = AccessTokens.parse(f"demo: {TOKEN}")
        self.gateway = Gateway("127.0.0.1", self.port, tokens=tokens, remotes=self.remotes)  # type: ignore[arg-type]

    def call(
        self, name: str, body: Any, token: str = TOKEN, appname: str = ""
    ) -> tuple[int, str | None]:
        request = Request(f"http://127.0.0.1:{self.port}/api/{name}", json.dumps(body).encode())
        request.add_header("XXL-JOB-ACCESS-TOKEN", token)
        request.add_header("XXL-JOB-APPNAME", appname)
        with urlopen(request, timeout=20) as response:
            reply = json.load(response)
        return reply["code"], reply["msg"]


@pytest.fixture
def case() -> Iterator[Case]:
    case = Case()
    case.gateway.start()
    yield case
    case.gateway.stop(hurry=True)
    assert case.gateway.join(20)


def test_executor_registers(case: Case) -> None:
    assert case.call("registry", REGISTRATION) == (200, None)
    assert case.remotes.registered == [("demo", "http://jobs:9999")]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (NotRecorded("call back again"), "call back again"),
        (BadRequest("not now"), "not now"),
        (KeyError("a bug"), "it failed here"),
    ],
)
def test_what_failed_is_answered_with_code_500(case: Case, failure: Exception, words: str) -> None:
    case.remotes.failure = failure

    assert case.call("callback", [{"logId": 1, "handleCode": 200}]) == (500, words)


def test_wrong_token_is_refused(case: Case) -> None:
    assert case.call("registry", REGISTRATION, "another-token-here")[0] == 500
    assert case.remotes.registered == []


@pytest.mark.parametrize("appname", ["\xff", "x" * 256])
def test_name_that_cannot_be_sent_back_is_refused(case: Case, appname: str) -> None:
    refused = (500, "expected the header XXL-JOB-APPNAME to be an app's name")

    assert case.call("registry", REGISTRATION, appname=appname) == refused
    assert case.remotes.registered == []
    assert case.call("callback", [{"logId": 1, "handleCode": 200}], appname=appname)[0] == 200


def test_ordered_end_is_no_failure(case: Case) -> None:
    case.gateway.stop(hurry=False)

    assert case.gateway.join(20)
    assert case.remotes.was_closed
    assert case.gateway.exit_status == 0


def test_thread_that_dies_is_a_failure(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    case.remotes.tick_failure = KeyError("a bug")

    assert case.gateway.join(20)
    assert case.gateway.exit_status == 1

"""Calls of a remote executor: what arrived, what may have, and where none may go."""

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.http_peer import OK, http, peer_with
from tests.support.ports import free_port
from warren.executor.gateway.allow_list import AllowList
from warren.executor.gateway.protocol import Answer, CallFailed, Disconnected, NotSent
from warren.executor.gateway.remote_client import ANSWER_BYTES, RemoteClient


async def call(
    url: str, allowed: str = "127.0.0.1", name: str = "", appname: str = "", **waits: float
) -> Answer:
    """Start a run at a URL that was registered while its name was allowed."""
    registered = AllowList.parse(f"{allowed},{name}" if name else allowed).check(url)
    client = RemoteClient(registered, "a-token", AllowList.parse(allowed), **waits)
    client.appname = appname
    try:
        return await client.run({"jobId": 1})
    finally:
        await client.close()


def answered(answer: bytes) -> Answer:
    async def ask() -> Answer:
        async with peer_with(answer) as peer:
            return await call(f"http://127.0.0.1:{peer.port}")

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", ["application/json", "text/html;charset=UTF-8", "text/plain"])
def test_answer_is_read_whatever_type_it_has(kind: str) -> None:
    assert answered(http(OK, headers=f"Content-Type: {kind}\r\n")) == Answer(200, "Running")


def test_call_has_the_token_in_the_headers_of_all_versions() -> None:
    async def ask() -> bytes:
        async with peer_with(http(OK)) as peer:
            await call(f"http://127.0.0.1:{peer.port}/xxl-job/")
            return peer.requests[0]

    request = asyncio.run(ask())

    assert request.startswith(b"POST /xxl-job/run HTTP/1.1\r\n")
    assert b"XXL-JOB-ACCESS-TOKEN: a-token\r\n" in request
    assert b"XXL-RPC-ACCESS-TOKEN: a-token\r\n" in request
    assert b"XXL-JOB-APPNAME" not in request
    assert request.endswith(b'{"jobId":1}')


def test_executor_of_3_5_is_called_by_its_new_path_and_its_own_name() -> None:
    async def ask() -> bytes:
        async with peer_with(http(OK)) as peer:
            await call(f"http://127.0.0.1:{peer.port}", appname="Shop_Jobs")
            return peer.requests[0]

    request = asyncio.run(ask())

    assert request.startswith(b"POST /trigger HTTP/1.1\r\n")
    assert b"XXL-JOB-APPNAME: Shop_Jobs\r\n" in request


class Keeper:
    """A server that answers so many requests on each connection, then closes it at the next one."""

    def __init__(self, most: int = 1_000) -> None:
        self.most = most
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError):
            for number in itertools.count(1):
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                await reader.readexactly(size)
                self.requests.append(head.split(b" ")[1])
                if number > self.most:
                    break
                writer.write(http(OK))
        writer.close()


def kept(
    keeper: Keeper, *calls: Callable[[RemoteClient], Awaitable[object]], **waits: float
) -> None:
    """Make calls one after another, from one client."""

    async def ask() -> None:
        server = await asyncio.start_server(keeper.serve, "127.0.0.1", 0)
        allowed = AllowList.parse("127.0.0.1")
        url = allowed.check(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        client = RemoteClient(url, "a-token", allowed, **waits)
        async with server:
            try:
                for call in calls:
                    await call(client)
            finally:
                await client.close()

    asyncio.run(ask())


class TestKeptConnections:
    def test_starts_that_follow_each_other_share_one(self) -> None:
        keeper = Keeper()

        kept(keeper, *[lambda client: client.run({"jobId": 1})] * 3, fresh_seconds=60.0)

        assert (keeper.connections, len(keeper.requests)) == (1, 3)

    def test_start_does_not_use_one_that_was_idle(self) -> None:
        keeper = Keeper()

        kept(keeper, *[lambda client: client.run({"jobId": 1})] * 3, fresh_seconds=-1.0)

        assert (keeper.connections, len(keeper.requests)) == (3, 3)

    def test_question_is_repeated_when_its_connection_is_closed(self) -> None:
        keeper = Keeper(most=1)

        kept(keeper, lambda client: client.is_alive(), lambda client: client.is_alive())

        assert (keeper.connections, len(keeper.requests)) == (2, 3)

    @pytest.mark.parametrize("name", ["run", "kill"])
    def test_start_and_kill_are_not(self, name: str) -> None:
        keeper = Keeper(most=1)
        calls = [lambda client: getattr(client, name)({"jobId": 1})] * 2

        with pytest.raises(Disconnected):
            kept(keeper, *calls, fresh_seconds=60.0)

        assert (keeper.connections, len(keeper.requests)) == (1, 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"nonsense\r\n\r\n",
        http(b"<html>"),
        http(OK, "500 Internal Server Error"),
        http(OK, "502 Bad Gateway"),
        http(OK, "202 Accepted"),
        http(b"", "204 No Content"),
        http(b" " * (ANSWER_BYTES + 1)),
        http(b"\x1f\x8b\x08\x00", headers="Content-Encoding: gzip\r\n"),
    ],
)
def test_without_a_sound_answer_it_may_have_arrived(answer: bytes) -> None:
    with pytest.raises(CallFailed) as caught:
        answered(answer)

    assert not isinstance(caught.value, NotSent)


def test_redirect_is_not_followed() -> None:
    async def ask() -> tuple[Answer, list[bytes]]:
        async with peer_with(http(OK)) as elsewhere:
            target = f"Location: http://127.0.0.1:{elsewhere.port}/run\r\n"
            async with peer_with(http(b"", "307 Temporary Redirect", target)) as peer:
                return await call(f"http://127.0.0.1:{peer.port}"), elsewhere.requests

    answer, followed = asyncio.run(ask())

    assert answer == Answer(500, "it answered HTTP status 307")
    assert followed == []


def test_refused_connection_is_a_call_that_did_not_arrive() -> None:
    with pytest.raises(NotSent, match="Connect call failed"):
        asyncio.run(call(f"http://127.0.0.1:{free_port()}"))


def test_peer_that_is_silent_may_have_heard() -> None:
    async def ask() -> None:
        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Listen until the caller hangs up, and say nothing."""
            await reader.read()
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await call(url, call_seconds=0.1)

    with pytest.raises(CallFailed, match="no answer") as caught:
        asyncio.run(ask())

    assert not isinstance(caught.value, NotSent)


def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")

    assert answered(http(OK)).is_ok


class TestNames:
    """A name is judged by all the addresses that it leads to, at each call anew."""

    def lead(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        async def resolve(
            _loop: object, _host: str, port: int, **_options: Any
        ) -> list[tuple[Any, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

        monkeypatch.setattr("asyncio.base_events.BaseEventLoop.getaddrinfo", resolve)

    def ask(self, allowed: str) -> Callable[[], Awaitable[Answer]]:
        async def ask() -> Answer:
            async with peer_with(http(OK)) as peer:
                return await call(f"http://jobs.internal:{peer.port}", allowed, "jobs.internal")

        return ask

    @pytest.mark.parametrize("allowed", ["127.0.0.0/8", "jobs.internal"])
    def test_name_that_leads_to_an_allowed_address_is_called(
        self, monkeypatch: pytest.MonkeyPatch, allowed: str
    ) -> None:
        ask = self.ask(allowed)
        self.lead(monkeypatch, "127.0.0.1")

        assert asyncio.run(ask()).is_ok  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("allowed", "addresses"),
        [
            ("10.0.0.0/8", ["127.0.0.1"]),
            ("127.0.0.0/8", ["127.0.0.1", "10.0.0.5"]),
            ("jobs.internal", ["169.254.169.254"]),
            ("jobs.internal", ["127.0.0.1", "169.254.169.254"]),
        ],
    )
    def test_name_that_leads_elsewhere_is_not(
        self, monkeypatch: pytest.MonkeyPatch, allowed: str, addresses: list[str]
    ) -> None:
        ask = self.ask(allowed)
        self.lead(monkeypatch, *addresses)

        with pytest.raises(NotSent, match=r"never called|not listed"):
            asyncio.run(ask())  # type: ignore[arg-type]

"""Calls one remote executor: a start never twice, and only at allowed addresses."""

import asyncio
import socket
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from warren.broker.destinations import AddressRefused, literal
from warren.executor.gateway import protocol
from warren.executor.gateway.allow_list import AllowList, RemoteUrl
from warren.executor.gateway.protocol import (
    Answer,
    CallFailed,
    Disconnected,
    NotSent,
)

#: How long an idle connection is kept: until the next beat, and a little longer.
KEPT_SECONDS = 7.0
ANSWER_BYTES = 1_048_576
LOG_BYTES = 8 * ANSWER_BYTES
_ACCEPTED = range(HTTPStatus.CREATED, HTTPStatus.MULTIPLE_CHOICES)
_TOKEN_HEADERS = ("XXL-JOB-ACCESS-TOKEN", "XXL-RPC-ACCESS-TOKEN")
#: Executors of 3.5 send it and expect it, and call `/run` `/trigger`; older ones ignore it.
APPNAME_HEADER = "XXL-JOB-APPNAME"


class RemoteClient:
    """Calls one remote executor from one event loop; `close` ends its connections.

    `appname` is the executor's own name for its app, if it is of 3.5; otherwise empty. It may
    change when the executor registers again.

    Calls share connections. When one is closed before the answer, it is unknown whether the call
    had arrived. So one that starts or stops a run is never repeated, and gets a connection that was
    used at most `fresh_seconds` ago, so that the executor is not just closing it, or a new one.
    Others are repeated once.

    It waits `call_seconds` for a connection and for each piece of an answer, and twice that in all.
    """

    def __init__(
        self,
        url: RemoteUrl,
        token: str,
        allowed: AllowList,
        *,
        call_seconds: float = 3.0,
        fresh_seconds: float = 1.0,
    ) -> None:
        self._call_seconds = call_seconds
        self._fresh_seconds = fresh_seconds
        self.url = url
        self.appname = ""
        self._token = token
        self._allowed = allowed
        #: By the seconds for which their idle connections are kept.
        self._sessions: dict[float, aiohttp.ClientSession] = {}

    async def run(self, order: dict[str, Any]) -> Answer:
        """Start a run; raises as `_call` does."""
        return await self._call("trigger" if self.appname else "run", order, self._fresh_seconds)

    async def kill(self, job_id: int) -> Answer:
        """Stop the run of a job; raises as `_call` does."""
        return await self._call("kill", {"jobId": job_id}, self._fresh_seconds)

    async def is_alive(self) -> bool:
        """Return whether it answers; raises as `_call` does."""
        return (await self._ask("beat", {})).is_ok

    async def is_idle(self, job_id: int) -> bool:
        """Return whether no run of a job runs or waits there; raises as `_call` does."""
        return (await self._ask("idleBeat", {"jobId": job_id})).is_ok

    async def log(self, request: dict[str, Any]) -> Answer:
        """Read lines of a log, the first of them if they are many; raises as `_call` does."""
        return await self._ask("log", request, LOG_BYTES)

    async def close(self) -> None:
        """End all connections."""
        for session in self._sessions.values():
            await session.close()

    async def _ask(
        self, name: str, body: dict[str, Any], answer_bytes: int = ANSWER_BYTES
    ) -> Answer:
        """Make a call that may arrive twice; raises as `_call` does."""
        try:
            return await self._call(name, body, KEPT_SECONDS, answer_bytes)
        except Disconnected:
            return await self._call(name, body, self._fresh_seconds, answer_bytes)

    async def _call(
        self,
        name: str,
        body: dict[str, Any],
        kept_seconds: float,
        answer_bytes: int = ANSWER_BYTES,
    ) -> Answer:
        """Make a call on a connection idle for up to `kept_seconds`, and return the answer.

        Raises:
            NotSent: it certainly did not arrive.
            Disconnected: the connection was closed before an answer came; it may have arrived.
            CallFailed: it may have arrived.

        """
        try:
            self._check_address()
            async with self._session(kept_seconds).post(
                f"{self.url.text}/{name}",
                data=msgspec.json.encode(body),
                headers={APPNAME_HEADER: self.appname} if self.appname else None,
                allow_redirects=False,
            ) as response:
                if _may_have_arrived(response.status):
                    raise CallFailed(f"it answered with HTTP status {response.status}")
                if response.status != protocol.OK:
                    return Answer(protocol.FAILED, f"it answered HTTP status {response.status}")
                answer = await _read(response, answer_bytes)
                if len(answer) <= answer_bytes:
                    return protocol.read_answer(answer)
                response.close()
                if name == "log":
                    return await asyncio.to_thread(protocol.read_cut_log, answer)
                raise CallFailed(f"its answer is larger than {answer_bytes:,} bytes")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(_cause(error)) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            raise Disconnected(f"no answer: {_cause(error)}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise CallFailed(f"no answer: {_cause(error)}") from error

    def _check_address(self) -> None:
        """Check a host that is an IP address; the resolver checks the addresses of a name."""
        try:
            if literal(self.url.host) is not None:
                self._allowed.admit(self.url.host, self.url.port, self.url.host)
        except AddressRefused as error:
            raise NotSent(str(error)) from error

    def _session(self, kept_seconds: float) -> aiohttp.ClientSession:
        if kept_seconds not in self._sessions:
            self._sessions[kept_seconds] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=_CheckingResolver(self.url, self._allowed),
                    use_dns_cache=False,
                    keepalive_timeout=kept_seconds,
                    limit=0,
                ),
                headers={
                    **dict.fromkeys(_TOKEN_HEADERS, self._token),
                    "Content-Type": "application/json",
                    "Accept-Encoding": "identity",
                },
                timeout=aiohttp.ClientTimeout(
                    total=2 * self._call_seconds,
                    connect=self._call_seconds,
                    sock_read=self._call_seconds,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._sessions[kept_seconds]


class _CheckingResolver(AbstractResolver):
    """Resolves the host of one URL; fails if any of its addresses is not allowed."""

    def __init__(self, url: RemoteUrl, allowed: AllowList) -> None:
        self._url = url
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses to dial; raises OSError, which counts as a failed connection."""
        looked_up_all = await asyncio.get_running_loop().getaddrinfo(
            host, port, family=family, type=socket.SOCK_STREAM
        )
        addresses = [str(address[4][0]) for address in looked_up_all]
        try:
            for address in addresses:
                self._allowed.admit(self._url.host, self._url.port, address)
        except AddressRefused as error:
            raise OSError(None, str(error)) from error
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=looked_up[0],
                proto=looked_up[2],
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for looked_up, address in zip(looked_up_all, addresses, strict=True)
        ]

    async def close(self) -> None:
        """Do nothing: there is no state."""


def _may_have_arrived(status: int) -> bool:
    """Whether a status other than 200 may come from a proxy that has passed the call on."""
    return status in _ACCEPTED or status >= HTTPStatus.INTERNAL_SERVER_ERROR


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Return an answer; of one with more than `most_bytes`, only more than those."""
    body = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        body += piece
        if len(body) > most_bytes:
            break
    return bytes(body)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__

"""Calls one remote executor: never the same call twice, and only at allowed addresses."""

import asyncio
import socket
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from executor.gateway import protocol
from executor.gateway.allow_list import AllowList, RemoteUrl
from executor.gateway.errors import AddressRefused, CallFailed, NotSent
from executor.gateway.protocol import Answer

#: How long to wait for a connection, and for each piece of an answer; a whole call has twice that.
CALL_SECONDS = 3.0
ANSWER_BYTES = 1_048_576
LOG_BYTES = 8 * ANSWER_BYTES
_ACCEPTED = range(HTTPStatus.CREATED, HTTPStatus.MULTIPLE_CHOICES)
_TOKEN_HEADERS = ("XXL-JOB-ACCESS-TOKEN", "XXL-RPC-ACCESS-TOKEN")
#: Executors of 3.5 send it and expect it, and call `/run` `/trigger`; older ones ignore it.
APPNAME_HEADER = "XXL-JOB-APPNAME"


class RemoteClient:
    """Calls one remote executor from one event loop; `close` ends its session.

    `appname` is what the executor calls its app, if it is of 3.5; empty before. It may change when
    the executor registers again.

    Each call has its own connection: on one that was idle, nobody could tell whether a failed call
    had arrived.
    """

    def __init__(self, url: RemoteUrl, token: str, allowed: AllowList) -> None:
        self.url = url
        self.appname = ""
        self._token = token
        self._allowed = allowed
        self._session: aiohttp.ClientSession | None = None

    async def run(self, order: dict[str, Any]) -> Answer:
        """Start a run; raises as `_call` does."""
        return await self._call("trigger" if self.appname else "run", order)

    async def kill(self, job_id: int) -> Answer:
        """Stop the run of a job; raises as `_call` does."""
        return await self._call("kill", {"jobId": job_id})

    async def is_alive(self) -> bool:
        """Return whether it answers; raises as `_call` does."""
        return (await self._call("beat", {})).is_ok

    async def is_idle(self, job_id: int) -> bool:
        """Return whether no run of a job runs or waits there; raises as `_call` does."""
        return (await self._call("idleBeat", {"jobId": job_id})).is_ok

    async def log(self, request: dict[str, Any]) -> Answer:
        """Read lines of a log; raises as `_call` does."""
        return await self._call("log", request, LOG_BYTES)

    async def close(self) -> None:
        """End the session."""
        if self._session is not None:
            await self._session.close()

    async def _call(
        self, name: str, body: dict[str, Any], answer_bytes: int = ANSWER_BYTES
    ) -> Answer:
        """Make a call and return the answer.

        Raises:
            NotSent: it certainly did not arrive.
            CallFailed: it may have arrived.

        """
        try:
            self._check_address()
            async with self._open_session().post(
                f"{self.url.text}/{name}",
                data=msgspec.json.encode(body),
                headers={APPNAME_HEADER: self.appname} if self.appname else None,
                allow_redirects=False,
            ) as response:
                if _may_have_arrived(response.status):
                    raise CallFailed(f"it answered with HTTP status {response.status}")
                if response.status != protocol.OK:
                    return Answer(protocol.FAILED, f"it answered HTTP status {response.status}")
                return protocol.read_answer(await _read(response, answer_bytes))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(_cause(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise CallFailed(f"no answer: {_cause(error)}") from error

    def _check_address(self) -> None:
        """Check a host that is an IP address; the resolver checks the addresses of a name."""
        try:
            if self.url.host.replace(".", "").isdigit() or ":" in self.url.host:
                self._allowed.admit(self.url, self.url.host)
        except AddressRefused as error:
            raise NotSent(str(error)) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=_CheckingResolver(self.url, self._allowed),
                    use_dns_cache=False,
                    force_close=True,
                    limit=0,
                ),
                headers={
                    **dict.fromkeys(_TOKEN_HEADERS, self._token),
                    "Content-Type": "application/json",
                    "Accept-Encoding": "identity",
                },
                timeout=aiohttp.ClientTimeout(
                    total=2 * CALL_SECONDS,
                    connect=CALL_SECONDS,
                    sock_connect=CALL_SECONDS,
                    sock_read=CALL_SECONDS,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


class _CheckingResolver(AbstractResolver):
    """Resolves the host of one URL; fails if any of its addresses is not allowed."""

    def __init__(self, url: RemoteUrl, allowed: AllowList) -> None:
        self._url = url
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses to dial; raises OSError, which counts as a failed connection."""
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, family=family, type=socket.SOCK_STREAM
        )
        addresses = [str(one[4][0]) for one in found]
        try:
            for address in addresses:
                self._allowed.admit(self._url, address)
        except AddressRefused as error:
            raise OSError(None, str(error)) from error
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=one[0],
                proto=one[2],
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for one, address in zip(found, addresses, strict=True)
        ]

    async def close(self) -> None:
        """Do nothing: there is no state."""


def _may_have_arrived(status: int) -> bool:
    """Whether a status other than 200 may come from a proxy that has passed the call on."""
    return status in _ACCEPTED or status >= HTTPStatus.INTERNAL_SERVER_ERROR


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        body += piece
        if len(body) > most_bytes:
            raise CallFailed(f"its answer is larger than {most_bytes:,} bytes")
    return bytes(body)


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__

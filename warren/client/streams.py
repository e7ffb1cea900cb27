"""Sends requests over persistent connections on an event loop: HTTP/1.1, as far as needed."""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from warren.client.address import ApiAddress
from warren.client.exchange import Lost, Request, Response

#: The most connections at a time.
MAX_CONNECTIONS = 100
_HEAD_BYTES = 65_536


class BrokenAnswer(Exception):
    """The answer is not HTTP."""


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Streams:
    """The idle connections to an API, on one event loop."""

    def __init__(self, address: ApiAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._free: deque[_Connection] = deque()
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, request: Request) -> Response | Lost:
        """Send a request; return the answer, or Lost if there is none."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # those of another loop cannot be used in this one
            self._loop, self._places = loop, asyncio.Semaphore(MAX_CONNECTIONS)
            self._free.clear()
        async with self._places:
            return await self._send(request)

    async def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        while self._free:
            self._free.pop().writer.close()

    async def _send(self, request: Request) -> Response | Lost:
        is_used = bool(self._free)
        try:
            async with asyncio.timeout(self._timeout):
                connection = self._free.pop() if is_used else await self._connected()
        except OSError as error:
            return Lost(error, is_unreachable=not isinstance(error, TimeoutError))
        is_kept = False
        try:
            async with asyncio.timeout(self._timeout + request.wait_seconds):
                response = await self._exchanged(connection, request)
            is_kept = response.headers.get("connection", "").lower() != "close"
        except TimeoutError as error:
            return Lost(error, is_unreachable=False)
        except (OSError, EOFError, ValueError, BrokenAnswer) as error:
            # The server may have closed a connection that was kept.
            return await self._send(request) if is_used else Lost(error, is_unreachable=False)
        finally:
            if is_kept:
                self._free.append(connection)
            else:
                connection.writer.close()
        return response

    async def _connected(self) -> _Connection:
        address = self._address
        return _Connection(
            *await asyncio.open_connection(
                address.host, address.port, ssl=address.tls, limit=_HEAD_BYTES
            )
        )

    async def _exchanged(self, connection: _Connection, request: Request) -> Response:
        headers = self._address.headers(request)
        if request.body is not None or request.method != "GET":
            headers["Content-Length"] = str(len(request.body or b""))
        lines = [f"{request.method} {self._address.target(request)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise BrokenAnswer("expected a request without line ends in its head")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        connection.writer.write(head + (request.body or b""))
        with suppress(ConnectionError):  # an answer may come before all is sent, such as 413
            await connection.writer.drain()
        return await _answer(connection.reader)


async def _answer(reader: asyncio.StreamReader) -> Response:
    status = 100
    while status // 100 == 1:  # what comes before the answer itself
        status, headers = await _head(reader)
    if status in (204, 304):
        return Response(status, headers, b"")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Response(status, headers, await _chunks(reader))
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
        return Response(status, headers, body)
    return Response(status, headers | {"connection": "close"}, await reader.read())


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
        raise BrokenAnswer(f"expected an answer in HTTP/1.1, got: {first[:100]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return int(rest[:3]), headers


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":  # trailers
        pass
    return b"".join(parts)

"""A remote executor that answers every call in the same way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

OK = b'{"code":200,"msg":"Running"}'


class Peer:
    """A server that answers every request with the same bytes, and keeps the requests."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        self.requests.append(head + await reader.readexactly(size))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


def http(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


@asynccontextmanager
async def peer_with(answer: bytes) -> AsyncIterator[Peer]:
    peer = Peer(answer)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    async with server:
        yield peer

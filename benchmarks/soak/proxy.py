"""A TCP proxy on 127.0.0.1 whose network can be cut, slowed, reset or turned to another server."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_PIECE = 65_536
#: The option for ends of connections that are not orderly.
_NO_LINGER = struct.pack("ii", 1, 0)


class Proxy:
    """Passes connections to a port of this host, from a free `port`; in a thread of its own."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._delay_seconds = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._links: set[asyncio.Task[None]] = set()
        listening = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name=f"proxy of {target}", daemon=True
        )
        self._thread.start()
        listening.wait(10)

    def cut(self) -> None:
        """Drop all packets, silently."""
        self._call(self._open.clear)

    def slow(self, seconds: float) -> None:
        """Let each piece of data wait before it passes."""

        def be_slow() -> None:
            self._delay_seconds = seconds

        self._call(be_slow)

    def reset(self) -> None:
        """End every connection at once."""
        self._call(self._end_links)

    def turn(self, target: int) -> None:
        """Pass new connections to another port, and end the old ones."""
        if target != self._target:
            self._target = target
            self.reset()

    def heal(self) -> None:
        """Pass everything on again, at once."""
        self.slow(0.0)
        self._call(self._open.set)

    def close(self) -> None:
        """End everything."""
        self.reset()
        self._call(self._loop.stop)
        self._thread.join(10)

    def _call(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)

    def _end_links(self) -> None:
        for link in self._links:
            link.cancel()

    def _run(self, listening: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        serving = asyncio.start_server(self._accept, "127.0.0.1", 0)
        server = self._loop.run_until_complete(serving)
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        try:
            await self._open.wait()
            await self._link(reader, writer)
        except asyncio.CancelledError:
            _reset_on_close(writer)
        except OSError:
            pass  # the other side does not answer
        finally:
            self._links.discard(link)
            writer.transport.abort()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            ways = {
                asyncio.ensure_future(self._pass(reader, back)),
                asyncio.ensure_future(self._pass(there, writer)),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                _reset_on_close(back)
                raise
            finally:
                for way in ways:
                    way.cancel()
        finally:
            back.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_PIECE):
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                await self._open.wait()
                target.write(data)
                await target.drain()


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    """Make closing a connection reset it."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)

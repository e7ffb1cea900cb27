"""The gateway as a whole: its port, its thread, its orderly shutdown."""

import asyncio
import contextlib
import socket
import threading
from concurrent.futures import Future

import structlog
from aiohttp import web

from warren.executor.gateway.access_tokens import AccessTokens
from warren.executor.gateway.remotes import Remotes
from warren.executor.gateway.server import BODY_SECONDS, Server, refusal_logger

TICK_SECONDS = 0.25
#: How long open requests may take at the end.
SHUTDOWN_SECONDS = 2.0
_BACKLOG = 512

log = structlog.get_logger()


class Gateway:
    """Serves executors in a thread of its own; it can be started once.

    Executors end first. Results that arrive until then are recorded; later ones are refused, so
    that executors repeat them. A request may take `body_seconds` to arrive.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tokens: AccessTokens,
        remotes: Remotes,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._place = (host, port)
        self._remotes = remotes
        self._server = Server(tokens, remotes, body_seconds)
        self._loop = asyncio.new_event_loop()
        self._is_ending = False
        self._opened: Future[None] = Future()
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def start(self) -> None:
        """Start, and return once executors can register.

        Raises:
            OSError: the port is taken, or the host is not this machine.

        """
        self._thread.start()
        self._opened.result()

    def stop(self, *, hurry: bool) -> None:
        """Begin to end, and return at once; from any thread."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._end, hurry)

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; return whether it has ended."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def exit_status(self) -> int:
        """0 after an ordered stop, 1 if the thread has died."""
        return 1 if self._has_failed else 0

    def _run(self) -> None:
        try:
            with contextlib.closing(self._loop):
                self._loop.run_until_complete(self._serve())
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
        except Exception as error:
            if self._opened.done():
                self._has_failed = True
                raise
            self._opened.set_exception(error)

    async def _serve(self) -> None:
        # Bind the port first, but serve it only when all runs that may be called back are known.
        family = socket.AF_INET6 if ":" in self._place[0] else socket.AF_INET
        with socket.create_server(self._place, family=family, backlog=_BACKLOG) as listening:
            await self._remotes.restore()
            runner = web.AppRunner(
                self._server.application(),
                access_log=None,
                logger=refusal_logger(),
                shutdown_timeout=SHUTDOWN_SECONDS,
            )
            await runner.setup()
            await web.SockSite(runner, listening, backlog=_BACKLOG).start()
            host, port = listening.getsockname()[:2]
            log.info("gateway_started", host=host, port=port)
            self._opened.set_result(None)
            while not (self._is_ending and self._remotes.is_empty):
                self._remotes.tick()
                await asyncio.sleep(TICK_SECONDS)
            await runner.cleanup()
        log.info("gateway_stopped")

    def _end(self, hurry: bool) -> None:
        self._is_ending = True
        self._remotes.close(hurry=hurry)

"""The gateway as a whole: its port, its thread, its orderly shutdown.

Executors of XXL-JOB call it to register, to sign off and to report results.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import web

from warren.broker.destinations import AddressRefused
from warren.executor.gateway import protocol
from warren.executor.gateway.allow_list import DEFAULT_TOKEN, AccessTokens
from warren.executor.gateway.peers import (
    HANDOVER_BYTES,
    PASSED_ON_HEADER,
    SIGNATURE_HEADER,
    Signatures,
    read_handover,
)
from warren.executor.gateway.protocol import BadRequest, NotRecorded
from warren.executor.gateway.remote_client import APPNAME_HEADER
from warren.executor.gateway.remotes import Remotes

#: Where executors expect the admin: at the root, or below its web application's path.
PREFIXES = ("/api", "/xxl-job-admin/api")
REGISTRATION_BYTES = 65_536
#: A callback may contain long messages of many runs.
CALLBACK_BYTES = 67_108_864
#: The form of the name that an executor of 3.5 gives its app; it is sent back with every call.
APPNAME_LENGTH = 255
#: How long a request may take to arrive.
BODY_SECONDS = 30.0
TOKEN_HEADER = "XXL-JOB-ACCESS-TOKEN"  # noqa: S105 - its name
_FAULTS_OF_TOKENS = {
    "": f"expected the header {TOKEN_HEADER} to have the app's access token, it is empty",
    DEFAULT_TOKEN: f"{DEFAULT_TOKEN} is refused: everybody knows it",
}
_SHOWN_CHARACTERS = 200


_Serve = Callable[["_Caller", bytes], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Caller:
    """The caller of a request: the apps of its token, and its name for its app (3.5 only).

    A call may be passed on by another gateway, with its `signature`.
    """

    apps: frozenset[str]
    appname: str
    is_peer: bool
    signature: str

    def app_of(self, registration: protocol.Registration) -> str:
        """Return the app that is registered; raises BadRequest for that of another token."""
        if registration.app not in self.apps:
            raise BadRequest(f"the access token is not that of app {registration.app}")
        return registration.app


class Server:
    """Answers executors: HTTP status 200 always, and the protocol's own code.

    A result that is not recorded is not answered: the connection ends instead.
    """

    def __init__(
        self,
        tokens: AccessTokens,
        remotes: Remotes,
        signatures: Signatures,
        body_seconds: float,
    ) -> None:
        self._tokens = tokens
        self._remotes = remotes
        self._signatures = signatures
        self._body_seconds = body_seconds

    def application(self) -> web.Application:
        """Return the application that serves the protocol's paths."""
        application = web.Application(client_max_size=CALLBACK_BYTES)
        for prefix in PREFIXES:
            for name, serve, most_bytes in (
                ("registry", self._register, REGISTRATION_BYTES),
                ("registryRemove", self._sign_off, REGISTRATION_BYTES),
                ("callback", self._call_back, CALLBACK_BYTES),
                ("handover", self._inherit, HANDOVER_BYTES),
                # The last one, because it matches all other calls.
                ("{name}", _refuse_call, REGISTRATION_BYTES),
            ):
                handler = self._handler(name, serve, most_bytes)
                application.router.add_post(f"{prefix}/{name}", handler)
        return application

    def _handler(
        self, name: str, serve: _Serve, most_bytes: int
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            try:
                caller = self._caller_of(request)
                body = await _body_of(request, most_bytes, self._body_seconds)
                content = await serve(caller, body)
            except (BadRequest, NotRecorded, AddressRefused) as error:
                asked = request.match_info.get("name", name)[:_SHOWN_CHARACTERS]
                log.warning(
                    "remote_request_refused", call=asked, sender=request.remote, why=str(error)
                )
                if isinstance(error, NotRecorded) and request.transport is not None:
                    # Some clients drop a result after any answer, and send it again without one.
                    request.transport.abort()
                return _response(str(error))
            except (ConnectionError, asyncio.CancelledError):
                raise
            except Exception:
                log.exception("remote_request_failed", call=name)
                return _response("it failed here")
            return _response(content=content)

        return handle

    def _caller_of(self, request: web.Request) -> _Caller:
        token = request.headers.get(TOKEN_HEADER, "")
        apps = self._tokens.apps_of(token)
        if not apps:
            raise BadRequest(_FAULTS_OF_TOKENS.get(token, "the access token is wrong"))
        return _Caller(
            apps,
            request.headers.get(APPNAME_HEADER, ""),
            is_peer=PASSED_ON_HEADER in request.headers,
            signature=request.headers.get(SIGNATURE_HEADER, ""),
        )

    async def _register(self, caller: _Caller, body: bytes) -> bool | None:
        registration = protocol.read_registration(body)
        app = caller.app_of(registration)
        if len(caller.appname) > APPNAME_LENGTH or not caller.appname.isprintable():
            raise BadRequest(f"expected the header {APPNAME_HEADER} to be an app's name")
        if caller.is_peer:
            return self._remotes.note(app, registration.registry_value, caller.appname)
        await self._remotes.register(app, registration.registry_value, caller.appname)
        return None

    async def _sign_off(self, caller: _Caller, body: bytes) -> None:
        registration = protocol.read_registration(body)
        app = caller.app_of(registration)
        await self._remotes.sign_off(app, registration.registry_value, is_passed_on=caller.is_peer)

    async def _call_back(self, caller: _Caller, body: bytes) -> list[int] | None:
        results = protocol.read_results(body)
        if caller.is_peer:
            return await self._remotes.take_results(caller.apps, results)
        await self._remotes.call_back(caller.apps, results)
        return None

    async def _inherit(self, caller: _Caller, body: bytes) -> bool:
        """Continue an executor; without a body, only answer whether that is possible now."""
        if body:
            handover = read_handover(body)
            if handover.app not in caller.apps:
                raise BadRequest(f"the access token is not that of app {handover.app}")
            self._signatures.check(handover.app, body, caller.signature)
            await self._remotes.inherit(handover)
        return self._remotes.takes_over


async def _refuse_call(_caller: _Caller, _body: bytes) -> None:
    raise BadRequest("there is no such call; expected registry, registryRemove or callback")


async def _body_of(request: web.Request, most_bytes: int, seconds: float) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.content.iter_chunked(65_536):
                body += piece
                if len(body) > most_bytes:
                    raise BadRequest(f"the request is larger than {most_bytes:,} bytes")
    except TimeoutError:
        raise BadRequest(f"the request took longer than {seconds:g} s") from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"cannot read the request: {_words_of(error)}") from error
    return bytes(body)


def refusal_logger() -> logging.Logger:
    """Return the logger for what aiohttp refuses by itself: a line each instead of a trace."""
    logger = logging.getLogger("warren.executor.gateway.refusals")
    logger.handlers = [_RefusalHandler(logging.WARNING)]
    logger.propagate = False
    return logger


class _RefusalHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = record.getMessage() if error is None else _words_of(error)
        log.warning("remote_request_refused", why=why)


def _words_of(error: BaseException) -> str:
    """Return an error of aiohttp, whose text has several lines, in one."""
    return " ".join(str(error).split())[:_SHOWN_CHARACTERS]


def _response(problem: str = "", content: Any = None) -> web.Response:
    return web.Response(body=protocol.reply(problem, content), content_type="application/json")


ROUND_SECONDS = 0.25
#: How long open requests may take at the end.
SHUTDOWN_SECONDS = 2.0
_BACKLOG = 512

log = structlog.get_logger()


class Gateway:
    """Serves executors in a thread of its own; it can be started once.

    Executors end first, or are handed over to another gateway. Results that arrive until then are
    recorded; later ones are refused, so that executors repeat them. `signatures` are those of
    handovers; without, none is accepted. A request may take `body_seconds` to arrive.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tokens: AccessTokens,
        remotes: Remotes,
        signatures: Signatures | None = None,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._place = (host, port)
        self._remotes = remotes
        self._server = Server(tokens, remotes, signatures or Signatures({}), body_seconds)
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
                self._remotes.run_round()
                await asyncio.sleep(ROUND_SECONDS)
            await runner.cleanup()
            await self._remotes.end()
        log.info("gateway_stopped")

    def _end(self, hurry: bool) -> None:
        self._is_ending = True
        self._remotes.close(hurry=hurry)

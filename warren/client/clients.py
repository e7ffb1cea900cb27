"""The two clients: the calls of `calls`, sent over kept connections by threads or an event loop."""

import asyncio
import os
import ssl
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import urlsplit

from warren.client import calls
from warren.client.exchange import Exchange, Lost, Pause, Request, Response, Transport, repeated
from warren.resources.operation import CLOCK_HEADER
from warren.resources.runs import RunId

_PATH = "/api/v1"
#: The most connections at a time.
MAX_CONNECTIONS = 100
_HEAD_BYTES = 65_536
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class ApiAddress:
    """The address of an API, and a token for it.

    Args:
        url: such as `https://warren.example.com`, with or without `/api/v1`.
        token: as printed by `warren tokens add`.

    Raises:
        ValueError: the URL is not http(s), or the token is malformed.

    """

    url: str
    token: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected url to be an http(s) URL, got: {self.url!r}")
        token = self.token.strip()
        if not token.isascii() or not token.isprintable():
            raise ValueError("expected token to be what `warren tokens add` printed")

    @property
    def host(self) -> str:
        """The host to connect to."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port to connect to."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def origin(self) -> str:
        """The URL without path, user and password, for messages."""
        return f"{urlsplit(self.url).scheme}://{self._netloc}"

    @property
    def _netloc(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """How to encrypt; None if the URL is http."""
        return ssl.create_default_context() if urlsplit(self.url).scheme == "https" else None

    def target(self, request: Request) -> str:
        """Return the path of a request as it is sent."""
        base = urlsplit(self.url).path.rstrip("/").removesuffix(_PATH)
        return f"{base}{_PATH}{request.path}"

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of a request, without its length."""
        return {
            "Host": self._netloc,
            "Authorization": f"Bearer {self.token.strip()}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        } | dict(request.headers)


class Connections:
    """The idle connections to an API."""

    def __init__(self, address: ApiAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._lock = threading.Lock()
        self._free: deque[HTTPConnection] = deque()
        self._owner = os.getpid()

    def send(self, request: Request) -> Response | Lost:
        """Send a request; return the answer, or Lost if there is none."""
        connection = self._take()
        is_used = connection.sock is not None
        try:
            if not is_used:
                try:
                    connection.connect()
                except OSError as error:
                    return Lost(error, is_unreachable=not isinstance(error, TimeoutError))
            response = self._exchanged(connection, request)
        except TimeoutError as error:
            connection.close()
            return Lost(error, is_unreachable=False)
        except (OSError, HTTPException) as error:
            connection.close()
            # The server may have closed a connection that was kept.
            return self.send(request) if is_used else Lost(error, is_unreachable=False)
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            self._give_back(connection)
        return response

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        with self._lock:
            free, self._free = self._free, deque()
        for connection in free:
            connection.close()

    def _exchanged(self, connection: HTTPConnection, request: Request) -> Response:
        connection.timeout = self._timeout + request.wait_seconds
        connection.sock.settimeout(connection.timeout)
        target, headers = self._address.target(request), self._address.headers(request)
        with suppress(ConnectionError):  # an answer may come before all is sent, such as 413
            connection.request(request.method, target, body=request.body, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        named = {name.lower(): value for name, value in answer.headers.items()}
        return Response(answer.status, named, body)

    def _take(self) -> HTTPConnection:
        with self._lock:
            if self._owner != os.getpid():  # after a fork, they belong to the parent
                self._owner, self._free = os.getpid(), deque()
            if self._free:
                return self._free.pop()
        host, port, tls = self._address.host, self._address.port, self._address.tls
        if tls is None:
            return HTTPConnection(host, port, timeout=self._timeout)
        return HTTPSConnection(host, port, timeout=self._timeout, context=tls)

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            self._free.append(connection)


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


class _Call(Generic[P, T]):
    """A call as a method that waits for its result."""

    def __init__(self, exchange: Callable[P, Exchange[T]]) -> None:
        self._exchange = exchange
        self.__doc__ = exchange.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, T]: ...
    def __get__(self, client: "Client | None", owner: type) -> Any:
        if client is None:
            return self

        @wraps(self._exchange)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return client.complete(self._exchange(*args, **kwargs))

        return call


class _AsyncCall(Generic[P, T]):
    """A call as a method to be awaited."""

    def __init__(self, exchange: Callable[P, Exchange[T]]) -> None:
        self._exchange = exchange
        self.__doc__ = exchange.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self, client: "AsyncClient", owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: "AsyncClient | None", owner: type) -> Any:
        if client is None:
            return self

        @wraps(self._exchange)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return await client.complete(self._exchange(*args, **kwargs))

        return call


class _Configured:
    """The settings of both clients.

    Args:
        url: the API's address, such as `https://warren.example.com`, with or without `/api/v1`.
        token: as printed by `warren tokens add`.
        timeout: seconds to wait for an answer.
        retry_for: seconds for which a failed request is repeated, if it may succeed later. None =
            60, but a connection that is refused is tried three times only, within 2 s.

    Raises:
        ValueError: the URL is not http(s), or the token is malformed.

    """

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, retry_for: float | None = None
    ) -> None:
        self._address = ApiAddress(url, token)
        self._timeout = timeout
        self._retry_for = retry_for

    @classmethod
    def from_env(cls, *, timeout: float = 30.0, retry_for: float | None = None) -> Self:
        """Return a client with the settings WARREN_API_URL and WARREN_API_TOKEN.

        Raises:
            SettingsError: one of them is missing, or a setting is invalid.

        """
        # Only when asked for, as the settings load far more than a client needs.
        from warren.settings.settings import api_access, read_settings  # noqa: PLC0415

        return cls(*api_access(read_settings()), timeout=timeout, retry_for=retry_for)


class Client(_Configured):
    """Calls one API with one token; threads may share it.

        client = Client("http://127.0.0.1:8081", token)
        run = client.run("reports/nightly", param="2026-12-01")

    Connections are kept. Lost requests are sent again; each trigger has a key, so it runs once
    however often it is sent. With `waits_for_room=False`, a run that is refused because too many
    runs of its job wait is not requested again.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        retry_for: float | None = None,
        pause: Callable[[float], None] = time.sleep,
        waits_for_room: bool = True,
    ) -> None:
        super().__init__(url, token, timeout=timeout, retry_for=retry_for)
        self._transport: Transport = Connections(self._address, timeout)
        self._pause = pause
        self._waits_for_room = waits_for_room
        #: How far the database's clock is ahead of this machine's; None = not known yet.
        self._ahead_ms: int | None = None

    trigger = _Call(calls.trigger)
    trigger_all = _Call(calls.trigger_all)
    run = _Call(calls.run)
    wait = _Call(calls.wait)
    get = _Call(calls.get)
    nodes = _Call(calls.nodes)
    cancel = _Call(calls.cancel)
    reschedule = _Call(calls.reschedule)
    kill = _Call(calls.kill)
    rerun = _Call(calls.rerun)
    rerun_all = _Call(calls.rerun_all)
    clear_runs = _Call(calls.clear_runs)
    runs = _Call(calls.runs)
    skips = _Call(calls.skips)
    log = _Call(calls.log)
    jobs = _Call(calls.jobs)
    job = _Call(calls.job)
    job_overviews = _Call(calls.job_overviews)
    job_overview = _Call(calls.job_overview)
    job_scripts = _Call(calls.job_scripts)
    find_job = _Call(calls.find_job)
    start_job = _Call(calls.start_job)
    stop_job = _Call(calls.stop_job)
    delete_job = _Call(calls.delete_job)
    next_times = _Call(calls.next_times)
    follow_rules = _Call(calls.follow_rules)
    edit_jobs = _Call(calls.edit_jobs)
    undo_edit = _Call(calls.undo_edit)
    apply = _Call(calls.apply)
    check_job_files = _Call(calls.check_job_files)
    export_job_file = _Call(calls.export_job_file)
    start = _Call(calls.start)
    stop = _Call(calls.stop)
    pause = _Call(calls.pause)
    resume = _Call(calls.resume)
    executors = _Call(calls.executors)
    executor = _Call(calls.executor)
    drain_executor = _Call(calls.drain_executor)
    forget_executor = _Call(calls.forget_executor)
    schedulers = _Call(calls.schedulers)
    cluster = _Call(calls.cluster)
    pause_cluster = _Call(calls.pause_cluster)
    resume_cluster = _Call(calls.resume_cluster)
    add_app = _Call(calls.add_app)
    pause_app = _Call(calls.pause_app)
    resume_app = _Call(calls.resume_app)
    calendars = _Call(calls.calendars)
    calendar = _Call(calls.calendar)
    apply_calendars = _Call(calls.apply_calendars)
    board = _Call(calls.board)
    mute_job = _Call(calls.mute_job)
    unmute_job = _Call(calls.unmute_job)
    limits = _Call(calls.limits)
    limit = _Call(calls.limit)
    set_limit = _Call(calls.set_limit)
    delete_limit = _Call(calls.delete_limit)
    queue = _Call(calls.queue)
    report_days = _Call(calls.report_days)
    read = _Call(calls.read)
    alarms = _Call(calls.alarms)
    alarm = _Call(calls.alarm)
    send_test_alarms = _Call(calls.send_test_alarms)
    resend_alarms = _Call(calls.resend_alarms)
    dismiss_alarms = _Call(calls.dismiss_alarms)
    incidents = _Call(calls.incidents)
    incident = _Call(calls.incident)
    acknowledge_incident = _Call(calls.acknowledge_incident)
    backfill = _Call(calls.backfill)
    preview_backfill = _Call(calls.preview_backfill)
    backfills = _Call(calls.backfills)
    get_backfill = _Call(calls.get_backfill)
    backfill_due_times = _Call(calls.backfill_due_times)
    pause_backfill = _Call(calls.pause_backfill)
    resume_backfill = _Call(calls.resume_backfill)
    cancel_backfill = _Call(calls.cancel_backfill)

    def follow(self, run: RunId, *, from_line: int = 1) -> Iterator[str]:
        """Yield the lines of a run's log, without line ends, until the run is over.

        Raises:
            ApiError: as for any call; or the run is over, and nobody could return the rest of its
                log. If not a single line was found, the lines just end.

        """
        log = calls.FollowedLog(run, from_line, self._retry_for)
        while not log.is_over:
            yield from self.complete(log.more())

    def complete(self, exchange: Exchange[T]) -> T:
        """Carry out a call and return its result."""
        steps = repeated(
            exchange,
            self._retry_for,
            self._address.origin,
            waits_for_room=self._waits_for_room,
        )
        came = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Pause):
                self._pause(step.seconds)
                came = None
            else:
                came = self._transport.send(step)
                self._note_clock(came)

    def now_ms(self) -> int:
        """Return what the database's clock shows, in epoch milliseconds; asks only at first."""
        if self._ahead_ms is None:
            self.read("/")
        return _local_ms() + (self._ahead_ms or 0)

    def _note_clock(self, came: Response | Lost) -> None:
        clock = came.headers.get(CLOCK_HEADER.lower(), "") if isinstance(came, Response) else ""
        if clock.isdecimal():  # older APIs do not say it
            self._ahead_ms = int(clock) - _local_ms()

    def close(self) -> None:
        """Close the connections that are kept."""
        self._transport.close()

    def __enter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()


def _local_ms() -> int:
    return time.time_ns() // 1_000_000


class AsyncClient(_Configured):
    """Calls one API with one token, on an event loop; its calls are those of `Client`.

    async with AsyncClient("http://127.0.0.1:8081", token) as client:
        run = await client.run("reports/nightly", param="2026-12-01")
    """

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, retry_for: float | None = None
    ) -> None:
        super().__init__(url, token, timeout=timeout, retry_for=retry_for)
        self._transport = Streams(self._address, timeout)

    trigger = _AsyncCall(calls.trigger)
    trigger_all = _AsyncCall(calls.trigger_all)
    run = _AsyncCall(calls.run)
    wait = _AsyncCall(calls.wait)
    get = _AsyncCall(calls.get)
    nodes = _AsyncCall(calls.nodes)
    cancel = _AsyncCall(calls.cancel)
    reschedule = _AsyncCall(calls.reschedule)
    kill = _AsyncCall(calls.kill)
    rerun = _AsyncCall(calls.rerun)
    rerun_all = _AsyncCall(calls.rerun_all)
    clear_runs = _AsyncCall(calls.clear_runs)
    runs = _AsyncCall(calls.runs)
    skips = _AsyncCall(calls.skips)
    log = _AsyncCall(calls.log)
    jobs = _AsyncCall(calls.jobs)
    job = _AsyncCall(calls.job)
    job_overviews = _AsyncCall(calls.job_overviews)
    job_overview = _AsyncCall(calls.job_overview)
    job_scripts = _AsyncCall(calls.job_scripts)
    find_job = _AsyncCall(calls.find_job)
    start_job = _AsyncCall(calls.start_job)
    stop_job = _AsyncCall(calls.stop_job)
    delete_job = _AsyncCall(calls.delete_job)
    next_times = _AsyncCall(calls.next_times)
    follow_rules = _AsyncCall(calls.follow_rules)
    edit_jobs = _AsyncCall(calls.edit_jobs)
    undo_edit = _AsyncCall(calls.undo_edit)
    apply = _AsyncCall(calls.apply)
    check_job_files = _AsyncCall(calls.check_job_files)
    export_job_file = _AsyncCall(calls.export_job_file)
    start = _AsyncCall(calls.start)
    stop = _AsyncCall(calls.stop)
    pause = _AsyncCall(calls.pause)
    resume = _AsyncCall(calls.resume)
    executors = _AsyncCall(calls.executors)
    executor = _AsyncCall(calls.executor)
    drain_executor = _AsyncCall(calls.drain_executor)
    forget_executor = _AsyncCall(calls.forget_executor)
    schedulers = _AsyncCall(calls.schedulers)
    cluster = _AsyncCall(calls.cluster)
    pause_cluster = _AsyncCall(calls.pause_cluster)
    resume_cluster = _AsyncCall(calls.resume_cluster)
    add_app = _AsyncCall(calls.add_app)
    pause_app = _AsyncCall(calls.pause_app)
    resume_app = _AsyncCall(calls.resume_app)
    calendars = _AsyncCall(calls.calendars)
    calendar = _AsyncCall(calls.calendar)
    apply_calendars = _AsyncCall(calls.apply_calendars)
    board = _AsyncCall(calls.board)
    mute_job = _AsyncCall(calls.mute_job)
    unmute_job = _AsyncCall(calls.unmute_job)
    limits = _AsyncCall(calls.limits)
    limit = _AsyncCall(calls.limit)
    set_limit = _AsyncCall(calls.set_limit)
    delete_limit = _AsyncCall(calls.delete_limit)
    queue = _AsyncCall(calls.queue)
    report_days = _AsyncCall(calls.report_days)
    read = _AsyncCall(calls.read)
    alarms = _AsyncCall(calls.alarms)
    alarm = _AsyncCall(calls.alarm)
    send_test_alarms = _AsyncCall(calls.send_test_alarms)
    resend_alarms = _AsyncCall(calls.resend_alarms)
    dismiss_alarms = _AsyncCall(calls.dismiss_alarms)
    incidents = _AsyncCall(calls.incidents)
    incident = _AsyncCall(calls.incident)
    acknowledge_incident = _AsyncCall(calls.acknowledge_incident)
    backfill = _AsyncCall(calls.backfill)
    preview_backfill = _AsyncCall(calls.preview_backfill)
    backfills = _AsyncCall(calls.backfills)
    get_backfill = _AsyncCall(calls.get_backfill)
    backfill_due_times = _AsyncCall(calls.backfill_due_times)
    pause_backfill = _AsyncCall(calls.pause_backfill)
    resume_backfill = _AsyncCall(calls.resume_backfill)
    cancel_backfill = _AsyncCall(calls.cancel_backfill)

    async def follow(self, run: RunId, *, from_line: int = 1) -> AsyncIterator[str]:
        """Yield the lines of a run's log as `Client.follow` does."""
        log = calls.FollowedLog(run, from_line, self._retry_for)
        while not log.is_over:
            for line in await self.complete(log.more()):
                yield line

    async def complete(self, exchange: Exchange[T]) -> T:
        """Carry out a call and return its result."""
        steps = repeated(exchange, self._retry_for, self._address.origin)
        came = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                came = None
            else:
                came = await self._transport.send(step)

    async def close(self) -> None:
        """Close the connections that are kept."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

"""The two clients: the calls of `calls`, sent by threads that block or on an event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from warren.client import backfill_calls, calls, followed_log
from warren.client.address import ApiAddress
from warren.client.connections import Connections
from warren.client.exchange import Exchange, Pause, repeated
from warren.client.streams import Streams
from warren.client.wire import RunId

P = ParamSpec("P")
T = TypeVar("T")


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
        from warren.settings.reading import read_settings  # noqa: PLC0415 - only when asked for
        from warren.settings.settings import api_access  # noqa: PLC0415 - as above

        return cls(*api_access(read_settings()), timeout=timeout, retry_for=retry_for)


class Client(_Configured):
    """Calls one API with one token; threads may share it.

        client = Client("http://127.0.0.1:8081", token)
        run = client.run("reports/nightly", param="2026-12-01")

    Connections are kept. Lost requests are sent again; each trigger has a key, so it runs once
    however often it is sent.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        retry_for: float | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(url, token, timeout=timeout, retry_for=retry_for)
        self._transport = Connections(self._address, timeout)
        self._pause = pause

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
    runs = _Call(calls.runs)
    log = _Call(calls.log)
    jobs = _Call(calls.jobs)
    job = _Call(calls.job)
    apply = _Call(calls.apply)
    start = _Call(calls.start)
    stop = _Call(calls.stop)
    pause = _Call(calls.pause)
    resume = _Call(calls.resume)
    executors = _Call(calls.executors)
    limits = _Call(calls.limits)
    set_limit = _Call(calls.set_limit)
    delete_limit = _Call(calls.delete_limit)
    read = _Call(calls.read)
    backfill = _Call(backfill_calls.backfill)
    preview_backfill = _Call(backfill_calls.preview_backfill)
    backfills = _Call(backfill_calls.backfills)
    get_backfill = _Call(backfill_calls.get_backfill)
    backfill_due_times = _Call(backfill_calls.backfill_due_times)
    pause_backfill = _Call(backfill_calls.pause_backfill)
    resume_backfill = _Call(backfill_calls.resume_backfill)
    cancel_backfill = _Call(backfill_calls.cancel_backfill)

    def follow(self, run: RunId, *, from_line: int = 1) -> Iterator[str]:
        """Yield the lines of a run's log, without line ends, until the run is over.

        Raises:
            ApiError: as for any call; or the run is over, and nobody could return the rest of its
                log. If not a single line was found, the lines just end.

        """
        log = followed_log.FollowedLog(run, from_line, self._retry_for)
        while not log.is_over:
            yield from self.complete(log.more())

    def complete(self, exchange: Exchange[T]) -> T:
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
                self._pause(step.seconds)
                came = None
            else:
                came = self._transport.send(step)

    def close(self) -> None:
        """Close the connections that are kept."""
        self._transport.close()

    def __enter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()


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
    runs = _AsyncCall(calls.runs)
    log = _AsyncCall(calls.log)
    jobs = _AsyncCall(calls.jobs)
    job = _AsyncCall(calls.job)
    apply = _AsyncCall(calls.apply)
    start = _AsyncCall(calls.start)
    stop = _AsyncCall(calls.stop)
    pause = _AsyncCall(calls.pause)
    resume = _AsyncCall(calls.resume)
    executors = _AsyncCall(calls.executors)
    limits = _AsyncCall(calls.limits)
    set_limit = _AsyncCall(calls.set_limit)
    delete_limit = _AsyncCall(calls.delete_limit)
    read = _AsyncCall(calls.read)
    backfill = _AsyncCall(backfill_calls.backfill)
    preview_backfill = _AsyncCall(backfill_calls.preview_backfill)
    backfills = _AsyncCall(backfill_calls.backfills)
    get_backfill = _AsyncCall(backfill_calls.get_backfill)
    backfill_due_times = _AsyncCall(backfill_calls.backfill_due_times)
    pause_backfill = _AsyncCall(backfill_calls.pause_backfill)
    resume_backfill = _AsyncCall(backfill_calls.resume_backfill)
    cancel_backfill = _AsyncCall(backfill_calls.cancel_backfill)

    async def follow(self, run: RunId, *, from_line: int = 1) -> AsyncIterator[str]:
        """Yield the lines of a run's log as `Client.follow` does."""
        log = followed_log.FollowedLog(run, from_line, self._retry_for)
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

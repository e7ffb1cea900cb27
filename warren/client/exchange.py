"""One call as an exchange of requests and answers; decides when a request is sent again.

It does no I/O: a transport sends what an exchange yields, and passes the result back in.
"""

import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from warren.client.answers import ApiError

T = TypeVar("T")
#: Statuses after which the same call may succeed a little later.
_RETRYABLE = frozenset({429, 503})
_REDIRECTS = range(300, 400)
_TOO_LARGE = 413
#: What else proxies answer when they reach no Warren.
_PROXY_FAILURES = {
    502: "a proxy gets no proper answer from Warren behind it; is it running?",
    503: "a proxy gets no proper answer from Warren behind it; is it running?",
    504: "a proxy has waited too long for Warren behind it (nginx: proxy_read_timeout)",
}
#: Without `retry_for`: how often to try a connection that is refused, and for how many seconds to
#: repeat everything else that may succeed later.
REFUSED_TRIES = 3
RETRY_SECONDS = 60.0
_MAX_PAUSE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request; it may be sent any number of times.

    `path` is below the API's base; `wait_seconds` is how much longer than usual it may take.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Asks the transport to wait for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def value(self, kind: type[T]) -> T:
        """Return its content.

        Raises:
            ApiError: it is not an answer of Warren's API.

        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ApiError(self.status, _foreign(self.status)) from error


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came; `is_unreachable`: there was no connection, so nothing was sent."""

    error: Exception
    is_unreachable: bool


Step: TypeAlias = Request | Pause
#: A call: it yields requests and pauses, gets the answers, and returns its result.
Exchange: TypeAlias = Generator[Step, Any, T]
#: The same for a transport: requests are repeated if necessary, and each gets an answer or Lost.
WireExchange: TypeAlias = Generator[Step, Response | Lost | None, T]


def repeated(exchange: Exchange[T], retry_for: float | None, url: str) -> WireExchange[T]:
    """Repeat the requests of an exchange with the API at `url` while they may succeed later.

    Raises:
        ApiError: the API refused one, or it was not answered in time.

    """
    response = None
    while True:
        try:
            step = exchange.send(response)
        except StopIteration as done:
            result: T = done.value
            return result
        response = None
        if isinstance(step, Pause):
            yield step
        else:
            try:
                response = yield from _answered(step, retry_for, url)
            except ApiError as error:
                exchange.throw(error)  # it may add to the error, and raises it
                raise


def _answered(request: Request, retry_for: float | None, url: str) -> WireExchange[Response]:
    began, tries, paused = time.monotonic(), 0, 0.0
    while True:
        came = yield request
        if isinstance(came, Response) and 200 <= came.status < 300:  # noqa: PLR2004 - success
            return came
        assert came is not None
        tries += 1
        error, wait = _failure(came, request, url)
        if wait is None:
            wait = min(_MAX_PAUSE, 0.1 * 2 ** min(tries, 9)) * random.uniform(1.0, 1.2)  # noqa: S311 - jitter
        is_unreachable = isinstance(came, Lost) and came.is_unreachable
        may_pass = error.status == 0 or error.status in _RETRYABLE
        if retry_for is None and is_unreachable:
            may_pass = tries < REFUSED_TRIES
        seconds = RETRY_SECONDS if retry_for is None else retry_for
        if not may_pass or max(paused, time.monotonic() - began) + wait > seconds:
            raise error
        yield Pause(wait)
        paused += wait


def _failure(came: Response | Lost, request: Request, url: str) -> tuple[ApiError, float | None]:
    """Return the error, and the seconds after which the API asks to try again, if it does."""
    if isinstance(came, Lost):
        words = f"no answer from {url}: {came.error or type(came.error).__name__}"
        error = ApiError(0, {"detail": words})
        error.__cause__ = came.error
        return error, None
    try:
        problem = msgspec.json.decode(came.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = None
    after = came.headers.get("retry-after", "")
    is_ours = isinstance(problem, dict) and "detail" in problem
    problem_ = problem if is_ours else _of_a_proxy(came, request, url) or _foreign(came.status)
    return ApiError(came.status, problem_), float(after) if after.isdecimal() else None


def _of_a_proxy(came: Response, request: Request, url: str) -> dict[str, str] | None:
    """Return what the answer of a proxy in front of Warren means; None if it is no proxy's."""
    if came.status in _REDIRECTS:
        parts = urlsplit(came.headers.get("location", ""))
        goal = f"{parts.scheme}://{parts.netloc}{parts.path}" if parts.netloc else parts.path
        words = f"it redirects to {goal[:200] or 'nowhere'}; give the address that it leads to"
    elif came.status == _TOO_LARGE:
        size = f"{len(request.body or b''):,} bytes"
        words = f"a proxy takes no request of {size}; raise its limit (nginx: client_max_body_size)"
    elif came.status in _PROXY_FAILURES:
        words = _PROXY_FAILURES[came.status]
    else:
        return None
    words = "".join(sign if sign.isprintable() else "?" for sign in words)
    return {"detail": f"status {came.status} from {url}, not from Warren: {words}", "address": url}


def _foreign(status: int) -> dict[str, str]:
    return {"detail": f"status {status}, but not from Warren's API; is the address right?"}

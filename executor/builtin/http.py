"""`warren.http`: sends a request, and judges the answer.

It connects only to addresses that are allowed, and only up to a deadline. A name is resolved here,
and the very address that was checked is connected to: what the name resolves to a moment later does
not matter.
"""

import codecs
import logging
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import httpcore
import httpx
import msgspec

from warren.broker.destinations import AddressRefused, Destinations
from warren.broker.messages import RESULT_LIMIT
from warren.executor.builtin.secrets import Secrets
from warren.executor.handlers.context import JobContext, JobFailed
from warren.executor.handlers.handler_registry import job
from warren.executor.handlers.hooks import JobCode


class HttpHosts(Destinations):
    """The hosts that `warren.http` may call."""

    setting = "WARREN_HTTP_HOSTS"
    without_list = "public addresses"


class Deadline:
    """When all of an exchange must be over, `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        """Return the seconds that are left, at most `most`.

        Raises:
            httpx.ReadTimeout: none are.

        """
        self.check()
        left = self._at - time.monotonic()
        return max(left if most is None else min(left, most), 0.001)

    def check(self) -> None:
        """Raise httpx.ReadTimeout if it has passed."""
        if time.monotonic() >= self._at:
            raise httpx.ReadTimeout("the deadline has passed")


class CheckedTransport(httpx.HTTPTransport):
    """A transport without proxies that connects where the rules allow."""

    def __init__(self, trust: ssl.SSLContext, rules: HttpHosts, deadline: Deadline) -> None:
        super().__init__(verify=trust, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=trust, network_backend=_CheckedBackend(rules, deadline)
        )


class _CheckedBackend(httpcore.NetworkBackend):
    def __init__(self, rules: HttpHosts, deadline: Deadline) -> None:
        self._rules = rules
        self._deadline = deadline
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception | None = None
        for address in self._addresses(host, port):
            try:
                stream = self._plain.connect_tcp(
                    address, port, self._deadline.left(timeout), local_address, socket_options
                )
            except httpcore.NetworkError as error:
                failure = error
                continue
            self._rules.admit(host, port, str(stream.get_extra_info("server_addr")[0]))
            return _TimedStream(stream, self._deadline)
        raise failure or httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(self, *_args: Any, **_kwargs: Any) -> httpcore.NetworkStream:
        raise AddressRefused("sockets of this machine are not called")

    def _addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host; raises AddressRefused unless all may be called."""
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            words = getattr(error, "strerror", None) or "its name is invalid"
            raise httpcore.ConnectError(f"cannot find {host[:100]}: {words}") from None
        addresses = list(dict.fromkeys(str(info[4][0]) for info in answers))
        for address in addresses:
            self._rules.admit(host, port, address)
        return addresses


class _TimedStream(httpcore.NetworkStream):
    """A stream that no slow peer keeps open beyond the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, left)
        return _TimedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


NAME = "warren.http"
#: Bytes of an answer that are read.
MAX_ANSWER_BYTES = 1_000_000
#: Characters of a bad answer that the run's message quotes.
_QUOTED = 200
_MISSING = object()
#: The charsets by which an answer is read, as Python calls them; any other is read as UTF-8. Python
#: also has codecs that are none of texts, or take a long time: punycode of 200 kB takes 20 s.
_CHARSETS = frozenset(
    {"utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "ascii", "koi8-r", "koi8-u"}
    | {"gb2312", "gbk", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "iso2022_jp"}
    | {f"iso8859-{part}" for part in range(1, 17)}
    | {f"cp{page}" for page in range(1250, 1259)}
)
#: The codings in which an answer is accepted, one at most: undoing others, or several, may make
#: gigabytes of a few bytes.
_CODINGS = "gzip, deflate"
#: Others that the library undoes where it can.
_REFUSED_CODINGS = frozenset({"br", "zstd"})
_Status = Annotated[int, msgspec.Meta(ge=100, le=599)]


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request, and which answer is a success. Texts may name secrets: {secret:NAME}."""

    url: Annotated[str, msgspec.Meta(pattern="^https?://", max_length=8_000)]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] = "GET"
    headers: dict[str, str] = {}
    query: Annotated[
        dict[str, str], msgspec.Meta(description="Added to the query of the url.")
    ] = {}
    body: Annotated[str, msgspec.Meta(description="The body as a text.")] = ""
    json: Annotated[Any, msgspec.Meta(description="The body as JSON, instead of body.")] = None
    timeout: Annotated[
        float,
        msgspec.Meta(
            gt=0, le=86_400, description="Seconds for the whole exchange, redirects included."
        ),
    ] = 60
    expect_status: Annotated[
        list[_Status], msgspec.Meta(description="The statuses of a success; empty: 200 to 299.")
    ] = []
    expect_json: Annotated[
        dict[str, Any],
        msgspec.Meta(description='Values that the answer must have, such as {"/status": "ok"}.'),
    ] = {}
    redirects: Annotated[
        int, msgspec.Meta(ge=0, le=20, description="How many redirects are followed.")
    ] = 5


class Answer(dict[str, Any]):
    """What is kept as the run's result; its text is the run's message."""

    def __init__(self, words: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._words = words

    def __str__(self) -> str:
        return self._words


def declare(code: JobCode) -> None:
    # They would log URLs, which may hold secrets.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    rules = HttpHosts.parse(code.http_hosts)
    trust = httpx.create_ssl_context()

    def http(context: JobContext, params: Request) -> Answer:
        """Send an HTTP request, and judge the answer."""
        secrets = Secrets.read(code.secrets_file)
        deadline = Deadline(params.timeout)
        transport = CheckedTransport(trust, rules, deadline)
        try:
            headers = {"Accept-Encoding": _CODINGS}
            with httpx.Client(transport=transport, trust_env=False, headers=headers) as client:
                return _Exchange(context, params, secrets, deadline, client).run()
        except JobFailed as failure:
            raise JobFailed(secrets.mask(str(failure)), retry=failure.retry) from None
        except AddressRefused as refusal:
            raise JobFailed(secrets.mask(str(refusal)), retry=False) from None
        except httpx.TimeoutException:
            raise JobFailed(f"no whole answer within {params.timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            words = str(error) or type(error).__name__
            raise JobFailed(secrets.mask(f"the request failed: {words}")) from None

    job(NAME)(http)


class _Exchange:
    """One request with its redirects."""

    def __init__(
        self,
        context: JobContext,
        params: Request,
        secrets: Secrets,
        deadline: Deadline,
        client: httpx.Client,
    ) -> None:
        self._context = context
        self._params = params
        self._secrets = secrets
        self._deadline = deadline
        self._client = client

    def run(self) -> Answer:
        """Return the answer if it succeeded.

        Raises:
            JobFailed: it did not, or the request is wrong.

        """
        request: httpx.Request | None = self._request()
        for _ in range(self._params.redirects + 1):
            assert request is not None
            began = time.monotonic()
            response = self._client.send(request, stream=True)
            try:
                body = self._read(response)
            finally:
                response.close()
            seconds = time.monotonic() - began
            self._log(request, response, body, seconds)
            following = response.next_request
            if following is None or not self._params.redirects:
                return self._judged(response, body, seconds)
            self._check_redirect(request, following)
            request = following
        raise JobFailed(f"more redirects than allowed: {self._params.redirects}")

    def _request(self) -> httpx.Request:
        params, fill = self._params, self._secrets.fill
        if params.body and params.json is not None:
            raise JobFailed("expected body or json, got: both", retry=False)
        url = httpx.URL(fill(params.url))
        if url.userinfo:
            raise JobFailed(
                "expected a url without user name and password: put them in a header, as a secret",
                retry=False,
            )
        if params.query:
            url = url.copy_merge_params(fill(params.query))
        content: dict[str, Any] = {}
        if params.json is not None:
            content["json"] = fill(params.json)
        elif params.body:
            content["content"] = fill(params.body).encode()
        texts = {"User-Agent": "warren", **fill(params.headers)}
        headers = {name.encode("ascii"): value.encode() for name, value in texts.items()}
        return self._client.build_request(params.method, url, headers=headers, **content)

    def _check_redirect(self, request: httpx.Request, following: httpx.Request) -> None:
        """Refuse to take secrets elsewhere."""
        old, new = request.url, following.url
        if new.scheme not in ("http", "https"):
            raise JobFailed(f"redirected to {new.scheme}, which is not HTTP", retry=False)
        is_same = (old.scheme, old.host, old.port) == (new.scheme, new.host, new.port)
        if self._secrets.were_used and not is_same:
            raise JobFailed(
                f"redirected to {new.host}, where a request with secrets does not go", retry=False
            )

    def _read(self, response: httpx.Response) -> bytes:
        """Return the answer's body up to MAX_ANSWER_BYTES."""
        codings = response.headers.get("content-encoding", "").lower()
        if "," in codings or codings.strip() in _REFUSED_CODINGS:
            got = codings[:_QUOTED]
            raise JobFailed(f"expected the Content-Encoding to be one of {_CODINGS}, got: {got}")
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            self._deadline.check()
            if len(body) > MAX_ANSWER_BYTES:
                break
        return bytes(body[:MAX_ANSWER_BYTES])

    def _log(
        self, request: httpx.Request, response: httpx.Response, body: bytes, seconds: float
    ) -> None:
        url = request.url.copy_with(query=None, fragment=None)
        line = (
            f"{request.method} {url}: {response.status_code} {response.reason_phrase}, "
            f"{len(body):,} bytes in {seconds:.3f} s"
        )
        self._context.log(self._secrets.mask(line).replace("%", "%%") % ())

    def _judged(self, response: httpx.Response, body: bytes, seconds: float) -> Answer:
        status, params = response.status_code, self._params
        text = self._secrets.mask(body.decode(_charset(response), "replace"))
        self._deadline.check()
        if status not in (params.expect_status or range(200, 300)):
            expected = ", ".join(map(str, params.expect_status)) or "200 to 299"
            quoted = " ".join(text[:_QUOTED].split())
            raise JobFailed(
                f"expected status {expected}, got: {status} {response.reason_phrase}"
                + (f": {quoted}" if quoted else "")
            )
        value = _json_of(text)
        for pointer, expected_value in params.expect_json.items():
            if value is _MISSING:
                quoted = " ".join(text[:_QUOTED].split())
                raise JobFailed(f"expected the answer to be JSON, got: {quoted!r}")
            part = _at(value, pointer)
            if part != expected_value or isinstance(part, bool) != isinstance(expected_value, bool):
                got = "nothing" if part is _MISSING else _shown(part)
                raise JobFailed(f"expected {pointer} to be {_shown(expected_value)}, got: {got}")
        words = f"{status} {response.reason_phrase}, {len(body):,} bytes in {seconds:.3f} s"
        return Answer(words, {"status": status, **_kept(value, text)})


def _charset(response: httpx.Response) -> str:
    """Return the charset that an answer names, if it is one of texts; else UTF-8."""
    try:
        name = codecs.lookup(response.charset_encoding or "").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in _CHARSETS else "utf-8"


def _json_of(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _MISSING


def _at(value: Any, pointer: str) -> Any:
    """Return what a JSON pointer names, _MISSING if there is nothing."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key, _MISSING)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _MISSING
    return value


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _kept(value: Any, text: str) -> dict[str, Any]:
    """Return the body as JSON, or as a text that is cut to what a result may hold."""
    room = RESULT_LIMIT - 100
    if value is not _MISSING and len(msgspec.json.encode(value).decode()) <= room:
        return {"body": value}
    kept = text
    while len(msgspec.json.encode(kept).decode()) > room:
        kept = kept[: min(len(kept) * 3 // 4, room)]
    return {"body": kept} if kept == text else {"body": kept, "cut": True}

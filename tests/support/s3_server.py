"""A small S3 in this process, which checks signatures, and can be away, slow, full or unwilling.

It knows what Warren's library asks for, with keys in the path. It keeps objects in memory.
"""

import hashlib
import hmac
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from warren.scheduler.log_store.s3_store import Bucket, S3Store

ACCESS_KEY, SECRET_KEY, REGION = "the-access-key", "the-secret-key", "eu-test-1"
BUCKET = "logs"
#: Returns the status and code with which a request is refused, by its method and key; None = it
#: is served.
Refusal = Callable[[str, str], tuple[int, str] | None]


class S3Server:
    """A bucket of objects by key, behind HTTP at `url`."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        #: Each request: its method, key and range.
        self.requests: list[tuple[str, str, str]] = []
        self.refuse: Refusal = lambda _method, _key: None
        self.delay_seconds = 0.0
        self.most_bytes: int | None = None
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def store(self, prefix: str = "a/prefix", **others: Any) -> S3Store:
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": REGION}
        bucket = {"name": BUCKET, "prefix": prefix, "endpoint": self.url} | keys | others
        return S3Store(Bucket(**bucket))

    def start(self) -> None:
        """Serve, at the same port as before."""
        owner = self

        class Handler(_Handler):
            server_of = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Handler(BaseHTTPRequestHandler):
    server_of: S3Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: Any) -> None:
        pass

    def _serve(self) -> None:
        s3 = self.server_of
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if s3._server is None:  # it was stopped: kept connections end too
            self.close_connection = True
            return
        path = urlsplit(self.path)
        key = unquote(path.path).removeprefix(f"/{BUCKET}").lstrip("/")
        s3.requests.append((self.command, key, self.headers.get("Range", "")))
        if s3.delay_seconds:
            time.sleep(s3.delay_seconds)
        refused = s3.refuse(self.command, key) or _signature_fault(self, body)
        if refused is not None:
            self._fail(*refused)
        elif "delete" in dict(parse_qsl(path.query, keep_blank_values=True)):
            self._delete_many(body)
        else:
            getattr(self, f"_{self.command.lower()}")(key, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the library's names

    def _put(self, key: str, body: bytes) -> None:
        s3 = self.server_of
        used = sum(map(len, s3.objects.values()))
        if s3.most_bytes is not None and used + len(body) > s3.most_bytes:
            self._fail(507, "QuotaExceeded")
            return
        s3.objects[key] = body
        self._answer(200, b"")

    def _get(self, key: str, _body: bytes) -> None:
        text = self.server_of.objects.get(key)
        if text is None:
            self._fail(404, "NoSuchKey")
            return
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if span is None:
            self._answer(200, text)
            return
        first, last = int(span[1]), int(span[2])
        total = {"Content-Range": f"bytes {first}-{last}/{len(text)}"}
        self._answer(206, text[first : last + 1], total)

    _head = _get

    def _delete(self, key: str, _body: bytes) -> None:
        self.server_of.objects.pop(key, None)
        self._answer(204, b"")

    def _delete_many(self, body: bytes) -> None:
        errors = []
        for key in map(unescape, re.findall(r"<Key>([^<]*)</Key>", body.decode())):
            refused = self.server_of.refuse("DELETE", key)
            if refused is None:
                self.server_of.objects.pop(key, None)
            else:
                code = f"<Code>{refused[1]}</Code><Message>{refused[1]}</Message>"
                errors.append(f"<Error><Key>{escape(key)}</Key>{code}</Error>")
        text = f"<?xml version='1.0'?><DeleteResult>{''.join(errors)}</DeleteResult>"
        self._answer(200, text.encode())

    def _fail(self, status: int, code: str) -> None:
        said = f"<Code>{code}</Code><Message>said so</Message><Region>{REGION}</Region>"
        self._answer(status, f"<?xml version='1.0'?><Error>{said}</Error>".encode())

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _signature_fault(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, str] | None:
    """Return how a request is refused whose signature is missing, wrong or too old."""
    path = urlsplit(request.path)
    query = dict(parse_qsl(path.query, keep_blank_values=True))
    if "X-Amz-Signature" in query:
        signature = query.pop("X-Amz-Signature")
        scope = query["X-Amz-Credential"].split("/")
        if scope[2] != REGION:
            return 400, "AuthorizationQueryParametersError"
        names, at = query["X-Amz-SignedHeaders"].split(";"), query["X-Amz-Date"]
        payload = "UNSIGNED-PAYLOAD"
        age = datetime.now(UTC) - datetime.strptime(at, "%Y%m%dT%H%M%S%z")
        if age.total_seconds() > int(query["X-Amz-Expires"]):
            return 403, "AccessDenied"
    else:
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=(\S+), ?SignedHeaders=(\S+), ?Signature=(\S+)",
            request.headers.get("Authorization", ""),
        )
        if found is None:
            return 403, "AccessDenied"
        scope, names, signature = found[1].split("/"), found[2].split(";"), found[3]
        at, payload = request.headers["X-Amz-Date"], request.headers["X-Amz-Content-SHA256"]
        if scope[2] != REGION:
            return 400, "AuthorizationHeaderMalformed"
        if payload not in (hashlib.sha256(body).hexdigest(), "UNSIGNED-PAYLOAD"):
            return 400, "XAmzContentSHA256Mismatch"
    quoted = [tuple(quote(part, safe="-_.~") for part in pair) for pair in query.items()]
    canonical = "\n".join(
        [
            request.command,
            path.path,
            "&".join(f"{name}={value}" for name, value in sorted(quoted)),
            *(f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names),
            "",
            ";".join(names),
            payload,
        ]
    )
    text = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            at,
            "/".join(scope[1:]),
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{SECRET_KEY}".encode()
    for part in scope[1:]:
        key = hmac.digest(key, part.encode(), "sha256")
    wanted = hmac.new(key, text.encode(), "sha256").hexdigest()
    is_ours = scope[0] == ACCESS_KEY and hmac.compare_digest(wanted, signature)
    return None if is_ours else (403, "SignatureDoesNotMatch")

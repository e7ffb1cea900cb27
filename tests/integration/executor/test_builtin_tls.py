"""`warren.http` sends nothing to a server whose certificate it cannot verify."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.broker.certificates import Authority
from warren.executor.builtin import http
from warren.executor.handlers.handler_registry import load_handlers
from warren.executor.handlers.hooks import JobCode
from warren.testing import Done, run

HOST = "127.0.0.1"


class Peer(BaseHTTPRequestHandler):
    """Answers every request, and notes its path."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_args: object) -> None:
        pass


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_args: object) -> None:
        """Say nothing about clients that leave during the handshake."""


@contextmanager
def served(context: ssl.SSLContext) -> Iterator[tuple[str, list[str]]]:
    """Serve HTTPS meanwhile; yield the URL, and the paths that are asked for."""
    asked: list[str] = []
    server = _QuietServer((HOST, 0), type("Noting", (Peer,), {"asked": asked}))
    # The handshake is made in the connection's own thread, with its first read.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://{HOST}:{server.server_address[1]}/health", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Send a request as an executor that trusts this authority besides none, or the usual ones."""

    def send(url: str, trusted: Authority | None) -> Done:
        if trusted is None:
            monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        else:
            monkeypatch.setenv("SSL_CERT_FILE", str(trusted.file))
        code = JobCode(sources=(), http_hosts=HOST)
        handlers: Any = load_handlers([], declare_more=lambda: http.declare(code))
        return run(handlers["warren.http"].function, params={"url": url})

    return send


def test_an_authority_of_ones_own_is_trusted(
    authority: Authority, send: Callable[..., Done]
) -> None:
    with served(authority.server_context(HOST)) as (url, asked):
        done = send(url, authority)

    assert (done.outcome, done.result["body"]) == ("SUCCEEDED", "ok"), done.message
    assert asked == ["/health"]


@pytest.mark.parametrize(
    ("certificate", "is_trusted", "words"),
    [
        ((HOST, 1), False, "unable to get local issuer certificate"),
        (("127.0.0.2", 1), True, "certificate is not valid for '127.0.0.1'"),
        ((HOST, -1), True, "certificate has expired"),
    ],
    ids=["signed by nobody known", "of another host", "expired"],
)
def test_a_certificate_that_cannot_be_verified_fails_the_run_before_anything_is_sent(
    authority: Authority,
    send: Callable[..., Done],
    certificate: tuple[str, int],
    is_trusted: bool,
    words: str,
) -> None:
    host, days = certificate
    with served(authority.server_context(host, days=days)) as (url, asked):
        done = send(url, authority if is_trusted else None)

    assert done.outcome == "FAILED"
    assert done.message.startswith("the request failed: ")
    assert "certificate verify failed" in done.message
    assert words in done.message
    assert "\n" not in done.message
    assert asked == []

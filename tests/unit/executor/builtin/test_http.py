"""`warren.http` sends a request, judges the answer, and gives no secret away."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from warren.executor.builtin import http
from warren.testing import Done, run


class Peer(BaseHTTPRequestHandler):
    """Echoes requests, redirects, and answers as its path says."""

    def _answer(self) -> None:
        split = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        status, answer = int(query.get("status", "200")), ""
        if split.path == "/echo":
            told = {"method": self.command, "headers": dict(self.headers.items())}
            answer = json.dumps(told | {"query": query, "body": body})
        elif split.path == "/text":
            answer = query.get("text", "") * int(query.get("times", "1"))
        elif split.path == "/coded":
            answer = "2" + "a" * 200_000
        elif split.path == "/to":
            status = 302
        self.send_response(status)
        if split.path == "/to":
            self.send_header("Location", query["url"])
        if split.path == "/coded":
            self.send_header("Content-Type", f"text/plain; charset={query['charset']}")
        if split.path == "/drip":
            self.end_headers()
            for _ in range(1_000):
                self.wfile.write(b"x")
                self.wfile.flush()
                self.server.drip.wait(0.05)  # type: ignore[attr-defined]
            return
        content = self._packed(answer, query.get("coding", ""))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _packed(self, answer: str, coding: str) -> bytes:
        content = answer.encode()
        for _ in range(coding.count("gzip")):
            content = gzip.compress(content)
        if coding:
            self.send_header("Content-Encoding", coding)
        return content

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the library's names

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Peer)
    server.drip = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.drip.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


@pytest.fixture
def send(declared: Any, port: int, tmp_path: Path) -> Any:
    """Send a request to the peer, whose address is allowed."""
    secrets = tmp_path / "secrets"
    secrets.write_text("TOKEN=hunter2/ä\n")

    def send(path: str, *, hosts: str = "127.0.0.1", **params: Any) -> Done:
        url = path if path.startswith(("http:", "ftp:")) else f"http://127.0.0.1:{port}{path}"
        handler = declared("http", http_hosts=hosts, secrets_file=str(secrets))
        return run(handler, params={"url": url, **params})

    return send


def test_the_request_is_as_the_param_says_and_its_answer_is_the_result(send: Any) -> None:
    done = send(
        "/echo?a=1", method="POST", query={"b": "x y"}, headers={"X-A": "7"}, json={"k": [1, None]}
    )

    assert done.outcome == "SUCCEEDED", done.message
    assert done.message.startswith("200 OK, ")
    assert done.result["status"] == 200
    body = done.result["body"]
    assert (body["method"], body["query"]) == ("POST", {"a": "1", "b": "x y"})
    assert json.loads(body["body"]) == {"k": [1, None]}
    assert body["headers"]["X-A"] == "7"
    assert any("POST http://127.0.0.1" in line and ": 200 OK" in line for line in done.lines)


@pytest.mark.parametrize(
    ("path", "params", "words"),
    [
        ("/text?status=503&text=busy", {}, "expected status 200 to 299, got: 503 "),
        ("/text", {"expect_status": [204, 404]}, "expected status 204, 404, got: 200 OK"),
        ('/text?text={"a":[0]}', {"expect_json": {"/a/0": 1}}, "expected /a/0 to be 1, got: 0"),
        ('/text?text={"a":1}', {"expect_json": {"/b": 1}}, "expected /b to be 1, got: nothing"),
        ('/text?text={"a":1}', {"expect_json": {"/a": True}}, "expected /a to be true, got: 1"),
        ("/text?text=hi", {"expect_json": {"/a": 1}}, "expected the answer to be JSON, got: 'hi'"),
        ("/text", {"body": "a", "json": 1}, "expected body or json, got: both"),
        ("http://u:p@127.0.0.1/", {}, "expected a url without user name and password"),
        ("ftp://x/", {}, "Expected `str` matching regex"),
        ("/text", {"timeout": 0}, "Expected `float` > 0"),
        ("/text", {"methods": "GET"}, "unknown field `methods`"),
        ("/text", {"headers": {"A": "a\nb"}}, "the request failed: Illegal header value"),
        ("http://no-such-host.invalid/", {}, "cannot find no-such-host.invalid"),
        ("http://[::1/", {}, "the request failed: "),
    ],
)
def test_what_is_no_success_is_one_line(send: Any, path: str, params: Any, words: str) -> None:
    done = send(path, **params)

    assert done.outcome == "FAILED"
    assert words in done.message
    assert "\n" not in done.message


@pytest.mark.parametrize(
    "charset", ["punycode", "hex", "idna", "unicode_escape", "utf_7", "no-such"]
)
def test_an_answer_in_no_charset_of_texts_is_read_as_utf_8(send: Any, charset: str) -> None:
    done = send(f"/coded?charset={charset}", timeout=5)

    assert done.outcome == "SUCCEEDED", done.message
    assert done.result["body"].startswith("2aaa")


@pytest.mark.parametrize("coding", ["gzip, gzip", "gzip,deflate", "br", "zstd"])
def test_an_answer_that_may_become_one_of_any_size_is_not_unpacked(send: Any, coding: str) -> None:
    done = send("/text", query={"text": "a", "coding": coding})

    assert done.outcome == "FAILED"
    assert done.message == (
        f"expected the Content-Encoding to be one of gzip, deflate, got: {coding}"
    )


def test_an_answer_that_is_packed_once_is_unpacked(send: Any) -> None:
    done = send("/text", query={"text": "a", "times": "2000000", "coding": "gzip"})

    assert done.outcome == "SUCCEEDED", done.message
    assert done.message.startswith("200 OK, 1,000,000 bytes")


def test_a_json_condition_that_holds_and_statuses_that_are_expected_are_a_success(
    send: Any,
) -> None:
    text = '{"a~/b": {"c": "ok"}}'

    done = send(
        "/text",
        query={"text": text, "status": "404"},
        expect_status=[404],
        expect_json={"/a~0~1b/c": "ok"},
    )

    assert done.outcome == "SUCCEEDED", done.message


def test_a_long_answer_is_cut(send: Any) -> None:
    done = send("/text?text=%22&times=900000")

    assert done.result["cut"] is True
    assert 20_000 < len(done.result["body"]) < 50_000


def test_redirects_are_followed_and_counted(send: Any) -> None:
    done = send("/to?url=/to?url=/text")
    assert (done.outcome, done.result["status"]) == ("SUCCEEDED", 200)

    done = send("/to?url=/to?url=/text", redirects=1)
    assert done.message == "more redirects than allowed: 1"

    done = send("/to?url=/text", redirects=0)
    assert "got: 302 Found" in done.message


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "http://127.0.0.2:1/", "http://[::ffff:10.0.0.1]/", "file:///etc/x"]
)
def test_each_redirect_is_checked_again(send: Any, url: str) -> None:
    done = send(f"/to?url={url}")

    assert done.outcome == "FAILED"
    assert "is not public" in done.message or "which is not HTTP" in done.message


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0177.0.0.1", "0x7f.1", "127.1", "[::1]"]
)
def test_this_machine_is_not_called_unless_it_is_named(send: Any, port: int, host: str) -> None:
    done = send(f"http://{host}:{port}/text", hosts="")

    assert done.outcome == "FAILED"
    refusals = ("is not public, and not named in WARREN_HTTP_HOSTS", "Invalid IPv4 address")
    assert any(words in done.message for words in refusals)


def test_a_name_that_resolves_elsewhere_later_is_called_where_it_was_checked(
    send: Any, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int, *_how: Any, **_more: Any) -> Any:
        asked.append(host)
        address = "10.0.0.1" if asked.count(host) > 1 else "127.0.0.1"
        return [(2, 1, 6, "", (address, port))]

    monkeypatch.setattr(http.socket, "getaddrinfo", resolve)

    done = send(f"http://rebinds.example:{port}/text", hosts="127.0.0.1")

    # Once by name: what is connected to is the address that was checked.
    assert done.outcome == "SUCCEEDED", done.message
    assert asked.count("rebinds.example") == 1


def test_secrets_are_sent_and_never_told(send: Any) -> None:
    done = send("/echo", headers={"X-Key": "k {secret:TOKEN}"}, query={"q": "{secret:TOKEN}"})

    assert done.outcome == "SUCCEEDED", done.message
    assert done.result["body"]["query"] == {"q": "***"}
    assert done.result["body"]["headers"]["X-Key"].startswith("k ")
    told = json.dumps(done.result, ensure_ascii=False) + done.message + "".join(done.lines)
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/text?status=500&text=hunter2/ä", {}),
        ("/text?text={secret:TOKEN}", {"expect_json": {"/a": 1}}),
        ("/text", {"headers": {"A": "{secret:TOKEN}\n"}}),
        ("http://{secret:TOKEN}.invalid/", {}),
        ("/to?url=http://hunter2/", {"query": {"q": "{secret:TOKEN}"}}),
    ],
)
def test_no_failure_tells_a_secret(send: Any, path: str, params: Any) -> None:
    done = send(path, **params)

    assert done.outcome == "FAILED"
    assert "hunter2/" not in done.message
    assert "hunter2/" not in "".join(done.lines)


def test_a_request_with_secrets_is_not_redirected_elsewhere(send: Any) -> None:
    done = send("/to?url=http://127.0.0.2:1/", hosts="127.0.0.0/8", headers={"A": "{secret:TOKEN}"})

    assert done.message == "redirected to 127.0.0.2, where a request with secrets does not go"


def test_a_slow_answer_ends_at_the_timeout(send: Any) -> None:
    done = send("/drip", timeout=0.3)

    assert done.message == "no whole answer within 0.3 s"

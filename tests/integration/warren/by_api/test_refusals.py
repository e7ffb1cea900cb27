"""What goes wrong between a command and its API is one line that names the API."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import update
from werkzeug.wrappers import Response

from tests.integration.broker.certificates import Authority
from tests.integration.warren.by_api.conftest import Desk, said
from tests.support.api import make_token
from tests.support.ports import free_port
from warren.errands.sending import open_sender
from warren.errors import WarrenError
from warren.scheduler.commands.tokens.scopes import Scope
from warren.scheduler.commands.tokens.token_text import new_token
from warren.settings.settings import Settings
from warren.sql.models import ApiToken

TOKEN = new_token()


def refused(command: str, **env: str) -> str:
    done = said(command, env)
    assert (done.status, done.out) == (1, "")
    [line] = done.errors
    return line


def test_a_token_that_is_unknown(desk: Desk) -> None:
    other = make_token(desk.by_api.database, desk.clock)
    desk.there("jobs list")
    desk.by_api.database.write(
        lambda session: session.execute(update(ApiToken).values(revoked_at=1))
    )

    [line] = desk.there("jobs list", WARREN_API_TOKEN=other).errors

    url = desk.env["WARREN_API_URL"]
    assert line == (
        f"{url} refused the token: the token was revoked; `warren login` stores another one"
    )


def test_a_token_without_the_scope(desk: Desk) -> None:
    reader = make_token(desk.by_api.database, desk.clock, scopes=[Scope.READ])

    done = desk.there("jobs stop job", WARREN_API_TOKEN=reader)

    assert done.errors == (f"{desk.env['WARREN_API_URL']}: the token has no scope operate",)


def test_a_token_of_single_jobs(desk: Desk) -> None:
    job_ids = (desk.ids["job_id"],)
    limited = make_token(desk.by_api.database, desk.clock, scopes=[Scope.READ], job_ids=job_ids)

    [line] = desk.there("jobs list", WARREN_API_TOKEN=limited).errors

    assert "this token is limited to some jobs" in line


def test_nobody_answers(folder: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    line = refused("jobs list", WARREN_API_URL=url, WARREN_API_TOKEN=TOKEN)

    assert line == f"no answer from {url}: [Errno 111] Connection refused"


def test_a_proxy_answers(served: Callable[[Flask], str]) -> None:
    app = Flask("proxy", static_folder=None)
    app.wsgi_app = Response("<p>Bad Gateway</p>", status=502)  # type: ignore[method-assign]
    url = served(app)

    line = refused("jobs list", WARREN_API_URL=url, WARREN_API_TOKEN=TOKEN)

    assert line == (
        f"status 502 from {url}, not from Warren: "
        "a proxy gets no proper answer from Warren behind it; is it running?"
    )


@pytest.mark.parametrize(
    ("status", "media", "body", "words"),
    [
        (404, "text/html", b"<p>Hello</p>", "404, but not from Warren's API; is the address"),
        (200, "text/html", b"<p>Hello</p>", "200, but not from Warren's API; is the address"),
        (
            404,
            "application/problem+json",
            b'{"type":"about:blank","detail":"The requested URL was not found","errors":[]}',
            "does not know this command: it is older than this warren, ",
        ),
        (
            200,
            "application/json",
            b'{"parts":[{"type":"picture"}]}',
            "its answer is not understood; it is newer than warren ",
        ),
    ],
)
def test_something_else_answers(
    served: Callable[[Flask], str],
    status: int,
    media: str,
    body: bytes,
    words: str,
) -> None:
    app = Flask("other", static_folder=None)
    app.wsgi_app = Response(body, status=status, content_type=media)  # type: ignore[method-assign]
    url = served(app)

    line = refused("jobs list", WARREN_API_URL=url, WARREN_API_TOKEN=TOKEN)

    assert line.startswith(url)
    assert words in line


def test_a_certificate_that_is_not_trusted(folder: Path, tls_port: int) -> None:
    url = f"https://127.0.0.1:{tls_port}"

    line = refused("jobs list", WARREN_API_URL=url, WARREN_API_TOKEN=TOKEN)

    assert line.startswith(f"{url}: its certificate is not trusted: ")


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """A port that shows a certificate whose authority nobody knows."""
    context = Authority(tmp_path).server_context("127.0.0.1")
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with suppress(OSError), context.wrap_socket(connection, server_side=True):
                    pass

    greeter = threading.Thread(target=greet)
    greeter.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    greeter.join()


def test_a_url_without_a_token(folder: Path) -> None:
    line = refused("jobs list", WARREN_API_URL="http://127.0.0.1:1")

    assert line == ("WARREN_API_TOKEN: expected what `warren tokens add` printed, it is not set")


@pytest.mark.parametrize("command", ["audit", "tokens list", "users list", "db upgrade"])
def test_what_needs_the_database_says_so(command: str) -> None:
    env = {"WARREN_API_URL": "http://127.0.0.1:1", "WARREN_API_TOKEN": TOKEN}

    line = refused(command, **env)

    assert line == "this cannot be done by the API: it needs the database, WARREN_DATABASE_URL"


def test_a_list_by_an_api_has_a_limit(desk: Desk) -> None:
    done = desk.there("runs list --limit 20000")

    assert done.status == 2
    assert "expected --limit to be up to 10000 by an API, got: 20000" in done.errors[0]


def test_an_option_of_a_newer_command_is_named(desk: Desk) -> None:
    with (
        open_sender(Settings(api_url=desk.env["WARREN_API_URL"], api_token=desk.token)) as sender,
        pytest.raises(WarrenError, match="unknown field `colour`"),
    ):
        sender.send("jobs.list", colour="red")

"""`warren login` and `warren logout`: the API that commands use from this account.

A user signs in with the console, by a browser here or by a code in any browser. The command keeps a
verifier and tells the API its hash, so whoever sees the link, the code or what the browser brings
cannot fetch the token.
"""

import base64
import hashlib
import hmac
import platform
import re
import secrets
import sys
import time
import webbrowser
from collections.abc import Callable
from getpass import getpass
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from urllib.parse import parse_qs, urlsplit

import click

from warren.command_options import examples, takes_settings
from warren.connect import ask_for_login, end_token, login_answer, way_in_words, way_of, who_am_i
from warren.errors import CommandError
from warren.resources.accounts import LOGIN_DAYS, MAX_LOGIN_DAYS, LoginAnswer, LoginProof, LoginWish
from warren.settings.login import (
    Login,
    forget_login,
    login_file,
    store_login,
    stored_login,
)
from warren.settings.setting_rules import check_api_token, check_console_url
from warren.settings.settings import Settings, has_browser
from warren.terminal.output import visible, warn

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Warren</title>
<p>{words}</p></html>"""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: How long the listener waits for a connection before it looks at the clock.
_TURN_SECONDS = 0.5
#: How long a browser may take to send a request once it is connected.
_REQUEST_SECONDS = 5.0


def log_in_by_browser(url: str, days: int) -> Login:
    """Return a login that the user has allowed in the browser of this machine.

    Raises:
        CommandError: the user refused, took too long, or the API does not answer.

    """
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    with _Listener(state) as listener:
        asked = ask_for_login(url, _wish(verifier, days, port=listener.port, state=state))
        print(f"opening {visible(asked.page)}", flush=True)
        if not webbrowser.open(asked.page):
            print("no browser could be opened here: open that page yourself", flush=True)
        code = listener.wait(asked.life_seconds)
    return _login(url, login_answer(url, LoginProof(verifier=verifier, code=code)))


def log_in_by_code(url: str, days: int, pause: Callable[[float], None] = time.sleep) -> Login:
    """Return a login that the user has allowed in any browser, with the code that is printed.

    Raises:
        CommandError: the user refused, took too long, or the API does not answer.

    """
    verifier = secrets.token_urlsafe(48)
    asked = ask_for_login(url, _wish(verifier, days))
    print(f"open {visible(asked.page)} and enter the code {visible(asked.code)}", flush=True)
    while True:
        answer = login_answer(url, LoginProof(verifier=verifier))
        if answer.state != "waiting":
            return _login(url, answer)
        pause(max(asked.poll_seconds, 1))


def _wish(verifier: str, days: int, port: int | None = None, state: str = "") -> LoginWish:
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return LoginWish(challenge=challenge, machine=_machine(), days=days, port=port, state=state)


def _machine() -> str:
    """Return the name of this machine, without what a name of Warren cannot have."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node())[:64].lstrip("._-")
    return name or "unknown"


def _login(url: str, answer: LoginAnswer) -> Login:
    if not answer.token:
        raise CommandError("the login was refused in the console")
    return Login(url, answer.token, is_own=True)


class _Listener(TCPServer):
    """Waits on 127.0.0.1 for what the browser brings from the console."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._brought: dict[str, str] = {}
        super().__init__(("127.0.0.1", 0), _Handler)
        self.timeout = _TURN_SECONDS
        self.port: int = self.server_address[1]

    def wait(self, seconds: float) -> str:
        """Return the code that the browser brings.

        Raises:
            CommandError: the user has refused, or taken too long.

        """
        deadline = time.monotonic() + seconds
        while not self._brought:
            if time.monotonic() > deadline:
                raise CommandError("nobody has allowed the login within ten minutes")
            self.handle_request()
        if "code" not in self._brought:
            raise CommandError("the login was refused in the console")
        return self._brought["code"]

    def take(self, target: str) -> str | None:
        """Take what a browser brings and return the words for it; None if it is not ours."""
        parts = urlsplit(target)
        brought = {name: values[0] for name, values in parse_qs(parts.query).items()}
        is_ours = hmac.compare_digest(brought.get("state", "").encode(), self._state.encode())
        if parts.path != "/" or not is_ours:
            return None
        self._brought = brought
        if "code" in brought:
            return "Allowed. Go back to the terminal; you can close this page."
        return "Refused. The command gets no token."

    def handle_error(self, _request: object, _client_address: object) -> None:
        """Ignore a browser that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    timeout = _REQUEST_SECONDS

    def do_GET(self) -> None:
        words = self.server.take(self.path)
        body = _PAGE.format(words=words or "Nothing is here.").encode()
        self.send_response(200 if words else 404)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing to the terminal."""


BROWSER, CODE, TOKEN = "browser", "code", "token"


@click.command(
    epilog=examples(
        "warren login https://warren.example.com",
        "warren login https://warren.example.com --by code",
        "warren login https://warren.example.com < token.txt",
    )
)
@click.argument("url")
@click.option(
    "--by",
    type=click.Choice([BROWSER, CODE, TOKEN]),
    help="Sign in with a browser here, or anywhere with a code; or give a token.",
)
@click.option(
    "--days",
    type=click.IntRange(1, MAX_LOGIN_DAYS),
    help=f"How many days the login is valid; {LOGIN_DAYS} by default.",
)
@takes_settings()
def login(settings: Settings, url: str, by: str | None, days: int | None) -> None:
    """Let commands use the API at URL as you, once you allow it in the console.

    Opens the console in your browser; without one, prints where to enter a code. If standard input
    is not a terminal, a token is read from it. URL and token are kept in a file that only you can
    read. WARREN_API_URL and WARREN_API_TOKEN take precedence.
    """
    url = _checked(url, check_console_url, f"expected an http(s) URL, got: {url!r}")
    by = by or _way()
    if by == TOKEN and days is not None:
        raise click.UsageError(
            "--days is for --by browser and --by code; a token has its own expiry"
        )
    before = _login_before()
    if by == TOKEN:
        new = _given(url)
    else:
        log_in = log_in_by_browser if by == BROWSER else log_in_by_code
        new = log_in(url, days or LOGIN_DAYS)
    names = who_am_i(new)
    store_login(new)
    print(visible(f"logged in to {url} with the token {names.token} of {names.owner}"))
    if before and before.is_own and before.token != new.token:
        _end(before)
    way = way_of(settings)
    if way.api is None or way.api[:2] != new[:2]:
        warn(f"commands here use {way_in_words(way)}")


@click.command(epilog=examples("warren logout"))
def logout() -> None:
    """End what `warren login` has begun, here and at the API.

    A token that you gave to `warren login` stays valid until it is revoked.
    """
    before = stored_login()
    if before and before.is_own:
        _end(before)
    print(f"logged out; {login_file()} is gone" if forget_login() else "not logged in")


def _way() -> str:
    if not sys.stdin.isatty():
        return TOKEN
    return BROWSER if has_browser() else CODE


def _given(url: str) -> Login:
    token = getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
    words = (
        "expected the token to be what `warren tokens add` printed; "
        "without one, sign in: warren login URL --by code"
    )
    return Login(url, _checked(token.strip(), check_api_token, words))


def _login_before() -> Login | None:
    """Return the login that is there; None also for a broken one, which is about to be replaced."""
    try:
        return stored_login()
    except CommandError:
        return None


def _end(old: Login) -> None:
    """Revoke the token of a login; it may be invalid already, and its API may be gone."""
    if problem := end_token(old):
        warn(f"the token of the login to {old.url} may still be valid: {problem}")


def _checked(text: str, check: Callable[[str], str], words: str) -> str:
    try:
        return check(text)
    except ValueError as error:
        raise CommandError(words) from error

"""`warren login` and `warren logout`: the API that commands use from this account."""

import sys
from collections.abc import Callable
from getpass import getpass

import click

from warren.command_line.browser_login import log_in_by_browser, log_in_by_code
from warren.command_options import examples, takes_settings
from warren.connect import end_token, way_in_words, way_of, who_am_i
from warren.errors import CommandError
from warren.resources.accounts import LOGIN_DAYS, MAX_LOGIN_DAYS
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
    """Let commands use the API at URL as you, who allow it in the console.

    Opens the console in your browser; without one, prints where to enter a code. If standard input
    is no terminal, a token is read from it. URL and token are kept in a file that only you can
    read. WARREN_API_URL and WARREN_API_TOKEN win over it.
    """
    url = _checked(url, check_console_url, f"expected an http(s) URL, got: {url!r}")
    by = by or _way()
    if by == TOKEN and days is not None:
        raise click.UsageError("--days is for --by browser and --by code; a token has its own end")
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

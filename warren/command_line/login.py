"""`warren login` and `warren logout`: the API that commands use from this account."""

import sys
from collections.abc import Callable
from getpass import getpass

import click

from warren.command_options import examples, takes_settings
from warren.connect import way_in_words, way_of, who_am_i
from warren.errors import CommandError
from warren.settings.login import Login, forget_login, login_file, store_login
from warren.settings.setting_rules import check_api_token, check_console_url
from warren.settings.settings import Settings
from warren.terminal.output import visible, warn


@click.command(
    epilog=examples(
        "warren login https://warren.example.com",
        "warren login https://warren.example.com < token.txt",
    )
)
@click.argument("url")
@takes_settings()
def login(settings: Settings, url: str) -> None:
    """Let commands use the API at URL, with a token that is asked for or read from standard input.

    Both are kept in a file that only you can read. WARREN_API_URL and WARREN_API_TOKEN win over it.
    """
    url = _checked(url, check_console_url, f"expected an http(s) URL, got: {url!r}")
    token = getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
    words = "expected the token to be what `warren tokens add` printed"
    new = Login(url, _checked(token.strip(), check_api_token, words))
    names = who_am_i(new)
    store_login(new)
    print(visible(f"logged in to {url} with the token {names.token} of {names.owner}"))
    way = way_of(settings)
    if way.api != new:
        warn(f"commands here use {way_in_words(way)}")


@click.command(epilog=examples("warren logout"))
def logout() -> None:
    """Forget what `warren login` has stored. The token stays valid until it is revoked."""
    print(f"logged out; {login_file()} is gone" if forget_login() else "not logged in")


def _checked(text: str, check: Callable[[str], str], words: str) -> str:
    try:
        return check(text)
    except ValueError as error:
        raise CommandError(words) from error

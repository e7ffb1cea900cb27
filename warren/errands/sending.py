"""Sends errands, by the API or on the database: short commands ask here for what they print."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from warren.errors import SettingsError
from warren.settings.login import Login, stored_login
from warren.settings.settings import DATABASE_FILE, PREFIX, Settings
from warren.terminal.output import Output, print_output


class Way(NamedTuple):
    """The way that commands take here: an API, or None = the database; and what decided it."""

    api: Login | None
    because: str


def way_of(settings: Settings) -> Way:
    """Return the way of commands.

    A flag comes first, then the settings for an API, then the database: the one that is set, or
    that of `warren up` in this folder; and then what `warren login` has stored.

    Raises:
        SettingsError: there is an API's URL, but no token for it.
        CommandError: the stored login cannot be used.

    """
    if "database_url" in settings.by_flag:
        return Way(None, "--database-url")
    if settings.api_url:
        return _api_of_settings(settings.api_url, settings.api_token)
    if settings.database_url:
        return Way(None, f"{PREFIX}DATABASE_URL")
    if DATABASE_FILE.exists():
        return Way(None, str(DATABASE_FILE))
    login = stored_login()
    return Way(login, "warren login" if login else "nothing is set")


def _api_of_settings(url: str, token: str | None) -> Way:
    variable = f"{PREFIX}API_URL"
    if token:
        return Way(Login(url, token), f"{variable} and {PREFIX}API_TOKEN")
    login = stored_login()
    if login is None or login.url != url:
        words = "expected what `warren tokens add` printed, it is not set"
        raise SettingsError([f"{PREFIX}API_TOKEN: {words}"])
    return Way(login, f"{variable} and warren login")


def way_in_words(way: Way) -> str:
    """Return where commands go, and why."""
    return f"{f'the API at {way.api.url}' if way.api else 'the database'}, by {way.because}"


class Sender(Protocol):
    """Does errands on a database, or by an API."""

    def send(self, name: str, /, **options: Any) -> Output:
        """Do an errand and return its output.

        Raises:
            Exception: whatever was wrong.

        """


@contextmanager
def open_sender(settings: Settings) -> Iterator[Sender]:
    """Yield the sender that the settings ask for."""
    api = way_of(settings).api
    if api is not None:
        from warren.errands.by_api import ApiSender  # noqa: PLC0415 - commands need one of the two

        with ApiSender(api, settings.timezone) as sender:
            yield sender
        return
    from warren.errands.on_database import DatabaseSender  # noqa: PLC0415 - as above

    with DatabaseSender(settings) as sender:
        yield sender


def send(settings: Settings, name: str, /, **options: Any) -> int:
    """Do an errand, print its output and return the exit status."""
    with open_sender(settings) as sender:
        output = sender.send(name, **options)
    print_output(output)
    return output.status

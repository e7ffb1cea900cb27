"""Which way errands go: to this installation's database, or to an API."""

from typing import NamedTuple

from warren.errors import SettingsError
from warren.settings.login import Login, stored_login
from warren.settings.settings import DATABASE_FILE, PREFIX, Settings


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

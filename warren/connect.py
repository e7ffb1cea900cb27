"""Connects short commands with Warren: with an API, or in this process with its database.

A command calls a client, and prints what it returns; it does not know which of the two it is.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec

from warren import __version__
from warren.client import ApiError, Client
from warren.client.exchange import Exchange, Request, Response, placed
from warren.errors import CommandError, SettingsError, WarrenError
from warren.resources.accounts import LoginAnswer, LoginAsked, LoginProof, LoginWish, WhoAmI
from warren.settings.login import Login, stored_login
from warren.settings.settings import DATABASE_FILE, PREFIX, Settings

_UNAUTHORIZED, _INVALID = 401, 422
#: What APIs of other versions say to a field or parameter, a path and a method that they lack.
_UNKNOWN_FIELD, _NOT_FOUND, _NOT_ALLOWED = 400, 404, 405


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


@contextmanager
def connect(settings: Settings) -> Iterator[Client]:
    """Yield a client of what the settings ask for.

    Raises:
        CommandError: it refused a call, did not answer, or is of another version.

    """
    api = way_of(settings).api
    if api is None:
        from warren.client.in_process import in_process  # noqa: PLC0415 - most of Warren

        with in_process(settings) as client:
            try:
                yield client
            except ApiError as error:
                raise _of_files(error) or CommandError(_refusal(error) or str(error)) from error
        return
    with _client_of(api) as client:
        yield client


def who_am_i(api: Login) -> WhoAmI:
    """Return what the token of a login may do.

    Raises:
        CommandError: the API refused it, did not answer, or is none of Warren's.

    """
    with _client_of(api) as client:
        try:
            return msgspec.convert(client.read("/whoami"), WhoAmI)
        except msgspec.ValidationError as error:
            words = f"{api.url}: expected Warren's API there, got another answer"
            raise CommandError(words) from error


def ask_for_login(url: str, wish: LoginWish) -> LoginAsked:
    """Tell an API that a command wants a token of the user in front of it.

    Raises:
        CommandError: the API refused, did not answer, or is none of Warren's.

    """
    return _posted(url, "/logins", wish, LoginAsked)


def login_answer(url: str, proof: LoginProof) -> LoginAnswer:
    """Return what has become of a login.

    Raises:
        CommandError: its time is up, or the API did not answer.

    """
    return _posted(url, "/logins/token", proof, LoginAnswer)


def end_token(api: Login) -> str:
    """Revoke the token of a login; return why it may still be valid, empty if it is not."""
    try:
        with Client(api.url, api.token) as client:
            client.complete(_sent(Request(method="DELETE", path="/whoami/token")))
    except ApiError as error:
        return "" if error.status == _UNAUTHORIZED else words_of(error, api)
    except ValueError as error:
        return str(error)
    return ""


Answer = TypeVar("Answer")


def _posted(url: str, path: str, body: msgspec.Struct, answer: type[Answer]) -> Answer:
    """Return an answer to somebody who has no token yet."""
    request = Request(method="POST", path=path, body=msgspec.json.encode(body))
    with _client_of(Login(url, "")) as client:
        response = client.complete(_sent(request))
        return response.value(answer)


def _sent(request: Request) -> Exchange[Response]:
    response: Response = yield request
    return response


@contextmanager
def _client_of(api: Login) -> Iterator[Client]:
    try:
        client = Client(api.url, api.token, waits_for_room=False)
    except ValueError as error:
        raise CommandError(f"{api.url}: {error}") from error
    with client:
        try:
            yield client
        except ApiError as error:
            raise _of_files(error) or CommandError(words_of(error, api)) from error


def _of_files(error: ApiError) -> WarrenError | None:
    """Return what is wrong with job files, a line each with its place; None = nothing is."""
    lines = [placed(each) for each in error.problem.get("errors", ()) if "file" in each]
    return WarrenError(lines) if lines else None


def words_of(error: ApiError, api: Login) -> str:
    """Return in one line what an API refused, or why it did not answer."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{api.url}: its certificate is not trusted: {cause.verify_message}"
    if error.status == _UNAUTHORIZED:
        return f"{api.url} refused the token: {error}; `warren login` stores another one"
    is_older = f"it is older than this warren, {__version__}"
    if error.problem.get("type") == "about:blank":
        if error.status in {_NOT_FOUND, _NOT_ALLOWED}:
            return f"{api.url} does not know this command: {is_older}"
        if error.status == _UNKNOWN_FIELD:
            return f"{api.url} does not know all of this command: {is_older} ({error})"
    if not error.status or "address" in error.problem:  # it names the address itself
        return str(error)
    return _refusal(error) or f"{api.url}: {error}"


def _refusal(error: ApiError) -> str:
    """Return what is wrong with what was asked, wherever that went; empty if nothing is.

    People gave options, so no place in a body or query is named.
    """
    places = {"pointer", "parameter"} if error.status == _INVALID else {"pointer"}
    errors = error.problem.get("errors", ())
    details = [each["detail"] for each in errors if places & each.keys()]
    is_rule = str(error.problem.get("type", "")).startswith("urn:warren:problem:")
    return "; ".join(details) or (str(error) if is_rule else "")

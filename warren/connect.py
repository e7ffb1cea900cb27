"""Connects short commands with Warren: with an API, or in this process with its database.

A command calls a client, and prints what it returns; it does not know which of the two it is.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from warren import __version__
from warren.client import ApiError, Client
from warren.client.answers import placed
from warren.errands.sending import way_of
from warren.errors import CommandError, WarrenError
from warren.settings.login import Login
from warren.settings.settings import Settings

_UNAUTHORIZED, _NOT_FOUND, _INVALID = 401, 404, 422


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
    if error.status == _NOT_FOUND and error.problem.get("type") == "about:blank":
        return f"{api.url} does not know this command: it is older than this warren, {__version__}"
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

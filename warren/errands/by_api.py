"""Does errands by an API, with the base installation alone."""

import ssl
import uuid
from typing import Any, NoReturn, Self

import click
import msgspec

from warren import __version__
from warren.client import ApiError, Client
from warren.client.exchange import Exchange, Request
from warren.errands.table import ERRANDS
from warren.errors import CommandError, WarrenError
from warren.settings.login import Login
from warren.terminal.output import Output

#: How many seconds longer than usual an errand may take: a job file of 70,000 jobs, for example.
_LONGER_SECONDS = 300
_WRONG_USAGE = 2
_UNAUTHORIZED, _NOT_FOUND = 401, 404


class TokenNames(msgspec.Struct):
    """The name of a token, and of the user whose it is."""

    token: str
    owner: str


class ApiSender:
    """Sends errands to an API; `timezone` is that of the times which the user reads and writes."""

    def __init__(self, login: Login, timezone: str) -> None:
        self._url = login.url
        self._timezone = timezone
        try:
            self._client = Client(login.url, login.token)
        except ValueError as error:
            raise CommandError(f"{login.url}: {error}") from error

    def __enter__(self) -> Self:
        """Return the sender, whose connections are closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def send(self, name: str, /, **options: Any) -> Output:
        """Do an errand and return its output.

        Raises:
            WarrenError: the API refused it, did not answer, or is of another version.
            UsageError: an option is wrong.

        """
        output = self._call(_errand(name, options, self._timezone))
        if output.errors and output.status == _WRONG_USAGE:
            raise click.UsageError("; ".join(output.errors))
        if output.errors:
            raise WarrenError(output.errors)
        return output

    def who_am_i(self) -> TokenNames:
        """Return what the API says of the token."""
        try:
            return msgspec.convert(self._client.read("/whoami"), TokenNames)
        except ApiError as error:
            self._refuse(error)
        except msgspec.ValidationError as error:
            words = f"{self._url}: expected Warren's API there, got another answer"
            raise CommandError(words) from error

    def _call(self, exchange: Exchange[Output]) -> Output:
        try:
            return self._client.complete(exchange)
        except ApiError as error:
            self._refuse(error)

    def _refuse(self, error: ApiError) -> NoReturn:
        """Raise what to tell the user about an error, in one line."""
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            words = f"{self._url}: its certificate is not trusted: {cause.verify_message}"
        elif not error.status or "address" in error.problem:  # it names the address itself
            words = str(error)
        elif error.status == _UNAUTHORIZED:
            words = f"{self._url} refused the token: {error}; `warren login` stores another one"
        elif error.status == _NOT_FOUND and error.problem.get("type") == "about:blank":
            words = (
                f"{self._url} does not know this command: it is older than this warren, "
                f"{__version__}"
            )
        else:
            words = f"{self._url}: {error}"
        raise CommandError(words) from error


def _errand(name: str, options: dict[str, Any], timezone: str) -> Exchange[Output]:
    # An older API knows nothing of new options, and need not if they are not given.
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    response = yield Request(
        method="POST",
        path=f"/terminal/{ERRANDS[name].scope}/{name}",
        body=msgspec.json.encode({"options": given, "timezone": timezone}),
        headers={"Idempotency-Key": str(uuid.uuid4())},
        wait_seconds=_LONGER_SECONDS,
    )
    try:
        output: Output = msgspec.json.decode(response.body, type=Output)
    except msgspec.ValidationError as error:
        words = {"detail": f"its answer is not understood; it is newer than warren {__version__}"}
        raise ApiError(response.status, words) from error
    except msgspec.DecodeError:
        output = response.value(Output)  # it raises: this is no answer of Warren's
    return output

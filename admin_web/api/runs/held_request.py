"""A request without a thread: what the server that holds it and the application agree on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from flask import Request

from warren.admin_web.api.runs.wait import Wait

#: The key in the WSGI environment of the function that holds a request, if the server has one.
HOLD = "warren.hold"
#: The key of the held request when the server calls the application again.
HELD = "warren.held"


class ApiRequest(Request):
    """A request that knows whether its server can hold it, and whether it was held."""

    def __init__(self, environ: dict[str, Any], *args: Any, **more: Any) -> None:
        super().__init__(environ, *args, **more)
        self.hold: Callable[[HeldRequest], None] | None = environ.get(HOLD)
        self.held: HeldRequest | None = environ.get(HELD)


class HeldConnection(Protocol):
    """The connection of a held request; no method blocks."""

    def fileno(self) -> int:
        """Return its socket, which becomes readable when the client leaves or sends more."""

    def has_left(self) -> bool:
        """Return whether the client has closed it."""

    def resume(self) -> None:
        """Call the application again."""

    def drop(self) -> None:
        """Close it without an answer."""


class Holder(Protocol):
    """Knows all held requests."""

    def begin(self, held: "HeldRequest", connection: HeldConnection) -> None:
        """Wait on this connection."""

    def end(self, held: "HeldRequest") -> None:
        """Give up."""


@dataclass(eq=False, slots=True, kw_only=True)
class HeldRequest:
    """A waiting request, and its connection once the server has put it aside."""

    polling: Holder
    user_id: int
    wait: Wait
    end_at: float
    poll_at: float

    def begin(self, connection: HeldConnection) -> None:
        """Wait on this connection; the server calls it once it has put it aside."""
        self.polling.begin(self, connection)

    def cancel(self) -> None:
        """Give up; the server calls it if it cannot put the connection aside."""
        self.polling.end(self)

"""What is refused before a command is asked, as an exception with everything that is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any


class Refusal(Exception):
    """A request that is refused: the status, in words why, and each thing that is wrong.

    An error has `pointer`, a JSON pointer into the body, or `parameter`, and `detail`.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})


def at_parameter(name: str, detail: str, status: int = 422) -> Refusal:
    """Return the refusal of one parameter of the query, or of one header."""
    return Refusal(status, detail, errors=[{"parameter": name, "detail": detail}])

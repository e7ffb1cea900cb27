"""Requests that are refused before any command runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from warren.scheduler.problems import Refused


class Refusal(Exception):
    """A refused request: the status, the reason, and every single problem.

    A problem has `detail`, and `pointer`, a JSON pointer into the body, `line` of a YAML body, or
    `parameter`.
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


class PreconditionFailed(Refused):
    """What is stored does not match the request's If-Match or If-None-Match."""


def at_parameter(name: str, detail: str, status: int = 422) -> Refusal:
    """Return the refusal of a query parameter or header."""
    return Refusal(status, detail, errors=[{"parameter": name, "detail": detail}])

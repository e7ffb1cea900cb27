"""Refusals and errors as `application/problem+json` (RFC 9457): no traces, queries or secrets."""

import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import repeat
from typing import Any

import msgspec
import structlog
from flask import Flask, request
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.wrappers import Response

from warren.admin_web.api.endpoint import BASE
from warren.scheduler.problems import Code, Problem, ProblemKind, Refused, lookup_problem
from warren.sql.errors import DatabaseUnavailable, LookupFailed

#: The status of an answer that refuses, by the kind of its first problem.
HTTP_STATUS = {
    ProblemKind.INVALID: 422,
    ProblemKind.UNKNOWN: 404,
    ProblemKind.CONFLICT: 409,
    ProblemKind.FORBIDDEN: 403,
}


class Refusal(Exception):
    """A refused request: its status, the reason, and each single problem.

    A problem has `detail`, and `pointer`, a JSON pointer into the body, `line` of a YAML body,
    `line` and `file` if there are several, or `parameter`.
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


class PlacedRefused(Refused):
    """What was refused of job files; `places` have the line of each problem, and its file."""

    def __init__(self, problems: Sequence[Problem], places: Sequence[dict[str, Any]]) -> None:
        super().__init__(problems)
        self.places = places


def at_parameter(name: str, detail: str, status: int = 422) -> Refusal:
    """Return the refusal of a query parameter or header."""
    return Refusal(status, detail, errors=[{"parameter": name, "detail": detail}])


def at_pointer(pointer: str, detail: str, status: int = 422) -> Refusal:
    """Return the refusal of a field of the body, by its JSON pointer."""
    return Refusal(status, detail, errors=[{"pointer": pointer, "detail": detail}])


MEDIA = "application/problem+json"
#: What command lines asked before they used the paths of everybody.
_ERRANDS = f"{BASE}/terminal/"
RETRY_SECONDS = 2
#: When to try again after as many runs of a job waited as may.
WAITING_SECONDS = 5
TOO_MANY = HTTPStatus.TOO_MANY_REQUESTS
#: Codes with a more specific status than that of their kind.
_OWN_STATUS = {Code.JOB_CHANGED: 412, Code.TOO_MANY_WAITING: 429}
#: Problems that the caller's answer to a question solves.
_QUESTIONS = {Code.RERUN_CHILDREN}
#: Names from RFC 9110 that Python has only since 3.13.
_PHRASES = {413: "Content Too Large", 422: "Unprocessable Content"}

log = structlog.get_logger()


class Detail(msgspec.Struct, omit_defaults=True):
    """One problem, where it is, and its code if it breaks a rule; `facts` are what to ask about."""

    detail: str
    pointer: str | None = None
    line: int | None = None
    file: str | None = None
    parameter: str | None = None
    code: str | None = None
    facts: dict[str, str] | None = None


class ProblemBody(msgspec.Struct):
    """The body of every error; the log contains the number in `instance`."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[Detail]


class ProblemAnswers:
    """Turns every error, including those of libraries, into a problem; `version` is of Warren."""

    def __init__(self, version: str) -> None:
        self._version = version

    def install(self, app: Flask, *, is_remote: bool = True) -> None:
        """Handle an app's errors; the caller in the same process is told of those that are ours."""
        app.register_error_handler(HTTPException, self.known)
        app.register_error_handler(Refusal, self.refusal)
        app.register_error_handler(Refused, self.refused)
        app.register_error_handler(LookupFailed, self.lookup_failed)
        if is_remote:
            app.register_error_handler(DatabaseUnavailable, self.database_lost)
            app.register_error_handler(Exception, self.unexpected)
        else:
            app.config["PROPAGATE_EXCEPTIONS"] = True

    def known(self, error: HTTPException) -> Response:
        """Answer an HTTP error."""
        if error.code is None or error.code < 400:  # noqa: PLR2004 - a redirect is no error
            return error.get_response()
        headers = {
            name: value
            for name, value in error.get_headers()
            if name.lower() in {"allow", "retry-after"}
        }
        if error.code == HTTPStatus.METHOD_NOT_ALLOWED and "Allow" in headers:
            headers["Allow"] = ", ".join(sorted({*headers["Allow"].split(", "), "OPTIONS"}))
            if request.method == "OPTIONS":
                return Response(status=HTTPStatus.NO_CONTENT, headers=headers)
        words = error.description or ""
        if request.path.startswith(_ERRANDS):
            words = f"this command line is older than this API: Warren {self._version}; upgrade it"
            return problem(HTTPStatus.GONE, words)
        if "Allow" in headers:
            words = f"{request.path} takes no {request.method}, only {headers['Allow']}"
        elif isinstance(error, NotFound) and words == NotFound.description:  # no route has the path
            words = f"the API has no {request.path}; {BASE}/openapi.json has all its paths"
        return problem(error.code, words, headers=headers)

    def refusal(self, error: Refusal) -> Response:
        """Answer a request that was refused before any command."""
        return problem(error.status, error.detail, errors=error.errors, headers=error.headers)

    def refused(self, error: Refused, hint: str = "") -> Response:
        """Answer what a command refused: every problem, with its place in the body."""
        first = error.problems[0]
        status = _OWN_STATUS.get(first.code, HTTP_STATUS[first.code.kind])
        if isinstance(error, PreconditionFailed):
            status = 412
        places = error.places if isinstance(error, PlacedRefused) else repeat(dict[str, Any]())
        return problem(
            status,
            f"{error}{hint}",
            errors=[
                error_detail(problem_, hint=hint) | place
                for problem_, place in zip(error.problems, places, strict=False)
            ],
            headers={"Retry-After": str(WAITING_SECONDS)} if status == TOO_MANY else {},
            code=first.code,
        )

    def lookup_failed(self, error: LookupFailed) -> Response:
        """Answer that something does not exist, or belongs to an app the token may not see."""
        near = error.facts.get("near")
        return self.refused(lookup_problem(error), f", did you mean {near!r}?" if near else "")

    def database_lost(self, error: DatabaseUnavailable) -> Response:
        """Answer that the database is unavailable; the client may try again."""
        number = _number()
        log.warning("api_call_not_served", path=_path(), number=number, error=str(error))
        words = (
            "the database is not responding; check whether the change was made before you try again"
        )
        if request.method in ("GET", "HEAD"):
            words = "the database is not responding"
        return problem(503, words, number=number, headers={"Retry-After": str(RETRY_SECONDS)})

    def unexpected(self, error: Exception) -> Response:
        """Answer with a number that can be found in the log."""
        number = _number()
        log.error("api_call_failed", path=_path(), number=number, exc_info=error)
        return problem(500, f"internal error; the log has it under number {number}", number)


def error_detail(problem_: Problem, prefix: str = "", hint: str = "") -> dict[str, Any]:
    """Return a problem with its JSON pointer, which starts with `prefix`, and a hint."""
    pointer = f"{prefix}/{problem_.field}" if problem_.field else prefix
    said = {"pointer": pointer, "detail": f"{problem_}{hint}", "code": problem_.code.name.lower()}
    if problem_.code not in _QUESTIONS:
        return said
    return said | {"facts": {name: str(fact) for name, fact in problem_.facts.items()}}


def problem(
    status: int,
    detail: str,
    number: str = "",
    *,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
    code: Code | None = None,
) -> Response:
    """Return a problem as an answer."""
    kind = f"urn:warren:problem:{code.name.lower()}" if code else "about:blank"
    body = ProblemBody(
        type=kind,
        title=_PHRASES.get(status) or HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=f"urn:warren:error:{number}" if number else _path(),
        errors=[msgspec.convert(error, Detail) for error in errors],
    )
    answer = Response(msgspec.json.encode(body), status=status, content_type=MEDIA)
    answer.headers.update(headers or {})
    return answer


def _number() -> str:
    return secrets.token_hex(4)


def _path() -> str:
    return request.path[:200].encode(errors="replace").decode()

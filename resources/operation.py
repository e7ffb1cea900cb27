"""Operations: what can be asked of Warren, each declared once.

A function without a body declares one: what it takes is what a caller gives, what it returns is the
answer, and its docstring says what it does. The API's route and its description, the calls of both
clients and the help of the command line come of it.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import msgspec

P = ParamSpec("P")
T = TypeVar("T")
#: The types that bodies and answers may have.
JSON, MERGE_PATCH, YAML, TEXT = (
    "application/json",
    "application/merge-patch+json",
    "application/yaml",
    "text/plain",
)
#: The header in which each answer says what the database's clock shows, in epoch milliseconds.
CLOCK_HEADER = "Warren-Clock"
#: The most bytes of a body; a job file may have more.
BODY_BYTES = 1_000_000
#: Items of a page by default and at most.
DEFAULT_LIMIT, MAX_LIMIT = 50, 200
#: A word to filter by.
Word = Annotated[str, msgspec.Meta(max_length=255)]
#: A date in a request.
Day = Annotated[
    str,
    msgspec.Meta(
        max_length=32,
        description="A date, such as `2026-12-01`.",
        extra_json_schema={"format": "date"},
    ),
]
#: A point in time in a request.
InstantText = Annotated[
    str, msgspec.Meta(max_length=64, description="ISO 8601 with an offset, or `Z`.")
]
#: Ids are below this everywhere.
LARGEST_ID = 2**53
#: The id of what a list belongs to.
Id = Annotated[int, msgspec.Meta(ge=1, lt=LARGEST_ID)]
KEY_HEADER = {
    "Idempotency-Key": "1 to 128 visible characters; a key triggers only one run within a day."
}

#: A key as that header takes it.
IS_KEY = re.compile(r"[\x21-\x7e]{1,128}").fullmatch
KEY_RULE = "1 to 128 visible ASCII characters"


class Scope(StrEnum):
    """A part of the API that a token gives access to."""

    #: Read everything except logs and secrets.
    READ = "read"
    #: Read the output of runs.
    LOGS = "logs"
    #: Run jobs.
    TRIGGER = "trigger"
    #: Start and stop jobs, kill runs, drain executors, pause apps.
    OPERATE = "operate"
    #: Create, change and delete jobs.
    WRITE = "write"
    #: Change scripts too, and so run any program.
    SCRIPTS = "scripts"
    #: Apps, pausing everything, the audit log.
    ADMIN = "admin"


class OpenAccess(StrEnum):
    """Who may ask for what needs no scope."""

    #: Everybody, without a token; the documentation is public too.
    ANYONE = "anyone"
    #: Holders of any valid token.
    ANY_TOKEN = "any token"  # noqa: S105 - not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an operation is found in the API, who may call it, what it takes and returns.

    `query`, `body` and `answer` are types for msgspec; `status` is that of success;
    `other_answers` are descriptions by status. `headers` are the request headers it reads, with
    their descriptions; `media` are the types its body may have, and `answer_media` those of its
    answer. `is_heavy`: it is expensive, so only few run at a time. `needs_whole_apps`: it concerns
    whole apps, so tokens for single jobs are refused.
    """

    method: str
    rule: str
    access: Scope | OpenAccess
    answer: Any
    status: int = 200
    query: type | None = None
    body: type | None = None
    body_bytes: int = BODY_BYTES
    media: tuple[str, ...] = (JSON,)
    answer_media: tuple[str, ...] = (JSON,)
    other_answers: Mapping[int, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_conditional: bool = False
    is_heavy: bool = False
    needs_whole_apps: bool = False


@dataclass(frozen=True, slots=True)
class Operation(Generic[P, T]):
    """An operation: its declaration, and where it is found in the API.

    `item` is the type of a list's items, None = its answer is no list.
    """

    declared: Callable[P, T]
    endpoint: Endpoint
    item: Any = None

    @property
    def about(self) -> str:
        """What it does, in one sentence and perhaps more."""
        return inspect.getdoc(self.declared) or ""

    def given(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Return what a caller gives, by name; raises TypeError for what does not fit."""
        bound = inspect.signature(self.declared).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments


def operation(
    method: str, rule: str, access: Scope | OpenAccess, **more: Any
) -> Callable[[Callable[P, T]], Operation[P, T]]:
    """Declare an operation.

    The first parameters fill in the variables of the path, in order; the others are fields of the
    body, or of the query if there is no body. A list comes in pages. `more` is as for `Endpoint`.
    """

    def declare(function: Callable[P, T]) -> Operation[P, T]:
        answer = get_type_hints(function)["return"]
        item = get_args(answer)[0] if get_origin(answer) is list else None
        if item is not None:
            answer = page_type(item)
            more.setdefault("query", PageQuery)
        elif answer is type(None):
            answer = None
            more.setdefault("status", 204)
        endpoint = Endpoint(method=method, rule=rule, access=access, answer=answer, **more)
        return Operation(function, endpoint, item)

    return declare


class PageQuery(msgspec.Struct, kw_only=True):
    """A list without a filter."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT, description="Items of a page.")] = (
        DEFAULT_LIMIT
    )
    cursor: Annotated[str | None, msgspec.Meta(description="`next` of the previous page.")] = None


@cache
def page_type(kind: Any) -> Any:
    """Return the type of a page of items of one type."""
    name = f"{kind.__name__}Page"
    return msgspec.defstruct(name, [("items", list[kind]), ("next", str | None)], kw_only=True)

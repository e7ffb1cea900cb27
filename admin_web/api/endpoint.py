"""How views become routes: a mark at each view has its method, path, scope and types."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from warren.scheduler.actor import Actor
from warren.scheduler.commands.tokens.scopes import RIGHTS, Scope

View = TypeVar("View", bound=Callable[..., Any])
_MARK = "warren_endpoint"
BASE = "/api/v1"
JSON, MERGE_PATCH, YAML, TEXT = (
    "application/json",
    "application/merge-patch+json",
    "application/yaml",
    "text/plain",
)
#: The most bytes of a body; a job file may have more.
BODY_BYTES = 1_000_000


class OpenAccess(StrEnum):
    """Who may call a view that needs no scope."""

    #: Everybody, without a token; the documentation is public too.
    ANYONE = "anyone"
    #: Holders of any valid token.
    ANY_TOKEN = "any token"  # noqa: S105 - not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a view is found, who may call it, what it takes and returns.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """A view with its mark: the routes and the document are made from these."""

    name: str
    group: str
    endpoint: Endpoint
    view: Callable[..., Any]


@dataclass(slots=True, kw_only=True)
class Call:
    """One admitted request: its caller, and what was read from it."""

    actor: Actor
    user_id: int
    token_name: str
    owner: str
    scopes: frozenset[Scope]
    query: Any = None
    body: Any = None
    raw: bytes = b""

    def has(self, scope: Scope) -> bool:
        """Return whether the token has a scope."""
        return scope in self.scopes

    def may(self, scope: Scope) -> bool:
        """Return whether token and owner both have what a scope requires."""
        return self.has(scope) and self.actor.may(RIGHTS[scope])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer with its own status or headers; bytes are sent as they are, the rest as JSON."""

    value: Any = None
    status: int | None = None
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class Group(Protocol):
    """Views that belong together: an object whose marked methods are views."""

    @property
    def name(self) -> str:
        """The first part of the endpoints' names, and their tag in the document."""


def endpoint(
    method: str, rule: str, access: Scope | OpenAccess, answer: Any, **more: Any
) -> Callable[[View], View]:
    """Mark a method as a view; it takes a Call and the variables of the rule."""
    mark = Endpoint(method=method, rule=rule, access=access, answer=answer, **more)

    def decorate(view: View) -> View:
        setattr(view, _MARK, mark)
        return view

    return decorate


def mounted(groups: Iterable[Group]) -> list[Mounted]:
    """Return the views of all groups, by path and method.

    Raises:
        LookupError: a view has no scope.

    """
    views = [
        Mounted(
            name=f"{group.name}.{name}",
            group=group.name,
            endpoint=mark,
            view=getattr(group, name),
        )
        for group in groups
        for name in dir(type(group))
        if isinstance(mark := getattr(getattr(type(group), name), _MARK, None), Endpoint)
    ]
    shut = [view.name for view in views if not isinstance(view.endpoint.access, Scope | OpenAccess)]
    if shut:
        raise LookupError(f"views without a scope: {', '.join(sorted(shut))}")
    return sorted(views, key=lambda view: (view.endpoint.rule, view.endpoint.method))

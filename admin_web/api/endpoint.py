"""How views become routes: a mark at each view says which operation it carries out."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from warren.resources.operation import JSON, Endpoint, OpenAccess, Operation, Scope
from warren.scheduler.actor import Actor
from warren.scheduler.commands.account_commands import RIGHTS

View = TypeVar("View", bound=Callable[..., Any])
_MARK = "warren_endpoint"
BASE = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """A view with its mark: the routes and the document are made from these.

    `about` is what it does, in one sentence and perhaps more.
    """

    name: str
    group: str
    endpoint: Endpoint
    about: str
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


def serves(operation: Operation[..., Any], **types: Any) -> Callable[[View], View]:
    """Mark the method that carries out an operation; it takes a Call and the path's variables.

    `types` are those of the body or the answer that are generated from the fields of a job.
    """
    return _marked(replace(operation.endpoint, **types), operation.about)


def endpoint(
    method: str, rule: str, access: Scope | OpenAccess, answer: Any, **more: Any
) -> Callable[[View], View]:
    """Mark a method as a view; it takes a Call and the variables of the rule."""
    return _marked(Endpoint(method=method, rule=rule, access=access, answer=answer, **more))


def _marked(mark: Endpoint, about: str = "") -> Callable[[View], View]:
    def decorate(view: View) -> View:
        setattr(view, _MARK, (mark, about or inspect.getdoc(view) or ""))
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
            endpoint=mark[0],
            about=mark[1],
            view=getattr(group, name),
        )
        for group in groups
        for name in dir(type(group))
        if (mark := getattr(getattr(type(group), name), _MARK, None))
    ]
    shut = [view.name for view in views if not isinstance(view.endpoint.access, Scope | OpenAccess)]
    if shut:
        raise LookupError(f"views without a scope: {', '.join(sorted(shut))}")
    return sorted(views, key=lambda view: (view.endpoint.rule, view.endpoint.method))

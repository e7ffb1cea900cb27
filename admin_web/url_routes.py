"""Turns marked methods into routes, and reads the ids in URLs.

Every route names a right, so none is open by mistake.

A console may be at a path of its host, such as https://example.com/warren, behind a reverse proxy.
Inside the application, paths begin below that path. All that leaves the process has it: links,
redirects, assets.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Blueprint, Flask, request
from werkzeug.routing import IntegerConverter, Map

from warren.scheduler.actor import Right

#: The largest key of the database.
LARGEST = 2**63 - 1


class IdConverter(IntegerConverter):
    """`<id:run_id>` in a rule: a number in the range of keys; anything else is 404."""

    regex = "[0-9]{1,19}"

    def __init__(self, url_map: Map) -> None:
        super().__init__(url_map, max=LARGEST)


def read_id(text: str) -> int | None:
    """Parse an id; None if the text cannot be one."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST))
    return int(text) if is_number and 0 < int(text) <= LARGEST else None


def id_argument(name: str) -> int | None:
    """Return an id from the query; None if it is missing or invalid."""
    id_ = request.args.get(name, type=int)
    return id_ if id_ is not None and 0 < id_ <= LARGEST else None


View = TypeVar("View", bound=Callable[..., Any])
_MARK = "warren_route"
#: The key of each endpoint's `form` in an app's configuration.
FORMS = "FORMS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The path and methods of a view, and the right that it requires."""

    rule: str
    right: Right
    methods: tuple[str, ...]
    form: str


class PageGroup(Protocol):
    """Pages that belong together: an object whose marked methods are views."""

    @property
    def name(self) -> str:
        """The first part of the endpoints' names; several groups may share it."""


def route(
    rule: str, right: Right, *, methods: tuple[str, ...] = ("GET",), form: str = ""
) -> Callable[[View], View]:
    """Mark a method as the view of a rule, for visitors with the right.

    `form` is the endpoint of the page whose form is sent here; by default, the page above its path.
    """

    def mark(view: View) -> View:
        setattr(view, _MARK, Route(rule=rule, right=right, methods=methods, form=form))
        return view

    return mark


def mount(app: Flask, groups: Iterable[PageGroup]) -> dict[str, Right]:
    """Add the views of all groups; return the right that each endpoint requires."""
    rights = {"static": Right.ANYONE}
    app.config[FORMS] = {}
    blueprints: dict[str, Blueprint] = {}
    for group in groups:
        blueprint = blueprints.setdefault(group.name, Blueprint(group.name, __name__))
        for name, marked in _marked(group):
            view = getattr(group, name)
            blueprint.add_url_rule(
                marked.rule, endpoint=name, view_func=view, methods=list(marked.methods)
            )
            app.config[FORMS][f"{group.name}.{name}"] = marked.form
            rights[f"{group.name}.{name}"] = marked.right
    for blueprint in blueprints.values():
        app.register_blueprint(blueprint)
    return rights


def _marked(group: PageGroup) -> Iterable[tuple[str, Route]]:
    for name in dir(type(group)):
        mark = getattr(getattr(type(group), name), _MARK, None)
        if isinstance(mark, Route):
            yield name, mark


class BelowPath:
    """Serves an application below a path, whether or not the proxy has removed it.

    Args:
        app: what is served.
        console_url: where people reach it.

    """

    def __init__(self, app: WSGIApplication, console_url: str) -> None:
        self._app = app
        self._root = urlsplit(console_url).path.rstrip("/")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        environ["SCRIPT_NAME"] = self._root
        environ["PATH_INFO"] = below(self._root, environ.get("PATH_INFO", "")) or "/"
        return self._app(environ, start_response)


def below(root: str, path: str) -> str:
    """Return what follows a root in a path; the path itself if it is not below the root."""
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else path


def here() -> str:
    """Return the path of this page as browsers know it."""
    return request.script_root + request.path


def here_with_query() -> str:
    """Return the path of this page as browsers know it, with its query if it has one."""
    return request.script_root + request.full_path.rstrip("?")


def home() -> str:
    """Return the path of the first page."""
    return f"{request.script_root}/"

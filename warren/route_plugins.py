"""Routes added by other distributions: entry points of the group `warren.routes`.

An entry point's name is the route's name in job files; it refers to a function
`(RouteRequest, Random) -> Choice`, or to a `warren.routes.Router`.
"""

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

import structlog

from warren.scheduler.routing.routes import BUILT_IN, Router

GROUP = "warren.routes"
#: The rule for names of routes; the column has 50 characters.
NAME = re.compile(r"[A-Z][A-Z0-9_]{0,49}")

log = structlog.get_logger()


def route_names() -> tuple[str, ...]:
    """Return the names of the installed routes that are not built in, without loading them."""
    return tuple(sorted({point.name for point in _points() if not _objection(point)}))


def load_routes() -> dict[str, Router]:
    """Return the installed routes that are not built in, by name.

    Routes that cannot be loaded are logged and left out; runs of their jobs end UNDELIVERED.
    """
    routers, faults = look_for_routes()
    for point, why in faults:
        log.error("route_not_loaded", route=point.name, leads_to=point.value, error=why)
    return routers


def look_for_routes() -> tuple[dict[str, Router], list[tuple[EntryPoint, str]]]:
    """Return the routes by name, and the entry points that cannot be used, with reasons."""
    routers: dict[str, Router] = {}
    faults = []
    for point in _points():
        try:
            router = _load(point)
        except Exception as error:  # noqa: BLE001 - foreign code
            faults.append((point, f"{type(error).__name__}: {error}"))
            continue
        if point.name in routers:
            faults.append((point, "another distribution has a route of that name"))
        else:
            routers[point.name] = router
    return routers, faults


def _points() -> Iterator[EntryPoint]:
    yield from sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))


def _objection(point: EntryPoint) -> str:
    if point.name in BUILT_IN:
        return f"{point.name} is XXL-JOB's own"
    if not NAME.fullmatch(point.name):
        return f"expected the name of a route to be {NAME.pattern}, got: {point.name[:100]!r}"
    return ""


def _load(point: EntryPoint) -> Router:
    if objection := _objection(point):
        raise ValueError(objection)
    loaded = point.load()
    if isinstance(loaded, Router):
        return loaded
    if callable(loaded):
        return Router(loaded)
    raise TypeError(f"expected a function or a Router, got: {loaded!r:.100}")

"""Answer types derived from the views of `warren.scheduler.views`."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from warren.scheduler.views.to_json import to_json


def answer_type(
    name: str,
    view: type[NamedTuple],
    *,
    without: Collection[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Any:
    """Return the type of the JSON that `to_json` makes of a view; `more` are additional fields."""
    hints = get_type_hints(view)
    fields = [(field, _json(field, hints[field])) for field in view._fields if field not in without]
    return msgspec.defstruct(name, [*fields, *(more or {}).items()], kw_only=True)


def to_answer(kind: Any, view: NamedTuple, **more: Any) -> Any:
    """Return a view as a value of the answer type derived from it."""
    return kind(**to_json(view, without=set(view._fields) - set(kind.__struct_fields__)), **more)


def page_type(kind: Any) -> Any:
    """Return the type of a page of items of one type."""
    name = f"{kind.__name__}Page"
    return msgspec.defstruct(name, [("items", list[kind]), ("next", str | None)], kw_only=True)


def _json(name: str, kind: Any) -> Any:
    """Return the type that a field has in JSON."""
    if name.endswith("_at"):
        return str | None
    if any(getattr(part, "__origin__", None) is tuple for part in (kind, *get_args(kind))):
        return list[str] | None if type(None) in get_args(kind) else list[str]
    return kind

"""Why a value does not fit its type, in one line, as msgspec or pydantic found it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from warren.resources.spelling import did_you_mean

_CHOICE = re.compile(r"Invalid enum value (?P<got>.*?)(?P<at> - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")


def misfit(error: Exception, kind: Any) -> str:
    """Return what is wrong with a value for this type: every problem, and what may be chosen."""
    listed = getattr(error, "errors", None)  # pydantic's
    if callable(listed):
        problems = listed(include_url=False, include_context=False, include_input=False)
        places = [".".join(map(str, problem["loc"])) for problem in problems]
        return "; ".join(
            f"{place}: {problem['msg']}" if place else str(problem["msg"])
            for place, problem in zip(places, problems, strict=True)
        )
    found = _CHOICE.fullmatch(str(error))
    choices = list(_choices(kind, found["path"] or "")) if found else []
    if not found or not choices:
        return str(error)
    near = did_you_mean(found["got"].strip("'"), choices)
    return f"Expected one of {', '.join(choices)}, got: {found['got']}{near}{found['at'] or ''}"


def _choices(kind: Any, path: str) -> Iterator[str]:
    """Yield the values that a type allows at a path such as `.parts[0].mode`."""
    whole = msgspec.json.schema(kind)
    parts = list(_branches(whole, whole))
    for name, index in _STEP.findall(path):
        parts = [
            branch
            for part in parts
            for inner in _within(part, name, index)
            for branch in _branches(whole, inner)
        ]
    for part in parts:
        yield from map(str, part.get("enum", ()))


def _within(part: Mapping[str, Any], name: str, index: str) -> Iterator[Any]:
    if name:
        yield part.get("properties", {}).get(name)
        return
    first = part.get("prefixItems", ())
    yield first[int(index)] if index.isdecimal() and int(index) < len(first) else part.get("items")
    yield part.get("additionalProperties")


def _branches(whole: Mapping[str, Any], part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a part of a schema, with references and alternatives resolved."""
    if not isinstance(part, Mapping):
        return
    if "$ref" in part:
        definition = str(part["$ref"]).rpartition("/")[2]
        yield from _branches(whole, whole.get("$defs", {}).get(definition))
        return
    yield part
    for choice in part.get("anyOf", ()):
        yield from _branches(whole, choice)

"""Finds changes of an OpenAPI document that would break existing programs."""

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]


def broken_promises(old: Document, new: Document) -> list[str]:
    """Return everything that was removed, or is newly required."""
    return [*_paths(old, new), *_schemas(old, new)]


def _paths(old: Document, new: Document) -> Iterator[str]:
    for path, operations in old["paths"].items():
        for method, before in operations.items():
            after = new["paths"].get(path, {}).get(method)
            if after is None:
                yield f"{method} {path} is gone"
                continue
            yield from _operation(f"{method} {path}", before, after)


def _operation(name: str, before: Document, after: Document) -> Iterator[str]:
    if before["x-scope"] != after["x-scope"]:
        yield f"{name} needs scope {after['x-scope']}"
    known = {(one["in"], one["name"]): one for one in before["parameters"]}
    present = {(one["in"], one["name"]): one for one in after["parameters"]}
    for key in known.keys() - present.keys():
        yield f"{name}: parameter {key[1]} is gone"
    for key, one in present.items():
        if one.get("required") and not known.get(key, {}).get("required"):
            yield f"{name}: parameter {key[1]} is needed now"
    for status in before["responses"].keys() - after["responses"].keys():
        yield f"{name}: answer {status} is gone"
    for status, answer in before["responses"].items():
        media = after["responses"].get(status, {}).get("content", {})
        for kind in answer.get("content", {}).keys() - media.keys():
            yield f"{name}: answer {status} as {kind} is gone"
    body, needed = before.get("requestBody"), after.get("requestBody", {})
    if needed.get("required") and not (body or {}).get("required"):
        yield f"{name}: a body is needed now"
    for kind in (body or {}).get("content", {}).keys() - needed.get("content", {}).keys():
        yield f"{name}: a body as {kind} is refused now"


def _schemas(old: Document, new: Document) -> Iterator[str]:
    for name, before in old["components"]["schemas"].items():
        after = new["components"]["schemas"].get(name)
        if after is None:
            yield f"schema {name} is gone"
            continue
        for field in before.get("properties", {}).keys() - after.get("properties", {}).keys():
            yield f"{name}.{field} is gone"
        for field in set(after.get("required", ())) - set(before.get("required", ())):
            if field in before.get("properties", {}) or _is_sent(name):
                yield f"{name}.{field} is needed now"
        for field, kind in before.get("properties", {}).items():
            now = after.get("properties", {}).get(field, {})
            if "type" in kind and "type" in now and kind["type"] != now["type"]:
                yield f"{name}.{field} is {now['type']} now"


def _is_sent(name: str) -> bool:
    return name.endswith("Body")

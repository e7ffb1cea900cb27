"""The API's description in OpenAPI 3.1, generated from the marks of its views and their types.

msgspec turns types into JSON Schema 2020-12, which is what OpenAPI 3.1 uses.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from warren.admin_web.api.endpoint import BASE, Mounted
from warren.admin_web.api.problem_answers import MEDIA, ProblemBody
from warren.resources.operation import JSON, Endpoint, OpenAccess

#: Raised with every change that programs see; within v1 nothing is ever removed.
API_VERSION = "1.0.0"
_REF = "#/components/schemas/{name}"
_USED = re.compile(r"#/components/schemas/(\w+)")
_NAME = re.compile(r"<(?:(\w+):)?(\w+)>")
_ID = {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**53 - 1}
#: Generators take integers without a format for 32 bits, in which ids and milliseconds do not fit.
_NULL = {"type": "null"}
_FORMATS = {"integer": "int64", "number": "double"}
#: Errors that programs have to expect, besides the general one.
_PROBLEMS = {
    422: "the query or the body is invalid, or a rule forbids it; every problem is listed",
    428: "the header `If-Match` or `If-None-Match` is missing",
    429: "too many requests; `Retry-After` tells when to try again",
}
_TEXT = {"type": "string", "minLength": 1}
#: Where msgspec has the types within a type.
_INNER = ("item_type", "value_type", "type")
_ABOUT = """\
Warren for programs. Each call needs a token: `Authorization: Bearer wrn_…`, created by
`warren tokens add`. Times are ISO 8601 in UTC. Lists come in pages: `next` is the `cursor` of the
next page, null at the end. Every error is a problem as in RFC 9457.
"""


def document(views: Sequence[Mounted]) -> dict[str, Any]:
    """Return the description of the views."""
    schemas = _schemas([*dict.fromkeys(_types(views)), ProblemBody])
    paths: dict[str, Any] = {}
    for view in views:
        path = BASE + _NAME.sub(r"{\2}", view.endpoint.rule)
        paths.setdefault(path, {})[view.endpoint.method.lower()] = _operation(view, schemas)
    # Answers may get more fields within v1, so what they share with bodies stays open.
    answered = _within([view.endpoint.answer for view in views], schemas)
    for name in _within([view.endpoint.body for view in views], schemas) - answered:
        schemas[name]["additionalProperties"] = False
    bodies = _within([view.endpoint.body for view in views], schemas)
    for kind in _structs([view.endpoint.answer for view in views if view.endpoint.answer]):
        # Defaults of answers are for clients of older APIs: this one says every field.
        if kind.__name__ not in bodies and not kind.__struct_config__.omit_defaults:
            schemas[kind.__name__]["required"] = [
                field.encode_name
                for field in msgspec.structs.fields(kind)
                if field.default is not msgspec.UNSET
            ]
    queries = {view.endpoint.query.__name__ for view in views if view.endpoint.query is not None}
    shown = {name: schema for name, schema in sorted(schemas.items()) if name not in queries}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Warren",
            "version": API_VERSION,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": group} for group in sorted({view.group for view in views})],
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": shown,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(kinds: Sequence[Any]) -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    for name, schema in schemas.items():
        if "enum" in schema:
            # Go has one space of names for the constants of all enums.
            schema["x-enum-varnames"] = [_constant(name, choice) for choice in schema["enum"]]
        if "description" in schema:
            # A docstring, indented as in the source; Python 3.13 has removed the indentation.
            schema["description"] = inspect.cleandoc(schema["description"])
        _add_formats(schema)
        _join_null(schema)
    return schemas


def _constant(enum: str, choice: str) -> str:
    """Return what generated clients call a choice: `JOIN_ALL` of `Join` and `all`."""
    words = re.findall("[A-Z][a-z]*|[a-z]+", enum) + re.findall(r"\w+", choice)
    return "_".join(words).upper()


def _add_formats(schema: Any) -> None:
    """Add formats to the numbers in a schema, and types to the choices of texts."""
    parts = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict):
        if known := _FORMATS.get(str(schema.get("type"))):
            schema["format"] = known
        if all(isinstance(choice, str) for choice in schema.get("enum", (None,))):
            schema["type"] = "string"
    for part in parts:
        if isinstance(part, dict | list):
            _add_formats(part)


def _join_null(schema: Any) -> None:
    """Say `type: [string, null]` for a choice of one plain type and null.

    Generators of clients make a class of each other choice, and share it among fields that only
    look alike.
    """
    if isinstance(schema, dict):
        kinds = [choice for choice in schema.get("anyOf", ()) if choice != _NULL]
        if len(kinds) == 1 and len(schema["anyOf"]) > 1 and isinstance(kinds[0].get("type"), str):
            del schema["anyOf"]
            schema |= kinds[0] | {"type": [kinds[0]["type"], "null"]}
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list):
            _join_null(part)


def _within(kinds: Iterable[Any], schemas: Mapping[str, Any]) -> set[str]:
    """Return the names of these types, if they have any, and of all objects in them."""
    schema_names: set[str] = set()
    wanted = [name for kind in kinds if (name := getattr(kind, "__name__", "")) in schemas]
    while wanted:
        name = wanted.pop()
        if name not in schema_names and schemas[name].get("type") == "object":
            schema_names.add(name)
            wanted += _USED.findall(str(schemas[name]))
    return schema_names


def _structs(kinds: Sequence[Any]) -> Iterator[Any]:
    """Yield these structs and all in them, each once."""
    seen: set[Any] = set()
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, msgspec.inspect.StructType) and kind.cls not in seen:
            seen.add(kind.cls)
            yield kind.cls
            waiting += [field.type for field in kind.fields]
        waiting += getattr(kind, "types", ())
        waiting += [getattr(kind, name) for name in _INNER if hasattr(kind, name)]


def _types(views: Iterable[Mounted]) -> Iterator[Any]:
    for view in views:
        for kind in (view.endpoint.query, view.endpoint.body, view.endpoint.answer):
            if kind is not None:
                yield kind


def _operation(mounted: Mounted, schemas: dict[str, Any]) -> dict[str, Any]:
    endpoint = mounted.endpoint
    summary, _, more = mounted.about.partition("\n")
    described: dict[str, Any] = {
        "operationId": mounted.name.replace(".", "_"),
        "tags": [mounted.group],
        "summary": summary,
        "x-scope": str(endpoint.access),
        "parameters": [*_names(endpoint), *_query(endpoint, schemas), *_headers(endpoint)],
        "responses": _responses(endpoint),
    }
    if more.strip():
        described["description"] = more.strip()
    if endpoint.access is OpenAccess.ANYONE:
        described["security"] = []
    if endpoint.body is not None:
        schema = {"$ref": _REF.format(name=endpoint.body.__name__)}
        text = {"type": "string"}
        described["requestBody"] = {
            "required": bool(schemas[endpoint.body.__name__].get("required")),
            "content": {
                media: {"schema": schema if media.endswith("json") else text}
                for media in endpoint.media
            },
        }
    return described


def _names(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for kind, name in _NAME.findall(endpoint.rule):
        schema = _ID if kind == "id" else _TEXT
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query(endpoint: Endpoint, schemas: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if endpoint.query is None:
        return
    for name, schema in schemas[endpoint.query.__name__]["properties"].items():
        shown = _without_null({key: value for key, value in schema.items() if key != "default"})
        about = {"description": shown.pop("description")} if "description" in shown else {}
        if schema.get("default") is not None and schema["default"] != []:
            shown = shown | {"default": schema["default"]}
        yield {"name": name, "in": "query", "required": False, "schema": shown, **about}


def _without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter; null is the default of many, but no query has it."""
    shown = dict(schema)
    if isinstance(shown.get("type"), list):
        shown["type"] = next(kind for kind in shown["type"] if kind != "null")
    if "enum" in shown:
        shown["enum"] = [choice for choice in shown["enum"] if choice is not None]
    if "anyOf" in shown:
        shown["anyOf"] = [choice for choice in shown["anyOf"] if choice != _NULL]
    return shown


def _headers(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for name, about in endpoint.headers.items():
        text = {"type": "string"}
        yield {"name": name, "in": "header", "required": False, "schema": text} | {
            "description": about
        }


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    by_status = {str(endpoint.status): _success(endpoint, "success")}
    for status, words in endpoint.other_answers.items():
        is_empty = status == 304  # noqa: PLR2004 - not modified
        by_status[str(status)] = {"description": words} if is_empty else _success(endpoint, words)
    problem = {"schema": {"$ref": _REF.format(name=ProblemBody.__name__)}}
    for status in _problems(endpoint):
        by_status[str(status)] = {"description": _PROBLEMS[status], "content": {MEDIA: problem}}
    by_status["default"] = {"description": "a problem", "content": {MEDIA: problem}}
    return dict(sorted(by_status.items()))


def _problems(endpoint: Endpoint) -> Iterator[int]:
    if endpoint.query is not None or endpoint.body is not None or endpoint.method != "GET":
        yield 422
    if "If-Match" in endpoint.headers:
        yield 428
    if endpoint.access is not OpenAccess.ANYONE:
        yield 429


def _success(endpoint: Endpoint, words: str) -> dict[str, Any]:
    if endpoint.answer is None:
        return {"description": words}
    is_named = isinstance(endpoint.answer, type) and issubclass(endpoint.answer, msgspec.Struct)
    schema = (
        {"$ref": _REF.format(name=endpoint.answer.__name__)} if is_named else {"type": "object"}
    )
    return {
        "description": words,
        "content": {
            media: {"schema": schema if media == JSON else {"type": "string"}}
            for media in endpoint.answer_media
        },
    }

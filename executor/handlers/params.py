"""The params of a typed handler: their type, its JSON Schema, and what a run's param decodes to.

A type is a msgspec struct, a dataclass, a TypedDict or a pydantic model. A run's param is JSON; an
empty one is the empty object.
"""

import inspect
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from warren.broker.messages.catalogue import SCHEMA_BYTES
from warren.executor.handlers.context import NotATypeOfParams, ParamMisfit, Params


def params_of(function: Callable[..., Any]) -> Params | None:
    """Return the params of a handler; None if it takes the context alone.

    Raises:
        NotATypeOfParams: its second argument has no type, or one without a JSON Schema.

    """
    function = inspect.unwrap(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None  # a builtin without a signature
    if len(parameters) < 2:  # noqa: PLR2004 - the context and the params
        return None
    kind = _type_of(function, parameters[1])
    name = getattr(kind, "__name__", repr(kind))
    schema, convert = _pydantic(kind) or _msgspec(kind, name)
    text = msgspec.json.encode(schema).decode()
    if (size := len(text.encode())) > SCHEMA_BYTES:
        raise NotATypeOfParams(
            f"a JSON Schema of at most {SCHEMA_BYTES:,} bytes, got: {size:,} for {name}"
        )
    return Params(name, text, partial(_decode, name, convert))


def _decode(name: str, convert: Callable[[str], Any], param: str) -> Any:
    try:
        return convert(param or "{}")
    except (msgspec.MsgspecError, ValueError) as error:  # pydantic's is the latter
        raise ParamMisfit(f"its param does not fit {name}: {error}") from error


def encode(params: object) -> str:
    """Return the param of a run that has these params."""
    if hasattr(params, "model_dump_json"):  # pydantic's
        return str(params.model_dump_json())
    return msgspec.json.encode(params).decode()


def _type_of(function: Callable[..., Any], params: inspect.Parameter) -> Any:
    """Return the type of an argument; the types of other arguments need not exist at run time."""
    if params.annotation is inspect.Parameter.empty:
        raise NotATypeOfParams("a type, such as a dataclass, got: none")
    alone = type("Alone", (), {"__annotations__": {"params": params.annotation}})
    names = getattr(function, "__globals__", {})
    try:
        return typing.get_type_hints(alone, names, names, include_extras=True)["params"]
    except Exception as error:
        raise NotATypeOfParams(f"a type that can be found, got: {error}") from error


def _pydantic(kind: Any) -> tuple[dict[str, Any], Callable[[str], Any]] | None:
    if not hasattr(kind, "model_validate_json"):
        return None
    try:
        return kind.model_json_schema(), kind.model_validate_json
    except Exception as error:
        raise NotATypeOfParams(f"a type with a JSON Schema, got: {_line(error)}") from error


def _msgspec(kind: Any, name: str) -> tuple[dict[str, Any], Callable[[str], Any]]:
    try:
        schema = msgspec.json.schema(kind)
        decode = msgspec.json.Decoder(kind).decode
    except Exception as error:
        raise NotATypeOfParams(f"a type with a JSON Schema, got: {_line(error)}") from error
    definition = schema.get("$ref", "").rpartition("/")[2]
    if schema.get("$defs", {}).get(definition, {}).get("type") != "object":
        raise NotATypeOfParams(f"a struct, dataclass, TypedDict or model as type, got: {name}")
    return schema, decode


def _line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2]

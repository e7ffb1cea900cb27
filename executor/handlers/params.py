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

from warren.broker.messages import JOB_NAME_LIMIT, PARAM_BYTES, SCHEMA_BYTES
from warren.executor.handlers.context import NotATypeOfParams, ParamMisfit, Params
from warren.executor.handlers.outcomes import clean


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
    return Params(name, text, partial(_decode, kind, name, convert))


def _decode(kind: Any, name: str, convert: Callable[[str], Any], param: str) -> Any:
    try:
        return convert(param or "{}")
    except (msgspec.MsgspecError, ValueError) as error:  # pydantic's is the latter
        from warren.resources.misfits import misfit  # noqa: PLC0415 - rarely needed

        raise ParamMisfit(f"its param does not fit {name}: {misfit(error, kind)}") from error


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


def checked(job: object, params: object, param: object) -> tuple[str, str | None]:
    """Return the job's name, and the run's param as text; None = the job's own.

    Raises:
        ValueError: a text is too long, or both `params` and `param` are given.
        TypeError: `job` or `param` is not a text, or JSON cannot hold `params`.

    """
    if not isinstance(job, str) or not isinstance(param, str | None):
        wrong = job if not isinstance(job, str) else param
        raise TypeError(f"expected job and param to be texts, got: {wrong!r}")
    if not 0 < len(job) <= JOB_NAME_LIMIT:
        raise ValueError(
            f"expected job to be a name of 1 to {JOB_NAME_LIMIT} characters, got: {job[:100]!r}"
        )
    text = given_param(params, param)
    if text is not None:
        text = clean(text)
        size = len(text.encode())
        if size > PARAM_BYTES:
            raise ValueError(f"expected a param of up to {PARAM_BYTES} bytes, got: {size}")
    return clean(job), text


def given_param(params: object, param: str | None) -> str | None:
    """Return the param of a run that is given as a text or as params; None if it is not.

    Raises:
        ValueError: both are given.
        TypeError: JSON cannot hold `params`.

    """
    if params is None:
        return param
    if param is not None:
        raise ValueError("expected params or param, got: both")
    try:
        return encode(params)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise TypeError(f"expected params that JSON can hold, got: {error}") from error
